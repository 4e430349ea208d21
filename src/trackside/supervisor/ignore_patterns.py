"""Patterns for files and folders to exclude, with .gitignore's syntax.

A line is a pattern; the last one that matches decides. `#` begins a comment, `!` includes again, a
slash at the end means folders only, a slash elsewhere anchors the pattern at the top. `*`, `?` and
`[…]` match parts of one name, `**` any folders. Files below an excluded folder cannot be included
again.
"""

import re
from collections.abc import Callable, Iterable
from fnmatch import translate

from trackside.quick_dataclass import dataclass

_ANY_FOLDERS = None
"""A part that matches any number of names."""
_Step = Callable[[str], object] | None


@dataclass(frozen=True, slots=True)
class _Pattern:
    steps: tuple[_Step, ...]
    takes_back: bool
    only_folders: bool

    def matches(self, names: list[str]) -> bool:
        """Step by step, with all ways to match `**` in parallel: no pattern takes long."""
        reached = self._past_any({0})
        for name in names:
            reached = self._past_any({at for old in reached for at in self._after(old, name)})
        return len(self.steps) in reached

    def _after(self, at: int, name: str) -> Iterable[int]:
        if at == len(self.steps):
            return ()
        step = self.steps[at]
        if step is _ANY_FOLDERS:
            return (at,)
        return (at + 1,) if step(name) else ()

    def _past_any(self, reached: set[int]) -> set[int]:
        found = set(reached)
        for at in reached:
            while at < len(self.steps) and self.steps[at] is _ANY_FOLDERS:
                at += 1
                found.add(at)
        return found


class IgnorePatterns:
    def __init__(self, lines: Iterable[str]) -> None:
        self._patterns = [pattern for line in lines if (pattern := _parsed(line))]

    def match(self, path: str, *, is_folder: bool) -> bool:
        """Whether this path itself is excluded. Check the folders above it first."""
        names = path.split("/")
        for pattern in reversed(self._patterns):
            if (is_folder or not pattern.only_folders) and pattern.matches(names):
                return not pattern.takes_back
        return False

    def covers(self, path: str) -> bool:
        """Whether the file or a folder above it is excluded."""
        names = path.split("/")
        above = ("/".join(names[:depth]) for depth in range(1, len(names)))
        return any(self.match(folder, is_folder=True) for folder in above) or self.match(
            path, is_folder=False
        )


def _parsed(line: str) -> _Pattern | None:
    text = line.strip()
    if not text or text.startswith("#"):
        return None
    takes_back = text.startswith("!")
    text = text[1:] if takes_back else text.removeprefix("\\")
    only_folders = text.endswith("/")
    is_bound = "/" in text.rstrip("/")
    names = [name for name in text.split("/") if name]
    if not names:
        return None
    if names[-1] == "**":
        names[-1] = "*"  # everything inside: an excluded folder excludes its content
    steps = [_ANY_FOLDERS if name == "**" else re.compile(translate(name)).match for name in names]
    if not is_bound:
        steps.insert(0, _ANY_FOLDERS)
    return _Pattern(tuple(steps), takes_back, only_folders)
