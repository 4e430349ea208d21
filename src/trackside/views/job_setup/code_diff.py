"""How the code of one job differs from that of another: files, and the lines in them.

Sizes are bounded, and so is the time: a file in which too much differs is shown as replaced.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from trackside.views.job_setup.code_files import CodeContent, contents_of

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader

CONTEXT_LINES = 3
MOST_FILES = 300
"""With their lines; of more files only the names are given."""
MOST_LINES = 20_000
"""Of all files together."""
_MOST_PAIRS = 10_000_000
"""Of lines that are compared with each other, in all files: a few seconds at worst."""

Line = tuple[str, str]
"""" ", "+" or "-", and the text without its end."""


@dataclass(frozen=True, slots=True)
class Hunk:
    old: int
    """The number of its first line in the old file, from 1; 0 if the old file has none."""
    new: int
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class FileDiff:
    path: str
    status: str
    """added, removed or changed."""
    hunks: tuple[Hunk, ...]
    """None for binary files, and beyond the bounds."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def code_diff(jobs: "JobReader", old: str, new: str) -> list[FileDiff]:
    """By path. Files that are the same are left out."""
    home = jobs.settings.home
    before, after = (contents_of(jobs.describe(name), home) for name in (old, new))
    return diff_of(before, after)


def diff_of(before: Mapping[str, CodeContent], after: Mapping[str, CodeContent]) -> list[FileDiff]:
    found: list[FileDiff] = []
    bounds = _Bounds()
    for path in sorted({*before, *after}):
        one, other = before.get(path), after.get(path)
        if one is not None and other is not None and one.digest == other.digest:
            continue
        status = "added" if one is None else "removed" if other is None else "changed"
        hunks: tuple[Hunk, ...] = ()
        if bounds.lines > 0 and len(found) < MOST_FILES:
            hunks = tuple(_hunks(_lines(one), _lines(other), bounds))
        found.append(FileDiff(path, status, hunks))
    return found


@dataclass(slots=True)
class _Bounds:
    """What is left for the next files."""

    lines: int = MOST_LINES
    pairs: int = _MOST_PAIRS


def _lines(content: CodeContent | None) -> list[str]:
    return [] if content is None else content.text.text.splitlines()


def _hunks(old: Sequence[str], new: Sequence[str], bounds: _Bounds) -> Iterator[Hunk]:
    for group in _groups(_blocks(old, new, bounds)):
        if bounds.lines <= 0:
            return
        lines = [*_in_group(group, old, new)][: bounds.lines]
        bounds.lines -= len(lines)
        first = group[0]
        yield Hunk(first.old + bool(old), first.new + bool(new), tuple(lines))


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines from `old` and `new` on that are the same, or replaced."""

    is_same: bool
    old: int
    old_end: int
    new: int
    new_end: int


def _blocks(old: Sequence[str], new: Sequence[str], bounds: _Bounds) -> list[_Block]:
    """In order. What is the same at both ends is compared line by line; only between them is
    searched, which takes longer."""
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    old_end, new_end = len(old) - end, len(new) - end
    between = [_Block(False, start, old_end, start, new_end)]
    pairs = (old_end - start) * (new_end - start)
    if pairs <= bounds.pairs:
        bounds.pairs -= pairs
        matcher = SequenceMatcher(None, old[start:old_end], new[start:new_end], autojunk=False)
        between = [
            _Block(kind == "equal", *(start + place for place in places))
            for kind, *places in matcher.get_opcodes()
        ]
    after = _Block(True, old_end, len(old), new_end, len(new))
    return [_Block(True, 0, start, 0, start), *between, after]


def _groups(blocks: Sequence[_Block]) -> Iterator[list[_Block]]:
    """Changes with `CONTEXT_LINES` around them; those that are near each other together."""
    group: list[_Block] = []
    for block in blocks:
        length = block.old_end - block.old
        if not block.is_same:
            group.append(block)
        elif all(each.is_same for each in group):
            group = [_last_lines(block)]
        elif length > 2 * CONTEXT_LINES:
            yield [*group, _first_lines(block)]
            group = [_last_lines(block)]
        else:
            group.append(block)
    if not all(each.is_same for each in group):
        yield group


def _first_lines(block: _Block) -> _Block:
    count = min(CONTEXT_LINES, block.old_end - block.old)
    return replace(block, old_end=block.old + count, new_end=block.new + count)


def _last_lines(block: _Block) -> _Block:
    count = min(CONTEXT_LINES, block.old_end - block.old)
    return replace(block, old=block.old_end - count, new=block.new_end - count)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines at the beginning are the same."""
    count = 0
    for first, second in zip(one, other, strict=False):
        if first != second:
            break
        count += 1
    return count


def _in_group(group: Sequence[_Block], old: Sequence[str], new: Sequence[str]) -> Iterator[Line]:
    for block in group:
        if block.is_same:
            yield from ((" ", line) for line in old[block.old : block.old_end])
            continue
        yield from (("-", line) for line in old[block.old : block.old_end])
        yield from (("+", line) for line in new[block.new : block.new_end])
