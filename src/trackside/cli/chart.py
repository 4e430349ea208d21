"""Curves as a chart of text: axes with figures, a line for each, what they are called. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from rich.cells import cell_len
from rich.text import Text

from trackside.cli import axes
from trackside.cli.canvas import ASCII_MARKS, Canvas
from trackside.curves.columns import Reals
from trackside.curves.downsample import thin

STYLES = ("cyan", "yellow", "magenta", "green")
STEP = "step"
LEAST_ROWS = 3
FRAME_ROWS = 3
"""Beside the rows of the canvas: the title, and below it the axis and its figures."""
_LEAST_COLUMNS = 10
_APART_X, _APART_Y = 12.0, 1.5
"""Columns and rows between two figures, at least."""


@dataclass(frozen=True, slots=True)
class Line:
    label: str
    """At its end, where there are several."""
    told: str
    """Behind the title."""
    x: Reals
    y: Reals


@dataclass(frozen=True, slots=True)
class Marks:
    """The letters that a chart's frame is made of."""

    side: str = "│"
    tick: str = "┤"
    corner: str = "└"
    floor: str = "─"
    mark: str = "┬"
    gap: str = "×"
    keys: str = "━"
    """Of each line, in turn."""


_PLAIN = Marks("|", "+", "+", "-", "+", "x", ASCII_MARKS)


def chart(
    title: str,
    lines: Sequence[Line],
    x_name: str,
    size: tuple[int, int],
    *,
    is_ascii: bool = False,
) -> list[Text]:
    """`size` is columns and rows of all of it, the title and the axes included. Steps, as `x_name`
    says, are counted in whole numbers."""
    columns, rows = size
    marks = _PLAIN if is_ascii else Marks()
    finite = numpy.concatenate([line.y[numpy.isfinite(line.y)] for line in lines])
    scale = axes.fitting(finite) if len(finite) else axes.Scale(0.0, 1.0)
    head = _title(title, scale, lines, columns, marks)
    canvas_rows = max(LEAST_ROWS, rows - FRAME_ROWS + 1 - len(head))
    ticks = axes.ticks(scale, canvas_rows, least_apart=_APART_Y)
    margin = max([cell_len(text) for text in ticks.values()], default=0)
    labels = [line.label for line in lines] if len(lines) > 1 else []
    right = max([cell_len(label) + 1 for label in labels], default=0)
    width = max(_LEAST_COLUMNS, columns - margin - 2 - right)
    canvas = Canvas(width, canvas_rows, is_ascii)
    x_scale = _of_x(numpy.concatenate([line.x for line in lines]).astype(float))
    for number, line in enumerate(lines):
        _draw(canvas, line, number, x_scale, scale)
    at_ends = _ends(lines, scale, canvas_rows) if labels else {}
    body = []
    for row in range(canvas_rows):
        from_below = canvas_rows - 1 - row
        text = ticks.get(from_below, "")
        side = marks.tick if from_below in ticks else marks.side
        drawn = Text(" " * (margin - cell_len(text))).append(text).append(f" {side}", "dim")
        for letter, number in canvas.row(row):
            drawn.append(letter, "" if number is None else style(number))
        if row in at_ends:
            drawn.append(f" {lines[at_ends[row]].label}", style(at_ends[row]))
        body.append(drawn)
    for number, line in enumerate(lines):
        _cross_out(body[0], line, number, x_scale, margin + 2, width, marks)
    for drawn in body:
        drawn.rstrip()
    return [*head, *body, *_floor(x_scale, x_name, margin, width, marks)]


def _of_x(values: Reals) -> axes.Scale:
    scale = axes.linear(values)
    first = float(values[0])
    return axes.Scale(first - 1, first + 1) if bool((values == first).all()) else scale


def style(number: int) -> str:
    return STYLES[number % len(STYLES)]


def _title(
    title: str, scale: axes.Scale, lines: Sequence[Line], columns: int, marks: Marks
) -> list[Text]:
    """On further lines what has no room on the first."""
    head = [Text(title, "bold")]
    if scale.name:
        head[0].append(f" ({scale.name})", "dim")
    for number, line in enumerate(lines):
        key = marks.keys[number % len(marks.keys)]
        told = Text(f"{key} ", style(number)).append(line.told, "none")
        if cell_len(head[-1].plain) + 3 + cell_len(told.plain) > columns:
            head.append(Text(" "))
        head[-1].append("   " if len(head[-1].plain) > 1 else " ").append_text(told)
    return head


def _draw(
    canvas: Canvas, line: Line, number: int, x_scale: axes.Scale, y_scale: axes.Scale
) -> None:
    kept = thin(line.y, 4 * canvas.width)
    xs = x_scale.places(line.x[kept].astype(float), canvas.width)
    with numpy.errstate(invalid="ignore", divide="ignore"):
        ys = y_scale.places(line.y[kept], canvas.height)
    before: tuple[int, int] | None = None
    for x, y in zip(xs, ys, strict=True):
        if not numpy.isfinite(y):
            before = None
            continue
        here = (round(float(x)), round(float(y)))
        canvas.stroke(before or here, here, number)
        before = here
    if len(kept) == 1 and before is not None:  # a single dot is easily overlooked
        canvas.stroke((before[0] - 1, before[1]), (before[0] + 1, before[1]), number)


def _ends(lines: Sequence[Line], scale: axes.Scale, rows: int) -> dict[int, int]:
    """Which row, from the top, has which line's label: beside its last value, or near it."""
    found: dict[int, int] = {}
    for number, line in enumerate(lines):
        finite = line.y[numpy.isfinite(line.y)]
        if not len(finite):
            continue
        wanted = rows - 1 - round(float(scale.places(finite[-1:], rows)[0]))
        free = [row for row in range(rows) if row not in found]
        if free:
            found[min(free, key=lambda row: (abs(row - wanted), row))] = number
    return found


def _cross_out(
    top: Text, line: Line, number: int, x_scale: axes.Scale, start: int, width: int, marks: Marks
) -> None:
    """A cross at the top stands for values that are not finite."""
    wrong = line.x[~numpy.isfinite(line.y)].astype(float)
    for place in {round(float(x)) for x in x_scale.places(wrong, width)}:
        top.plain = top.plain[: start + place] + marks.gap + top.plain[start + place + 1 :]
        top.stylize(f"bold {style(number)}", start + place, start + place + 1)


def _floor(
    scale: axes.Scale, name: str, margin: int, width: int, marks: Marks
) -> tuple[Text, Text]:
    ticks = axes.ticks(scale, width, least_apart=_APART_X, is_whole=name == STEP)
    axis = "".join(marks.mark if place in ticks else marks.floor for place in range(width))
    figures = ""
    room = margin + 2 + width - len(name) - 1
    for place, text in sorted(ticks.items()):
        start = max(0, margin + 2 + place - len(text) // 2)
        if start >= len(figures) + (1 if figures else 0) and start + len(text) <= room:
            figures = figures.ljust(start) + text
    below = Text(figures.ljust(margin + 2 + width - len(name))).append(name, "dim")
    return Text(" " * (margin + 1)).append(marks.corner + axis, "dim"), below
