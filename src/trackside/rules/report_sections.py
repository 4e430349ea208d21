"""The sections of a report, each a function from what there is to markup, or to nothing."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from trackside.capture.modes import ModeKeys
from trackside.curves.downsample import in_order
from trackside.curves.event_reader import TOP, Series
from trackside.finding import Finding
from trackside.rules.report_charts import Line, line_chart, short, stretch_bar
from trackside.rules.report_facts import Head, Material
from trackside.rules.report_heatmaps import heat_map, heat_map_card
from trackside.rules.report_markup import Html, element, joined

MOST_CHARTS = 48
MOST_FINDINGS = 25
"""Rows of one rule's table."""
_PREFIX = re.compile("^(scalar|vitals)/")
MACHINE = "system/"
"""Begins the runs with the machine's figures."""
_STYLES = {
    "Completed": "good",
    "NoIssuesFound": "good",
    "Failed": "bad",
    "IssuesFound": "bad",
    "Error": "bad",
    "Stopped": "warn",
    "Stopping": "warn",
    "InProgress": "busy",
}


def section(anchor: str, title: str, about: str, *parts: Html | None) -> Html:
    return element("section", element("h2", title, id=anchor), element("p", about), *parts)


def tiles(facts: Sequence[tuple[str, str]]) -> Html:
    each = [
        element("div", element("b", text), element("span", label), class_="tile")
        for label, text in facts
    ]
    return element("div", *each, class_="tiles")


def table(
    headings: Sequence[str], rows: Sequence[Sequence[str | Html]], *, numbers: int = 0
) -> Html:
    """`numbers`: how many of the last columns are figures."""
    first = len(headings) - numbers

    def cells(kind: str, row: Sequence[str | Html]) -> Html:
        return joined(
            element(kind, text, class_="number" if place >= first else None)
            for place, text in enumerate(row)
        )

    body = [element("tr", cells("td", row)) for row in rows]
    whole = element(
        "table", element("thead", element("tr", cells("th", headings))), element("tbody", *body)
    )
    return element("div", whole, class_="scroll")


def head_section(head: Head, made: str) -> Html:
    pill = element("span", head.status, class_=f"pill {_STYLES.get(head.status, 'quiet')}")
    when = f"As of {made}; the job goes on." if head.is_running else f"Report of {made}."
    failure = element("pre", head.failure, class_="bad") if head.failure else None
    phases = None
    if head.phases:
        labels = [span(seconds) for _, seconds in head.phases]
        phases = element("div", stretch_bar(head.phases, labels), class_="card")
    settings = None
    if head.hyperparameters:
        rows = [(key, element("code", value)) for key, value in head.hyperparameters.items()]
        settings = element(
            "details",
            element("summary", f"{len(rows)} hyperparameters"),
            table(("name", "value"), rows),
        )
    title = element("h1", head.name, pill)
    return element(
        "header", title, element("p", when), tiles(head.facts), phases, failure, settings
    )


def findings_section(material: Material) -> Html:
    groups: dict[str, list[Finding]] = defaultdict(list)
    for finding in material.findings:
        groups[finding.rule].append(finding)
    if not groups:
        said = "No rule has found anything wrong."
        if not material.evaluations and not material.profiler_rules:
            said = "No rule watched this job, so nothing could be found."
        return section("findings", "Findings", said)
    ranked = sorted(groups.values(), key=_rank)
    about = (
        "What began first comes first: it is the likeliest cause of what follows. "
        "Findings about the machine come after those about the model."
    )
    return section("findings", "Findings", about, *map(_group, ranked))


def rules_section(material: Material) -> Html | None:
    rows: list[tuple[str | Html, ...]] = [
        (
            _rule_name(each.configuration, each.rule),
            element("span", str(each.status), class_=_STYLES.get(str(each.status), "quiet")),
            each.details,
            f"{each.num_findings:,}",
        )
        for each in material.evaluations
    ]
    watched = {each.rule for each in material.evaluations}
    if material.profile is not None:
        for rule in material.profiler_rules:
            if rule.name() not in watched and rule.advice:  # without advice: it never fires
                rows.append(
                    _looked_at_now(rule.name(), rule.missing(material.profile), rule.triggered)
                )
    if not rows:
        return None
    about = "Which rules watched the job, and how far each is."
    headings = ("rule", "status", "details", "findings")
    content = element("div", table(headings, rows, numbers=1), class_="card")
    return section("rules", "Rules", about, content)


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


def layers_section(material: Material) -> Html | None:
    if material.trial is None:
        return None
    trial = material.trial
    kinds = {
        "Gradients": trial.tensor_names(collection="gradients"),
        "Weights": trial.tensor_names(collection="weights"),
        "Biases": trial.tensor_names(collection="biases"),
        "Spread of activations": trial.tensor_names(regex="^vitals/activation/.*/std$"),
    }
    maps = [heat_map(trial, names, title) for title, names in kinds.items()]
    onsets = _onsets(material.findings)
    drawn = [heat_map_card(each, onsets) for each in maps if each is not None]
    if not drawn:
        return None
    about = (
        "Each row is a tensor, each column a step; dark is small, bright is large. A row that "
        "darkens stops learning, one that brightens may explode. Marks on top: findings begin."
    )
    return section("layers", "Layers", about, *drawn)


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


def gaps_section(gaps: Sequence[str]) -> Html | None:
    if not gaps:
        return None
    items = element("ul", *[element("li", gap) for gap in gaps], class_="gaps")
    about = "What this page could not show, and how to get it next time."
    return section("gaps", "Not captured", about, element("div", items, class_="card"))


def span(seconds: float) -> str:
    """`340 ms`, `8.2 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} µs"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes_left = divmod(minutes, 60)
    return f"{hours} h {minutes_left} min" if hours else f"{minutes} min {rest} s"


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


def _rank(group: Sequence[Finding]) -> tuple[bool, float, int]:
    steps = [each.step for each in group if each.step is not None]
    return not steps, min(steps, default=0), -len(group)


def _onsets(findings: Sequence[Finding]) -> dict[int, str]:
    """Step to the rules that first found something there."""
    first: dict[str, int] = {}
    for each in findings:
        if each.step is not None:
            first[each.rule] = min(each.step, first.get(each.rule, each.step))
    return {
        step: ", ".join(rule for rule, began in first.items() if began == step)
        for step in sorted(set(first.values()))
    }


def _group(group: Sequence[Finding]) -> Html:
    ordered = sorted(group, key=lambda each: (each.step is None, each.step or 0))
    first = ordered[0]
    has_step = first.step is not None
    count = f"{len(ordered)} findings" if len(ordered) > 1 else "1 finding"
    where = f"{count}, from step {first.step:,} on" if has_step else count
    return element(
        "article",
        element("h3", first.rule, element("small", where)),
        element("p", first.message),
        element("p", joined(_chips(first)), class_="chips"),
        element("p", first.advice, class_="advice") if first.advice else None,
        _all_of(ordered) if len(ordered) > 1 else None,
        class_="card finding" if has_step else "card finding machine",
    )


def _chips(finding: Finding) -> Iterator[Html]:
    named = {
        "step": "" if finding.step is None else f"{finding.step:,}",
        "mode": finding.mode,
        "worker": finding.worker,
        "tensor" if finding.step is not None else "where": finding.tensor,
        "value": "" if finding.value is None else short(finding.value),
        "threshold": "" if finding.threshold is None else short(finding.threshold),
    }
    for label, text in named.items():
        if text:
            yield element("span", f"{label} ", element("code", text))


def _all_of(findings: Sequence[Finding]) -> Html:
    rows = [
        (
            "" if each.step is None else f"{each.step:,}",
            each.mode,
            element("code", " ".join(filter(None, [each.worker, each.tensor]))),
            "" if each.value is None else short(each.value),
            "" if each.threshold is None else short(each.threshold),
            each.message,
        )
        for each in findings[:MOST_FINDINGS]
    ]
    headings = ("step", "mode", "where", "value", "threshold", "what")
    all_of_them = f"All {len(findings)}"
    if len(findings) > MOST_FINDINGS:
        all_of_them = f"The first {MOST_FINDINGS} of {len(findings):,}"
    return element("details", element("summary", all_of_them), table(headings, rows))


def _rule_name(configuration: str, rule: str) -> Html:
    """What the job calls it, and what it is when that differs."""
    return joined(
        [
            configuration,
            element("span", f" ({rule})", class_="quiet") if rule != configuration else None,
        ]
    )


def _looked_at_now(rule: str, missing: str, triggered: int) -> tuple[str | Html, ...]:
    """A rule that the job did not ask for."""
    if missing:
        return rule, element("span", "nothing to watch", class_="quiet"), missing, "0"
    status = "IssuesFound" if triggered else "NoIssuesFound"
    shown = element("span", status, class_=_STYLES[status])
    return rule, shown, "Judged for this report.", f"{triggered:,}"


def _scalar_charts(material: Material) -> list[tuple[str, list[Line]]]:
    """A chart for each tag, with a line for each run; losses first."""
    by_tag: dict[str, list[Series]] = defaultdict(list)
    for (run, tag), series in sorted((material.curves.scalars if material.curves else {}).items()):
        if not run.startswith(MACHINE):
            by_tag[tag].append(series)
    ordered = sorted(by_tag, key=lambda tag: ("loss" not in tag.lower(), tag))
    return [
        (tag, [_line(series) for series in by_tag[tag]])
        for tag in ordered
        if not _is_twice(tag, by_tag)
    ]


def _is_twice(tag: str, known: Mapping[str, object]) -> bool:
    """The hook also files each loss as a metric, under its name and its mode."""
    name, _, mode = tag.rpartition("_")
    return mode in ModeKeys.__members__ and name in known


def _captured_charts(material: Material) -> list[tuple[str, list[Line]]]:
    """Losses, vitals and scalars that only the trial has."""
    trial = material.trial
    if trial is None:
        return []
    losses = [each for each in trial.tensor_names(collection="losses") if "_input_" not in each]
    # Those of single layers are a map, and a checksum is no curve.
    vitals = trial.tensor_names(regex=r"^vitals/(?!activation/|input/fingerprint)")
    names = dict.fromkeys([*losses, *vitals, *trial.tensor_names(regex="^scalar/")])
    drawn = {tag for _, tag in (material.curves.scalars if material.curves else {})}
    charts = []
    for name in [each for each in names if _PREFIX.sub("", each) not in drawn][:MOST_CHARTS]:
        cube = trial.cube([name], "mean")
        kept = cube.saved[:, 0]
        line = Line(name, np.array(cube.steps)[kept], cube.values[kept, 0])
        if len(line.x):
            charts.append((_PREFIX.sub("", name), [line]))
    return charts


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
