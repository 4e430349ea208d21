"""Curves of a job and of the machine it ran on, as sections of a report."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from trackside.capture.modes import ModeKeys
from trackside.capture.trial import Trial
from trackside.capture.trial_layout import VITALS
from trackside.curves.downsample import in_order
from trackside.curves.event_reader import TOP, Series
from trackside.rules.report.charts import Line, line_chart, short
from trackside.rules.report.facts import Material
from trackside.rules.report.markup import Html, element
from trackside.rules.report.sections import section, tiles

MOST_CHARTS = 48
MACHINE = "system/"
"""Begins the runs with the machine's figures."""
_FIRST_VITALS = (
    "gradient_norm",
    "update_ratio",
    "step_seconds",
    "samples_per_second",
    "predictions/accuracy",
    "learning_rate/0",
)
"""What most people look at; the others follow."""


def curves_section(material: Material) -> Html | None:
    charts = _scalar_charts(material) + _captured_charts(material)
    if not charts:
        return None
    left_out = len(charts) - MOST_CHARTS
    about = "What the script wrote, and what was found in its log. Extremes are kept."
    if left_out > 0:
        about += f" {left_out} more are in TensorBoard: trackside tensorboard {material.head.name}"
    drawn = [line_chart(title, lines) for title, lines in charts[:MOST_CHARTS]]
    return section("curves", "Curves", about, element("div", *drawn, class_="grid"))


def vitals_section(material: Material) -> Html | None:
    """What the hook measures of every training; what never changes is told in figures."""
    trial = material.trial
    lines = [_captured(trial, name) for name in _vitals(trial)] if trial else []
    lines = [Line(each.name.removeprefix(VITALS), each.x, each.y) for each in lines if len(each.x)]
    if not lines:
        return None
    steady = [each.name for each in lines if bool((each.y == each.y[0]).all())]
    charts = [line_chart(each.name, [each]) for each in lines if each.name not in steady]
    facts = [(each.name, short(float(each.y[0]))) for each in lines if each.name in steady]
    about = "What the hook measures of every training. The figures in boxes never changed."
    drawn = element("div", *charts, class_="grid")
    return section("vitals", "Vitals", about, drawn, tiles(facts) if facts else None)


def machine_section(material: Material) -> Html | None:
    if material.curves is None:
        return None
    by_tag: dict[str, list[Series]] = defaultdict(list)
    for (run, tag), series in sorted(material.curves.scalars.items()):
        if run.startswith(MACHINE):
            by_tag[tag].append(series)
    drawn = []
    for title, unit, tags, divisor in _MACHINE_CHARTS:
        found = {tag: by_tag[tag] for tag in _expanded(tags, by_tag) if tag in by_tag}
        if found:
            lines = _machine_lines(found, divisor)
            drawn.append(line_chart(title, lines, unit=unit, x_name="second", zero=True))
    if not drawn:
        return None
    about = "What each host did while the script ran, over the script's seconds."
    return section("machine", "Machine", about, element("div", *drawn, class_="grid"))


_MACHINE_CHARTS = (
    ("Processors", "%", ("cpu/total_percent", "cpu/io_wait_percent"), 1.0),
    ("The script's processor use", "% of one core", ("script/cpu_percent",), 1.0),
    ("Memory used", "%", ("memory/used_percent",), 1.0),
    ("The script's memory", "MB", ("script/memory_bytes",), 1e6),
    ("GPUs", "%", ("gpu_*/utilization_percent",), 1.0),
    ("GPU memory", "%", ("gpu_*/memory_percent",), 1.0),
    ("Disks", "MB/s", ("disk/read_bytes_per_second", "disk/written_bytes_per_second"), 1e6),
    (
        "Network",
        "MB/s",
        ("network/received_bytes_per_second", "network/sent_bytes_per_second"),
        1e6,
    ),
)
"""Title, unit, tags (`*` is any number) and what the values are divided by."""


def _scalar_charts(material: Material) -> list[tuple[str, list[Line]]]:
    """A chart for each tag, with a line for each run; losses first."""
    vitals = _vitals(material.trial)
    by_tag: dict[str, list[Series]] = defaultdict(list)
    for (run, tag), series in sorted((material.curves.scalars if material.curves else {}).items()):
        if not run.startswith(MACHINE) and tag not in vitals:
            by_tag[tag].append(series)
    ordered = sorted(by_tag, key=lambda tag: ("loss" not in tag.lower(), tag))
    return [
        (tag, [_line(series) for series in by_tag[tag]])
        for tag in ordered
        if not _is_twice(tag, by_tag)
    ]


def _is_twice(tag: str, known: Mapping[str, object]) -> bool:
    return _ends_with_mode(tag) and tag.rpartition("_")[0] in known


def _ends_with_mode(tag: str) -> bool:
    """The hook also files each loss as a metric, under its name and its mode."""
    return tag.rpartition("_")[2] in ModeKeys.__members__


def _captured_charts(material: Material) -> list[tuple[str, list[Line]]]:
    """Losses and scalars that only the trial has."""
    trial = material.trial
    if trial is None:
        return []
    losses = [each for each in trial.tensor_names(collection="losses") if "_input_" not in each]
    names = dict.fromkeys([*losses, *trial.tensor_names(regex="^scalar/")])
    drawn = {tag for _, tag in (material.curves.scalars if material.curves else {})}
    drawn |= {tag.rpartition("_")[0] for tag in drawn if _ends_with_mode(tag)}
    missing = [each for each in names if each.removeprefix("scalar/") not in drawn]
    lines = [_captured(trial, name) for name in missing[:MOST_CHARTS]]
    return [(line.name.removeprefix("scalar/"), [line]) for line in lines if len(line.x)]


def _vitals(trial: Trial | None) -> list[str]:
    """Without those of single layers, which are a map, and a checksum, which is no curve."""
    if trial is None:
        return []
    names = trial.tensor_names(regex=f"^{VITALS}(?!activation/|input/fingerprint)")
    first = {VITALS + name: place for place, name in enumerate(_FIRST_VITALS)}
    return sorted(names, key=lambda name: (first.get(name, len(first)), name))


def _captured(trial: Trial, name: str) -> Line:
    """A tensor of one element at each of its steps."""
    return Line.of(trial.cube([name], "mean"), 0)


def _line(series: Series) -> Line:
    kept = in_order(series.steps)
    steps, values = (
        (series.steps, series.values) if kept is None else (series.steps[kept], series.values[kept])
    )
    name = "log" if series.run.startswith("trackside/") else series.run
    return Line("all" if name == TOP else name, steps, values)


def _expanded(tags: Sequence[str], known: Mapping[str, object]) -> list[str]:
    found: list[str] = []
    for tag in tags:
        start, star, end = tag.partition("*")
        if star:
            found += sorted(each for each in known if each.startswith(start) and each.endswith(end))
        else:
            found.append(tag)
    return found


def _machine_lines(found: Mapping[str, Sequence[Series]], divisor: float) -> list[Line]:
    """Named by what differs: the host, the figure, or both."""
    hosts = {series.run for runs in found.values() for series in runs}
    lines = []
    for tag, runs in found.items():
        figure = tag.partition("/")[0] if tag.startswith("gpu_") else tag.partition("/")[2]
        figure = re.sub("_percent|_bytes_per_second", "", figure).replace("_", " ")
        for series in runs:
            host = series.run.removeprefix(MACHINE)
            name = " ".join(
                filter(None, [host if len(hosts) > 1 else "", figure if len(found) > 1 else ""])
            )
            line = _line(series)
            lines.append(Line(name or host, line.x, line.y / divisor))
    return lines
