"""Curves as text: a chart with axes and one line per curve, or a sparkline. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy

from trackside.cli import axes
from trackside.cli.styled_text import Text, cell_len
from trackside.curves.columns import Reals
from trackside.curves.curve_choice import STEP
from trackside.curves.downsample import thin

BARS = "▁▂▃▄▅▆▇█"
GAP = "×"
ASCII_BARS = "_.-~+=*#"
ASCII_GAP = "x"
STYLES = ("cyan", "yellow", "magenta", "green")
EVENT_STYLE = "bold red"
LEAST_ROWS = 3
FRAME_ROWS = 3
"""Rows besides the canvas: the title, and below it the axis and its labels."""
_LEAST_COLUMNS = 10
_APART_X, _APART_Y = 12.0, 1.5
"""Minimum columns and rows between two labels."""
_BRAILLE = 0x2800
DOTS_PER_ROW, _DOTS_PER_COLUMN = 4, 2
"""Dots of one Braille character."""
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a character's dots: by row and column."""
ASCII_MARKS = "*o+#"
"""By line number."""


@dataclass(slots=True)
class Canvas:
    """A grid of dots: eight per character as Braille patterns, or one in plain ASCII."""

    columns: int
    rows: int
    is_ascii: bool = False
    _cells: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """Row and column to the bits that are set and the line that drew there last."""

    @property
    def width(self) -> int:
        """In dots."""
        return self.columns if self.is_ascii else _DOTS_PER_COLUMN * self.columns

    @property
    def height(self) -> int:
        return self.rows if self.is_ascii else DOTS_PER_ROW * self.rows

    def dot(self, x: int, y: int, line: int) -> None:
        """Counted from the lower left corner. Outside the canvas nothing is drawn."""
        if not (0 <= x < self.width and 0 <= y < self.height):
            return
        below_top = self.height - 1 - y
        if self.is_ascii:
            self._cells[below_top, x] = (1, line)
            return
        row, down = divmod(below_top, DOTS_PER_ROW)
        column, across = divmod(x, _DOTS_PER_COLUMN)
        bits, _ = self._cells.get((row, column), (0, 0))
        self._cells[row, column] = (bits | _BITS[down][across], line)

    def stroke(self, start: tuple[int, int], end: tuple[int, int], line: int) -> None:
        """A straight line, including both ends."""
        (x0, y0), (x1, y1) = start, end
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for step in range(steps + 1):
            part = step / steps
            self.dot(round(x0 + part * (x1 - x0)), round(y0 + part * (y1 - y0)), line)

    def row(self, number: int) -> list[tuple[str, int | None]]:
        """The characters of one row from the top, each with its line number."""
        return [self._letter(number, column) for column in range(self.columns)]

    def _letter(self, row: int, column: int) -> tuple[str, int | None]:
        if (row, column) not in self._cells:
            return " ", None
        bits, line = self._cells[row, column]
        if self.is_ascii:
            return ASCII_MARKS[line % len(ASCII_MARKS)], line
        return chr(_BRAILLE + bits), line


@dataclass(frozen=True, slots=True)
class Line:
    label: str
    """At the line's end, if there are several lines."""
    summary: str
    """After the title."""
    x: Reals
    y: Reals


@dataclass(frozen=True, slots=True)
class Marks:
    """The characters of a chart's frame."""

    side: str = "│"
    tick: str = "┤"
    corner: str = "└"
    floor: str = "─"
    mark: str = "┬"
    gap: str = "×"
    event: str = "▲"
    """On the floor, where something happened, with a line above it."""
    above_event: str = "┊"
    keys: str = "━"
    """Of each line, cyclically."""


_PLAIN = Marks("|", "+", "+", "-", "+", "x", "^", ":", ASCII_MARKS)


def chart(
    title: str,
    lines: Sequence[Line],
    x_name: str,
    size: tuple[int, int],
    *,
    events: Sequence[float] = (),
    is_ascii: bool = False,
) -> list[Text]:
    """`size` is the columns and rows of the whole chart, including title and axes. Steps, as
    `x_name` says, are labelled with integers. `events` are places on the x-axis to mark.
    """
    columns, rows = size
    marks = _PLAIN if is_ascii else Marks()
    finite = numpy.concatenate([line.y[numpy.isfinite(line.y)] for line in lines])
    scale = axes.fitting(finite) if len(finite) else axes.Scale(0.0, 1.0)
    head = _title(title, scale, lines, columns, marks)
    canvas_rows = max(LEAST_ROWS, rows - FRAME_ROWS + 1 - len(head))
    dots_each = 1 if is_ascii else DOTS_PER_ROW
    figures = axes.ticks(scale, canvas_rows, least_apart=_APART_Y, dots_each=dots_each)
    margin = max([cell_len(text) for text in figures.values()], default=0)
    right = max([cell_len(line.label) + 1 for line in lines]) if len(lines) > 1 else 0
    width = max(_LEAST_COLUMNS, columns - margin - 2 - right)
    x_scale = _of_x(numpy.concatenate([line.x for line in lines]))
    canvas = Canvas(width, canvas_rows, is_ascii)
    places = _event_places(events, x_scale, width)
    plot = _Plot(canvas, x_scale, scale, margin, marks, places)
    for number, line in enumerate(lines):
        plot.draw(line, number)
    return [*head, *plot.rows(lines, figures), *plot.floor(x_name)]


def style(number: int) -> str:
    return STYLES[number % len(STYLES)]


def _title(
    title: str, scale: axes.Scale, lines: Sequence[Line], columns: int, marks: Marks
) -> list[Text]:
    """Wrapped onto further lines if it does not fit."""
    head = [Text(title, "bold")]
    if scale.name:
        head[0].append(f" ({scale.name})", "dim")
    for number, line in enumerate(lines):
        key = marks.keys[number % len(marks.keys)]
        summary = Text(f"{key} ", style(number)).append(line.summary)
        if cell_len(head[-1].plain) + 3 + cell_len(summary.plain) > columns:
            head.append(Text(" "))
        head[-1].append("   " if len(head[-1].plain) > 1 else " ").append_text(summary)
    return head


def _event_places(events: Sequence[float], scale: axes.Scale, columns: int) -> frozenset[int]:
    """The columns of those that are on the axis."""
    shown = numpy.array([each for each in events if scale.low <= each <= scale.high])
    return frozenset(round(float(place)) for place in scale.places(shown, columns))


def _of_x(values: Reals) -> axes.Scale:
    first = float(values[0])
    is_one = bool((values == first).all())
    return axes.Scale(first - 1, first + 1) if is_one else axes.linear(values)


@dataclass(frozen=True, slots=True)
class _Plot:
    canvas: Canvas
    x_scale: axes.Scale
    y_scale: axes.Scale
    margin: int
    """Columns for the labels at the left."""
    marks: Marks
    events: frozenset[int] = frozenset()
    """Columns."""

    def draw(self, line: Line, number: int) -> None:
        canvas = self.canvas
        kept = thin(line.y, 4 * canvas.width)
        xs = self.x_scale.places(line.x[kept], canvas.width)
        with numpy.errstate(invalid="ignore", divide="ignore"):
            ys = self.y_scale.places(line.y[kept], canvas.height)
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

    def rows(self, lines: Sequence[Line], figures: Mapping[int, str]) -> list[Text]:
        at_ends = self._ends(lines) if len(lines) > 1 else {}
        found = []
        for row in range(self.canvas.rows):
            drawn = self._left(figures.get(self.canvas.rows - 1 - row))
            for column, (letter, number) in enumerate(self.canvas.row(row)):
                if number is None and column in self.events:
                    drawn.append(self.marks.above_event, EVENT_STYLE)
                else:
                    drawn.append(letter, "" if number is None else style(number))
            if row in at_ends:
                drawn.append(f" {lines[at_ends[row]].label}", style(at_ends[row]))
            found.append(drawn)
        for number, line in enumerate(lines):
            self._cross_out(found[0], line, number)
        for drawn in found:
            drawn.rstrip()
        return found

    def floor(self, name: str) -> tuple[Text, Text]:
        """The axis, and below it its labels."""
        width, start = self.canvas.columns, self.margin + 2
        ticks = axes.ticks(
            self.x_scale,
            width,
            least_apart=_APART_X,
            dots_each=self.canvas.width // width,
            is_whole=name == STEP,
        )
        axis = [self.marks.mark if at in ticks else self.marks.floor for at in range(width)]
        figures, room = "", start + width - len(name) - 1
        for place, text in sorted(ticks.items()):
            at = max(0, start + place - len(text) // 2)
            if at >= len(figures) + bool(figures) and at + len(text) <= room:
                figures = figures.ljust(at) + text
        below = Text(figures.ljust(start + width - len(name))).append(name, "dim")
        drawn = Text(" " * (start - 1)).append("".join([self.marks.corner, *axis]), "dim")
        for column in self.events:
            drawn.replace(start + column, self.marks.event, EVENT_STYLE)
        return drawn, below

    def _left(self, figure: str | None) -> Text:
        side = self.marks.side if figure is None else self.marks.tick
        text = figure or ""
        padding = " " * (self.margin - cell_len(text))
        return Text(f"{padding}{text}").append(f" {side}", "dim")

    def _ends(self, lines: Sequence[Line]) -> dict[int, int]:
        """Row from the top to the label of a line: next to its last value, or near it."""
        rows = self.canvas.rows
        found: dict[int, int] = {}
        for number, line in enumerate(lines):
            finite = line.y[numpy.isfinite(line.y)]
            free = [row for row in range(rows) if row not in found]
            if len(finite) and free:
                dots_each = self.canvas.height // rows
                wanted = rows - 1 - self.y_scale.cell(float(finite[-1]), rows, dots_each)
                _, nearest = min((abs(row - wanted), row) for row in free)
                found[nearest] = number
        return found

    def _cross_out(self, top: Text, line: Line, number: int) -> None:
        """A cross at the top stands for values that are not finite."""
        wrong = line.x[~numpy.isfinite(line.y)]
        for x in self.x_scale.places(wrong, self.canvas.columns):
            at = self.margin + 2 + round(float(x))
            top.replace(at, self.marks.gap, f"bold {style(number)}")


def sparkline(values: Reals, width: int = 32, *, is_ascii: bool = False) -> str:
    """Each character is a part of the curve at its mean; a part with no finite value is a cross."""
    bars, gap = (ASCII_BARS, ASCII_GAP) if is_ascii else (BARS, GAP)
    parts = numpy.array_split(values, min(width, len(values))) if len(values) else []
    means = [_mean(part) for part in parts]
    finite = [mean for mean in means if mean is not None]
    if not finite:
        return gap * len(means)
    least, span = min(finite), (max(finite) - min(finite)) or 1.0
    return "".join(
        gap if mean is None else bars[round((mean - least) / span * (len(bars) - 1))]
        for mean in means
    )


def _mean(part: Reals) -> float | None:
    finite = part[numpy.isfinite(part)]
    return float(finite.mean()) if len(finite) else None
