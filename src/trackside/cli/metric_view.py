"""A job's curves on a terminal: charts for the script's own, a table for all others. Pure;
`metrics` reads and prints.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy

from trackside.cli.chart import FRAME_ROWS, LEAST_ROWS, Line, chart, sparkline
from trackside.cli.styled_text import Text
from trackside.cli.tables import Cell, table_lines, together
from trackside.curves.columns import Reals
from trackside.curves.curve_choice import (
    STEP,
    Curve,
    Origin,
    best,
    drawn_over,
    groups,
    labels_of,
    title_of,
)
from trackside.curves.machine_curves import with_unit

NUMBERS = ("LAST", "STEP", "MIN", "MAX", "POINTS")
COLUMNS = ("METRIC", *NUMBERS, "CURVE")
SPARE = ("POINTS", "STEP")
MOST_CHARTS = 6
MOST_LINES = 4
"""Lines per chart; more would be indistinguishable."""
_ROWS = {1: 18, 2: 14, 3: 12, 4: 11}
"""Rows of a chart, by the number of charts; 10 for more."""
_LEAST_CHART = FRAME_ROWS + LEAST_ROWS + 1


def view(
    curves: Sequence[Curve], columns: int, rows: int | None = None, *, is_ascii: bool = False
) -> list[Text]:
    """At most `rows` lines, if given: then the charts are as high as fits."""
    drawn = _charted(curves)
    rest = [curve for curve in curves if not any(curve in group for group in drawn)]
    table = list(_table(rest, columns, is_ascii=is_ascii)) if rest else []
    height = _ROWS.get(len(drawn), 10)
    if rows is not None and drawn:
        table = table[: max(rows // 3, rows - len(drawn) * (_LEAST_CHART + 1))]
        room = rows - len(table) - (1 if table else 0)
        drawn = drawn[: max(1, room // (_LEAST_CHART + 1))]
        height = room // len(drawn) - 1
    lines: list[Text] = []
    for group in drawn:
        lines += [*group_chart(group, (columns, height), is_ascii=is_ascii), Text("")]
    return [*lines, *table] if table else lines[:-1]


def table_rows(
    curves: Sequence[Curve], *, is_grouped: bool, is_ascii: bool = False
) -> Iterator[list[Cell]]:
    """With `is_grouped`, the machine's long names are grouped below their common part."""
    above = ""
    for curve in curves:
        run = curve.series.run
        if not (curve.origin is Origin.MACHINE and is_grouped):
            yield _row(curve, curve.name, is_ascii)
            continue
        if run != above:
            above = run
            yield [Cell(above), *(Cell("") for _ in COLUMNS[1:])]
        yield _row(curve, together(f"  {curve.series.tag}"), is_ascii)


def shown_value(curve: Curve, value: float) -> str:
    is_machine = curve.origin is Origin.MACHINE
    return with_unit(curve.series.tag, value) if is_machine else f"{value:.6g}"


def _table(curves: Sequence[Curve], columns: int, *, is_ascii: bool) -> Iterator[Text]:
    rows = [*table_rows(curves, is_grouped=True, is_ascii=is_ascii)]
    return table_lines(COLUMNS, rows, columns, numbers=NUMBERS, spare=SPARE)


def _row(curve: Curve, name: str, is_ascii: bool) -> list[Cell]:
    series = curve.series
    drawn = partial(sparkline, series.values, is_ascii=is_ascii)
    finite = series.values[numpy.isfinite(series.values)]
    bounds = (
        [shown_value(curve, float(each)) for each in (finite.min(), finite.max())]
        if len(finite)
        else ["", ""]
    )
    return [
        Cell(name),
        Cell(shown_value(curve, float(series.values[-1])), "bold"),
        Cell(str(series.steps[-1])),
        *map(Cell, bounds),
        Cell(str(len(series))),
        Cell(drawn(), "cyan", at_width=drawn),
    ]


def _charted(curves: Sequence[Curve]) -> list[list[Curve]]:
    """The script's own; without any, the hook's; without those, all. A constant curve, or a single
    point, needs only a row.
    """
    for most in (Origin.LOG, Origin.HOOK, Origin.MACHINE):
        found = [curve for curve in curves if curve.origin <= most]
        if found:
            moving = [group[:MOST_LINES] for group in groups(found) if any(map(_moves, group))]
            return moving[:MOST_CHARTS]
    return []


def _moves(curve: Curve) -> bool:
    values = curve.series.values
    return len(values) > 1 and not bool((values == values[0]).all())


def group_chart(
    group: Sequence[Curve],
    size: tuple[int, int],
    *,
    steps: Sequence[int] = (),
    is_ascii: bool = False,
) -> list[Text]:
    """One chart for the curves of one metric; `steps` are marked."""
    if len(group) == 1:
        (curve,) = group
        line = Line("", _figures(curve), curve.series.steps.astype(float), curve.series.values)
        return chart(curve.name, [line], STEP, size, events=steps, is_ascii=is_ascii)
    labels = labels_of(group)
    x_name, places = drawn_over(group)
    lines = [
        Line(label, f"{label} {_figures(curve)}", x, curve.series.values)
        for label, curve, x in zip(labels, group, places, strict=True)
    ]
    events = steps if x_name == STEP else _times_of(steps, group, places)
    return chart(title_of(group), lines, x_name, size, events=events, is_ascii=is_ascii)


def _times_of(
    steps: Sequence[int], group: Sequence[Curve], places: Sequence[Reals]
) -> Sequence[float]:
    """On an axis of time, by the curve with the most steps."""
    at = max(range(len(group)), key=lambda number: group[number].series.steps[-1])
    known = group[at].series.steps
    found = numpy.interp([step for step in steps if step <= known[-1]], known, places[at])
    return [float(each) for each in found]


def _figures(curve: Curve) -> str:
    """`0.3502 (best 0.3035 at 77)`."""
    series = curve.series
    last = shown_value(curve, float(series.values[-1]))
    found = best(series) if curve.origin is not Origin.MACHINE else None
    if found is None or found[0] == series.values[-1]:
        return last
    return f"{last} (best {shown_value(curve, found[0])} at {found[1]})"
