"""A grid of dots on a terminal: eight to a character by Braille's letters, or one in plain ASCII.

Knows nothing of curves: `chart` does."""

from dataclasses import dataclass, field

_BRAILLE = 0x2800
DOTS_PER_ROW, _DOTS_PER_COLUMN = 4, 2
"""Of Braille's letters."""
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Of the dots of one letter: by row and column."""
ASCII_MARKS = "*o+#"
"""By the number of the line."""


@dataclass(slots=True)
class Canvas:
    columns: int
    rows: int
    is_ascii: bool = False
    _cells: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """Row and column to the bits that are set and the number of the line that was last there."""

    @property
    def width(self) -> int:
        """In dots."""
        return self.columns if self.is_ascii else _DOTS_PER_COLUMN * self.columns

    @property
    def height(self) -> int:
        return self.rows if self.is_ascii else DOTS_PER_ROW * self.rows

    def dot(self, x: int, y: int, line: int) -> None:
        """Counted from the lower left corner. Outside of the canvas nothing is drawn."""
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
        """A straight line, with both its ends."""
        (x0, y0), (x1, y1) = start, end
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for step in range(steps + 1):
            part = step / steps
            self.dot(round(x0 + part * (x1 - x0)), round(y0 + part * (y1 - y0)), line)

    def row(self, number: int) -> list[tuple[str, int | None]]:
        """The letters of one row from the top, each with its line's number."""
        return [self._letter(number, column) for column in range(self.columns)]

    def _letter(self, row: int, column: int) -> tuple[str, int | None]:
        if (row, column) not in self._cells:
            return " ", None
        bits, line = self._cells[row, column]
        if self.is_ascii:
            return ASCII_MARKS[line % len(ASCII_MARKS)], line
        return chr(_BRAILLE + bits), line
