"""Uploads what a script writes in its working folder, as checkpoints are uploaded.

Which files those are is `working_folder.py`'s; event files among them are uploaded by
`event_sync.py`, and only listed here. A file that cannot be stored is counted among those left out:
unlike a checkpoint, it was not requested, and fails no job.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

from trackside.errors import DiskFull
from trackside.records.event_names import is_event_file
from trackside.records.hosts import LeftOut
from trackside.storage.locate import Location
from trackside.supervisor.folder_scan import FileState
from trackside.supervisor.folder_sync import FileChanged, FolderSync, NotUploaded
from trackside.supervisor.working_folder import BY_DEFAULT, WorkingFolder
from trackside.texts.terminal_text import one_line

PASS_SECONDS = 5.0


class KeptSync(FolderSync):
    def __init__(
        self,
        name: str,
        folder: WorkingFolder,
        to: Location,
        *,
        list_events: Callable[[list[str]], None],
        log: Callable[[str], None],
    ) -> None:
        super().__init__(name, folder.source, to, mirror=True)
        self.pass_seconds = PASS_SECONDS
        self._folder = folder
        self._list_events = list_events
        self._log = log
        self._events: dict[str, FileState] = {}
        self._listed: list[str] = []
        self._given_up: dict[str, FileState] = {}
        """Files that cannot be stored, as they were then."""

    def found(self, problems: dict[str, Exception]) -> dict[str, FileState]:
        made = self._folder.made(problems)
        self._events = {path: file for path, file in made.items() if is_event_file(path)}
        fitting = self._folder.within_limit(made)
        return {path: file for path, file in fitting.items() if self._given_up.get(path) != file}

    def tick(self, *, last: bool = False) -> None:
        if last:
            self._given_up.clear()
        unsent: Sequence[str] = ()
        try:
            super().tick(last=last)
        except NotUploaded as left:
            if any(isinstance(error, FileChanged) for error in left.problems.values()):
                raise
            unsent = [*left.problems]
            self._give_up(unsent)
        self._note()
        if last:
            self._conclude(unsent)

    def _note(self) -> None:
        """Count what is kept, with the event files, which another part uploads."""
        files = [*self._sent.values(), *self._events.values()]
        self.state.num_files = len(files)
        self.state.size_bytes = sum(file.size for file in files)
        events = sorted(self._events)
        if events != self._listed:
            with suppress(OSError, DiskFull):  # retried with the next pass
                self._list_events(events)
                self._listed = events

    def _give_up(self, paths: Sequence[str]) -> None:
        self._given_up |= {path: self._seen[path] for path in paths if path in self._seen}

    def _conclude(self, unsent: Sequence[str]) -> None:
        self.state.left_out = self._folder.left_out(unsent)
        if any(each.why != BY_DEFAULT for each in self.state.left_out):
            counts = ", ".join(map(_in_words, self.state.left_out))
            self._log(f"Not kept of the working folder: {counts}.")


def _in_words(left: LeftOut) -> str:
    files = "1 file" if left.num_files == 1 else f"{left.num_files:,} files"
    such_as = "" if left.num_files == 1 else "such as "
    return f"{files} {left.why} ({such_as}{one_line(left.example)})"
