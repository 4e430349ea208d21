"""The profiler's part of a report: step times, and how much of each resource was used."""

from collections.abc import Iterator, Sequence

import numpy as np

from trackside.capture.dtypes import Array
from trackside.curves.machine_curves import DIMENSION_CHARTS, PERCENT
from trackside.rules.profiler.steps import outlier_limit
from trackside.rules.profiler.summaries import OVERALL, overall, percentile
from trackside.rules.profiler.usage import ordered_dimensions
from trackside.rules.report.charts import MOST_LINES, Line, histogram, line_chart, short
from trackside.rules.report.facts import Fact
from trackside.rules.report.markup import Html, element, joined
from trackside.rules.report.sections import section, span, table, tiles
from trackside.rules.saved.profile import STEP, Profile, mean_of_columns
from trackside.rules.saved.profile_tables import Events, Samples

MOST_WORKERS = 4
"""Processes whose steps are drawn; the table has all."""
OUTLIER_DEVIATIONS = 3.0
MOST_NAMES = 8
"""Rows per resource; with more cores, the table has their mean and the busiest."""


def steps_section(profile: Profile | None) -> Html | None:
    phases = _step_phases(profile)
    if not phases:
        return None
    cards = [_steps_of(worker, phase, steps) for worker, phase, steps in phases[:MOST_WORKERS]]
    rows = [
        (
            worker,
            phase.removeprefix(STEP),
            f"{len(steps):,}",
            *(span(value) for value in _five(steps.durations)),
            span(float(steps.durations.sum())),
        )
        for worker, phase, steps in phases
    ]
    headings = ("worker", "mode", "steps", "median", "p95", "p99", "longest", "shortest", "total")
    about = (
        "How long each step took. Red: longer than the mean plus three standard deviations. "
        "Steps that are long while the processors are idle wait for data."
    )
    content = element("div", table(headings, rows, numbers=7), class_="card")
    return section("steps", "Step times", about, *cards, content)


def usage_section(profile: Profile | None) -> Html | None:
    if profile is None or not profile.nodes:
        return None
    parts = []
    for node, nodes_table in sorted(profile.nodes.items()):
        rows = [
            (title, name, *(short(figures[key]) for key in OVERALL))
            for dimension, title in ordered_dimensions(nodes_table)
            for name, values in _few(nodes_table.samples(dimension), MOST_NAMES)
            if (figures := overall(values))
        ]
        headings = ("resource", "what", *OVERALL)
        content = table(headings, rows, numbers=len(OVERALL))
        parts += [element("h3", node), element("div", content, class_="card")]
    about = (
        "Percentiles over the whole job; network and disks in bytes per second, the rest in %. "
        "Busiest: the highest of all at each time."
    )
    return section("usage", "Use of resources", about, *parts)


def samples_section(profile: Profile | None) -> Html | None:
    """The profiler's samples of the machine, for a page without the job's curves."""
    if profile is None or not profile.nodes:
        return None
    began = first_sample(profile)
    drawn = []
    for dimension, title in DIMENSION_CHARTS.items():
        names = len(profile.columns(dimension))
        lines = [
            Line(
                f"{node} {name}" if len(profile.nodes) > 1 else name,
                samples.times[~np.isnan(values)] - began,
                values[~np.isnan(values)],
            )
            for node, nodes_table in sorted(profile.nodes.items())
            for samples in [nodes_table.samples(dimension)]
            for name, values in _few(samples, MOST_LINES if names <= MOST_LINES else 1)
        ]
        if lines:
            drawn.append(line_chart(title, lines, unit=PERCENT.on_axis, x_name="second", zero=True))
    about = "What each node did, over the seconds since the first sample."
    return section("machine", "Machine", about, element("div", *drawn, class_="grid"))


def first_sample(profile: Profile) -> float:
    """Time of the machine's first sample. The profile's first time may be that of a step."""
    firsts = [float(table.times[0]) for table in profile.nodes.values() if len(table.times)]
    return min(firsts, default=profile.first_time or 0.0)


def _few(samples: Samples, most: int) -> Iterator[tuple[str, Array]]:
    """Each value; with more than `most`, their mean and, at each time, the highest."""
    if len(samples.names) <= most:
        for place, name in enumerate(samples.names):
            yield name, samples.values[:, place]
    else:
        is_known = np.isfinite(samples.values).any(axis=1)
        yield f"mean of {len(samples.names)}", mean_of_columns(samples.values)
        highest = np.where(np.isnan(samples.values), -np.inf, samples.values).max(axis=1)
        yield "busiest", np.where(is_known, highest, np.nan)


def _step_phases(profile: Profile | None) -> list[tuple[str, str, Events]]:
    return [
        (worker, phase, events)
        for worker, phases in (sorted(profile.events.items()) if profile else ())
        for phase, events in sorted(phases.items(), key=lambda item: -len(item[1]))
        if phase.startswith(STEP) and len(events)
    ]


def _steps_of(worker: str, phase: str, steps: Events) -> Html:
    mode, durations = phase.removeprefix(STEP), steps.durations
    limit = outlier_limit(steps, OUTLIER_DEVIATIONS) if len(steps) > 1 else np.inf
    outliers = durations > limit
    gaps = steps.starts[1:] - steps.ends[:-1]
    facts = [
        Fact(f"{mode} steps, {worker}", f"{len(steps):,}"),
        Fact("median", span(percentile(durations, 50))),
        Fact("95th percentile", span(percentile(durations, 95))),
        Fact("longest", span(float(durations.max()))),
        Fact("outliers", f"{int(outliers.sum()):,}"),
        Fact("between steps, median", span(max(0.0, percentile(gaps, 50)) if len(gaps) else 0.0)),
    ]
    scale, unit = (1.0, "s") if percentile(durations, 50) >= 1 else (1e3, "ms")
    over_time = line_chart(
        f"{mode} step times, {worker}",
        [Line(mode, steps.steps, durations * scale)],
        unit=unit,
        marks=_marks(steps, outliers, scale),
    )
    spread = histogram(f"Distribution, {worker}", durations * scale, unit=unit, limit=limit * scale)
    return joined([tiles(facts), element("div", over_time, spread, class_="grid pair wide")])


def _marks(steps: Events, outliers: Array, scale: float) -> tuple[Array, Array]:
    """The two hundred longest steps."""
    places = np.flatnonzero(outliers)
    places = places[np.argsort(steps.durations[places])[-200:]]
    return steps.steps[places], steps.durations[places] * scale


def _five(values: Array) -> Sequence[float]:
    return [*(percentile(values, each) for each in (50, 95, 99)), values.max(), values.min()]
