"""Curves of a job and of the machine it ran on, as sections of a report."""

from collections.abc import Mapping, Sequence

from trackside.capture.trial import Trial
from trackside.capture.trial_layout import VITALS
from trackside.curves.curve_choice import (
    STEP,
    Curve,
    Origin,
    all_curves,
    drawn_over,
    groups,
    is_machine,
    labels_of,
    title_of,
)
from trackside.curves.downsample import in_order
from trackside.curves.event_reader import Series
from trackside.curves.machine_curves import FIGURES, Figure, figure_of
from trackside.quick_dataclass import dataclass
from trackside.rules.report.charts import Line, line_chart, short
from trackside.rules.report.facts import Material
from trackside.rules.report.markup import Html, element
from trackside.rules.report.sections import counted, section, table

MOST_CHARTS = 48
FIRST_VITALS = 6
"""Charts that are shown; the others are folded."""
_FIRST_VITALS = (
    "gradient_norm",
    "update_ratio",
    "step_seconds",
    "samples_per_second",
    "predictions/accuracy",
    "learning_rate/0",
)
"""Vitals that are shown first."""


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    lines: Sequence[Line]
    x_name: str = STEP


def curves_section(material: Material) -> Html | None:
    own, of_hook = _scalar_charts(material)
    of_hook += _captured_charts(material)
    if not any("loss" in chart.title for chart in own):
        own, of_hook = of_hook + own, []
    if not own:
        return None
    left_out = len(own) - MOST_CHARTS
    about = "Values that the script wrote and metrics from its log. All extremes are shown."
    if left_out > 0:
        about += f" {left_out} more are in TensorBoard: trackside tensorboard {material.head.name}"
    folded = None
    if of_hook:
        folded = _folded(f"{counted(len(of_hook), 'curve')} by the hook", _grid(of_hook))
    return section("curves", "Curves", about, _grid(own), folded)


def _grid(charts: Sequence[Chart]) -> Html:
    drawn = [line_chart(each.title, each.lines, x_name=each.x_name) for each in charts]
    return element("div", *drawn[:MOST_CHARTS], class_="grid")


def vitals_section(material: Material) -> Html | None:
    """The hook's vitals as charts; constant values are listed in a table."""
    trial = material.trial
    lines = [_captured(trial, name) for name in _vitals(trial)] if trial else []
    lines = [Line(each.name.removeprefix(VITALS), each.x, each.y) for each in lines if len(each.x)]
    if not lines:
        return None
    steady = {each.name: short(float(each.y[0])) for each in lines if _is_steady(each)}
    charts = [line_chart(each.name, [each]) for each in lines if each.name not in steady]
    about = "What the hook measures of every training."
    first, rest = charts[:FIRST_VITALS], charts[FIRST_VITALS:]
    return section(
        "vitals",
        "Vitals",
        about,
        element("div", *first, class_="grid") if first else None,
        _folded(f"{len(rest)} more", element("div", *rest, class_="grid")) if rest else None,
        _never_changed(steady) if steady else None,
    )


def _is_steady(line: Line) -> bool:
    return bool((line.y == line.y[0]).all())


def _folded(title: str, content: Html) -> Html:
    return element("details", element("summary", title), content)


def _never_changed(steady: Mapping[str, str]) -> Html:
    rows = [*steady.items()]
    content = element("div", table(("vital", "value"), rows, numbers=1), class_="card narrow")
    return _folded(f"{len(steady)} that never changed", content)


def machine_section(material: Material) -> Html | None:
    if material.curves is None:
        return None
    by_tag: dict[str, list[Series]] = {}
    for (_, tag), series in sorted(material.curves.scalars.items()):
        if is_machine(series):
            by_tag.setdefault(tag, []).append(series)
    drawn = []
    for title, figures in _machine_charts().items():
        first, found = figures[0], _of_figures(figures, by_tag)
        if material.is_one_machine and not first.is_of_script:
            found = {tag: runs[:1] for tag, runs in found.items()}
        if found:
            lines = _machine_lines(found, first.unit.divisor)
            unit = first.unit.on_axis
            drawn.append(line_chart(title, lines, unit=unit, x_name="second", zero=True))
    if not drawn:
        return None
    about = "What each host did while the script ran, over the script's seconds."
    return section("machine", "Machine", about, element("div", *drawn, class_="grid"))


def _machine_charts() -> dict[str, list[Figure]]:
    """By title."""
    charts: dict[str, list[Figure]] = {}
    for figure in FIGURES:
        if figure.chart:
            charts.setdefault(figure.chart, []).append(figure)
    return charts


def _of_figures(
    figures: Sequence[Figure], by_tag: Mapping[str, list[Series]]
) -> dict[str, list[Series]]:
    return {tag: by_tag[tag] for figure in figures for tag in by_tag if figure.matches(tag)}


def _scalar_charts(material: Material) -> tuple[list[Chart], list[Chart]]:
    """As `curve_choice` groups them: the script's own curves first, then those of the hook."""
    if material.curves is None:
        return [], []
    vitals = set(_vitals(material.trial))
    shown = [
        curve
        for curve in all_curves(material.curves)
        if not (curve.same_as or curve.series.tag in vitals or len(curve.series.steps) == 0)
    ]
    own = [_chart(group) for group in groups(c for c in shown if c.origin <= Origin.LOG)]
    # The hook counts steps separately in each mode, so modes share no axis.
    of_hook = [_chart([curve]) for curve in shown if curve.origin is Origin.HOOK]
    return own, of_hook


def _chart(group: Sequence[Curve]) -> Chart:
    x_name, places = drawn_over(group)
    lines = [
        Line(label, x, curve.series.values)
        for label, x, curve in zip(labels_of(group), places, group, strict=True)
    ]
    return Chart(title_of(group), lines, x_name)


def _captured_charts(material: Material) -> list[Chart]:
    """Losses and scalars that are only in the trial."""
    trial = material.trial
    if trial is None:
        return []
    losses = [each for each in trial.tensor_names(collection="losses") if "_input_" not in each]
    names = dict.fromkeys([*losses, *trial.tensor_names(regex="^scalar/")])
    drawn = {tag for _, tag in (material.curves.scalars if material.curves else {})}
    drawn |= {tag.rpartition("_")[0] for tag in drawn}  # the hook also saves it under its mode
    missing = [each for each in names if each.removeprefix("scalar/") not in drawn]
    lines = [_captured(trial, name) for name in missing[:MOST_CHARTS]]
    return [Chart(line.name.removeprefix("scalar/"), [line]) for line in lines if len(line.x)]


def _vitals(trial: Trial | None) -> list[str]:
    """Vitals to draw as curves: without single layers (see `heatmaps`) and without checksums."""
    if trial is None:
        return []
    names = trial.tensor_names(regex=f"^{VITALS}(?!activation/|input/fingerprint)")
    first = {VITALS + name: place for place, name in enumerate(_FIRST_VITALS)}
    return sorted(names, key=lambda name: (first.get(name, len(first)), name))


def _captured(trial: Trial, name: str) -> Line:
    """A tensor of one element at each of its steps."""
    return Line.of(trial.cube([name], "mean"), 0)


def _line(series: Series, name: str) -> Line:
    kept = in_order(series.steps)
    steps, values = (
        (series.steps, series.values) if kept is None else (series.steps[kept], series.values[kept])
    )
    return Line(name, steps, values)


def _machine_lines(found: Mapping[str, Sequence[Series]], divisor: float) -> list[Line]:
    """Lines named by what differs: the host, the metric, or both."""
    hosts = {series.run for runs in found.values() for series in runs}
    lines = []
    for tag, runs in found.items():
        figure = tag.partition("/")[0] if tag.startswith("gpu_") else tag.partition("/")[2]
        unit = known.unit.suffix if (known := figure_of(tag)) else ""
        figure = figure.removesuffix(unit).replace("_", " ")
        for series in runs:
            host = series.run.rpartition("/")[2]
            name = " ".join(
                filter(None, [host if len(hosts) > 1 else "", figure if len(found) > 1 else ""])
            )
            line = _line(series, name or host)
            lines.append(Line(line.name, line.x, line.y / divisor))
    return lines
