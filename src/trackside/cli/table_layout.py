"""Table layout for a terminal: which columns to keep, their widths, and line breaks in cells. Pure;
`tables` draws.
"""

import textwrap
from collections.abc import Collection, Sequence

from trackside.cli.styled_text import cell_len, chopped
from trackside.quick_dataclass import dataclass

GAP = 2
INDENT = 4
"""Indent of a row whose first cell is on a line of its own."""
LEAST_TEXT = 20
"""Minimum columns for the last one, to be readable as text."""
LEAST_CURVE = 6
LEAST_EVEN = 11
"""The width of a figure with its unit: `652.7 kB/s`."""


@dataclass(frozen=True, slots=True)
class Layout:
    kept: tuple[int, ...]
    """Which columns are shown."""
    widths: tuple[int, ...]
    """Of those; longer cells continue below."""
    is_stacked: bool = False
    """The first column is above the others instead of next to them."""
    is_even: bool = False
    """All are shown at once, so that not even a long word may overlap the next."""


def fitting(
    names: Sequence[str],
    natural: Sequence[int],
    room: int,
    *,
    spare: Collection[str] = (),
    least: int = LEAST_TEXT,
) -> Layout:
    """Columns of `spare` are dropped one by one until the rest fits. Then the last one shrinks down
    to `least`; and if that is not enough, the first gets a line of its own.
    """
    kept = list(range(len(names)))
    for name in (None, *spare):
        if name is not None and _total(natural, kept) > room:
            kept.remove(names.index(name))
    widths = [natural[index] for index in kept]
    is_stacked = len(kept) > 1 and _total(natural, kept, most_of_last=least) > room
    beside = widths[1:-1] if is_stacked else widths[:-1]
    taken = sum(width + GAP for width in beside) + (INDENT if is_stacked else 0)
    widths[-1] = min(widths[-1], max(room - taken, least))
    return Layout(tuple(kept), tuple(widths), is_stacked)


def even(natural: Sequence[int], room: int) -> list[Layout]:
    """Columns to compare: as many as fit next to the first, each at its natural width or, if that
    is too much, equally wide; the rest in tables below.
    """
    label, wanted = natural[0], natural[1:]
    if not wanted or _total(natural, range(len(natural))) <= room:
        return [Layout(tuple(range(len(natural))), tuple(natural))]
    most = max(1, (room - label) // (LEAST_EVEN + GAP))
    num_tables = -(-len(wanted) // most)
    each = -(-len(wanted) // num_tables)
    share = max(LEAST_EVEN, (room - label) // each - GAP)
    groups = [range(1, len(natural))[start : start + each] for start in range(0, len(wanted), each)]
    return [
        Layout((0, *group), (label, *(min(natural[i], share) for i in group)), is_even=True)
        for group in groups
    ]


def broken(text: str, width: int, *, in_words: bool) -> list[str]:
    """At spaces; nothing is cut. A word that is too long overflows, so that a location can still be
    copied, unless `in_words`.
    """
    if cell_len(text) <= width:
        return [text]
    lines = textwrap.wrap(text, width, break_long_words=in_words, break_on_hyphens=in_words)
    if not in_words:
        return lines
    # It counts characters, some of which take two columns.
    return [part for line in lines for part in chopped(line, width)]


def _total(natural: Sequence[int], kept: Sequence[int], most_of_last: int | None = None) -> int:
    *others, last = (natural[index] for index in kept)
    return sum(width + GAP for width in others) + (
        last if most_of_last is None else min(last, most_of_last)
    )
