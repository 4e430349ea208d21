"""What a script leaves in its working folder on its way to storage, as checkpoints go.

Which files those are is `working_folder.py`'s. A file that cannot be stored is counted among those
left out: unlike a checkpoint, nobody asked for it, and it fails no job.
"""

from collections.abc import Callable, Sequence

from trackside.harmless import one_line
from trackside.hosts import LeftOut
from trackside.storage.locate import Location
from trackside.supervisor.folder_scan import Look
from trackside.supervisor.sync import FileChanged, FolderSync, LeftBehind
from trackside.supervisor.working_folder import BY_DEFAULT, WorkingFolder


class KeptSync(FolderSync):
    """Not thread-safe: its `Syncer` owns it."""

    def __init__(
        self, name: str, folder: WorkingFolder, to: Location, tell: Callable[[str], None]
    ) -> None:
        super().__init__(name, folder.source, to, mirror=True)
        self._folder = folder
        self._tell = tell
        self._given_up: dict[str, Look] = {}
        """Files that cannot be stored, as they were then."""

    def looks(self, problems: dict[str, Exception]) -> dict[str, Look]:
        fitting = self._folder.within_limit(self._folder.made(problems))
        return {path: look for path, look in fitting.items() if self._given_up.get(path) != look}

    def tick(self, *, last: bool = False) -> None:
        if last:
            self._given_up.clear()
        unsent: Sequence[str] = ()
        try:
            super().tick(last=last)
        except LeftBehind as left:
            if any(isinstance(error, FileChanged) for error in left.problems.values()):
                raise
            unsent = [*left.problems]
            self._give_up(unsent)
        self.state.num_files = len(self._sent)
        self.state.size_bytes = sum(look.size for look in self._sent.values())
        if last:
            self._conclude(unsent)

    def _give_up(self, paths: Sequence[str]) -> None:
        self._given_up |= {path: self._seen[path] for path in paths if path in self._seen}

    def _conclude(self, unsent: Sequence[str]) -> None:
        self.state.left_out = self._folder.left_out(unsent)
        if any(each.why != BY_DEFAULT for each in self.state.left_out):
            counts = ", ".join(map(_in_words, self.state.left_out))
            self._tell(f"Not kept of the working folder: {counts}.")


def _in_words(left: LeftOut) -> str:
    files = "1 file" if left.num_files == 1 else f"{left.num_files:,} files"
    such_as = "" if left.num_files == 1 else "such as "
    return f"{files} {left.why} ({such_as}{one_line(left.example)})"
