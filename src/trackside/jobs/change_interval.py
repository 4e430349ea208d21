"""The pauses of a process that follows a job of this machine: short while something happens, and
then until the kernel reports a change of its files."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from trackside.jobs.follow import PollInterval

if TYPE_CHECKING:
    from trackside.system.file_changes import FileChanges

QUIET_SECONDS = 2.0
"""Without a change for so long, changes are waited for. Short jobs never load what that needs."""


class ChangeInterval(PollInterval):
    """`shortest` seconds where changes are not reported, or not all of them."""

    def __init__(self, shortest: float, longest: float, files: Callable[[], Iterable[str]]) -> None:
        """`files` are those whose changes are to be seen at once; others within `longest`."""
        super().__init__(shortest, longest)
        self._files = files
        self._changes: FileChanges | None = None
        self._is_blind = False
        """Changes are not reported here: they are polled for."""
        self._is_told = False
        """Since the last change that was seen."""
        self._looks_again = False
        """Soon after a report: an unfinished line is shown when it no longer grows."""
        self._changed_at = time.monotonic()

    def wait(self, *, has_changed: bool, is_soon: bool = False, most: float = float("inf")) -> None:
        if has_changed:
            self._changed_at = time.monotonic()
        changes = self._watching(has_changed)
        is_again, self._looks_again = self._looks_again, False
        if changes is None or has_changed or is_soon or is_again:
            time.sleep(max(0.0, min(self._shortest, most)))
        elif changes.wait(max(0.0, min(self._longest, most))):
            self._is_told = self._looks_again = True

    def close(self) -> None:
        if self._changes is not None:
            self._changes.close()
            self._changes = None

    def _watching(self, has_changed: bool) -> "FileChanges | None":
        """None while changes are polled for."""
        if self._changes is None:
            is_quiet = time.monotonic() - self._changed_at >= QUIET_SECONDS
            if self._is_blind or not is_quiet:
                return None
            self._begin()
            return None  # what changed before is seen by one more look
        if has_changed:
            self._check(self._changes)
        return self._changes

    def _begin(self) -> None:
        self._is_blind = True
        with suppress(ImportError, OSError):
            from trackside.system.file_changes import FileChanges

            self._changes = FileChanges()
            self._is_told = self._watch_all(self._changes)
            self._is_blind = False

    def _check(self, changes: "FileChanges") -> None:
        """A change that was not reported: the folder is on another machine, or a file was
        replaced."""
        was_told = changes.wait(0) or self._is_told
        self._is_told = self._watch_all(changes)
        if not was_told and not self._is_told:
            self.close()
            self._is_blind = True

    def _watch_all(self, changes: "FileChanges") -> bool:
        """Whether a file is new: it may have changed unreported before."""
        added = [path for path in self._files() if changes.watch(path)]
        return bool(added)
