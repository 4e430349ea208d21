"""Folders copied to object storage while the job runs: checkpoints, intermediate output, tensors.
A file is uploaded complete or not at all, and once for each time it is written.

Event files, which grow until the script ends, are `event_sync.py`'s; which folders a host has is
`host_syncs.py`'s.
"""

import logging
import math
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from trackside.errors import InvalidKey
from trackside.files.script_folder import NoPlainFile, ScriptFolder
from trackside.storage.locate import Location, entries_below
from trackside.supervisor.folder_scan import FileState, scan
from trackside.supervisor.open_writers import has_writer
from trackside.supervisor.sync_part import SyncPart, now

logger = logging.getLogger(__name__)

SETTLED_SECONDS = 1.0
"""A file that has not changed for this long is taken to be complete."""
FOLLOW_SECONDS = 10.0
"""How long a file waits for parts that it follows: as long as the longest pause between their
passes."""
READ_BYTES = 4 << 20
_HOPELESS = (InvalidKey, PermissionError)
"""No retry will upload such a file; a user may rename it or change its mode."""


class FileChanged(Exception):
    """The file was written to while it was uploaded; the upload is discarded."""


class NotUploaded(Exception):
    """Some files of a folder could not be uploaded; all others were."""

    def __init__(self, problems: Mapping[str, Exception]) -> None:
        self.problems = problems
        path, error = next(iter(problems.items()))
        more = f" {len(problems) - 1} more files wait, too." if len(problems) > 1 else ""
        self.is_hopeless = all(isinstance(error, _HOPELESS) for error in problems.values())
        super().__init__(f"{path!r} is not uploaded: {error}{more}")


class FolderSync(SyncPart):
    """One folder and its copy in a store."""

    def __init__(
        self,
        name: str,
        source: Path | ScriptFolder,
        to: Location,
        *,
        mirror: bool = False,
        skip: Callable[[str], bool] = lambda path: False,
        follows: Sequence[SyncPart] = (),
        is_of_hook: bool = False,
    ) -> None:
        super().__init__(name, to)
        self.is_of_hook = is_of_hook
        self.source = ScriptFolder.of(source)
        self._mirror = mirror
        """Also delete from the store what was deleted here (checkpoints)."""
        self._skip = skip
        """Whether a file is uploaded by another part."""
        self._follows = follows
        """A file is uploaded after what these had when it was seen: of a machine that dies in
        between, a checkpoint must not be ahead of the curves that lead to it."""
        self._seen_at: dict[str, float] = {}
        self.pass_seconds = math.inf
        """A pass that takes longer leaves the rest to the next, so that other parts in the same
        thread have their turn."""
        self._sent: dict[str, FileState] = {}
        self._seen: dict[str, FileState] = {}
        self._unfinished: set[str] = set()
        """Those that a process had open for writing at the last scan."""
        self._is_listed = False

    def tick(self, *, last: bool = False) -> None:
        """A file that cannot be uploaded delays no other: `NotUploaded` is raised after the
        rest."""
        if not self._is_listed:
            self._list_stored()
        started = now()
        problems: dict[str, Exception] = {}
        found = self.found(problems)
        is_whole = not problems and self.source.is_dir()
        waiting = {path: file for path, file in found.items() if self._sent.get(path) != file}
        if last and self.keeps_older:
            self._skip_torn(waiting)
        due = [path for path, file in waiting.items() if last or self._is_due(path, file)]
        self._seen_at = {
            path: self._seen_at.get(path, started[1])
            if self._seen.get(path) == file
            else started[1]
            for path, file in waiting.items()
        }
        self._seen = found
        self._set_pending(file.size for file in waiting.values())
        self._send_due(due, waiting, problems, last=last)
        if self._mirror and is_whole:  # files that could not be scanned may still exist
            self._delete(set(self._sent) - set(found))
        if not waiting:
            self._set_synced(started)
        if problems:
            raise NotUploaded(problems)

    def _send_due(
        self,
        due: Collection[str],
        waiting: dict[str, FileState],
        problems: dict[str, Exception],
        *,
        last: bool,
    ) -> None:
        began = time.monotonic()
        # In the order they were written: a pointer to the newest checkpoint follows it.
        for path in sorted(due, key=lambda path: waiting[path].mtime_ns):
            try:
                self._send(path, waiting[path])
            except FileNotFoundError:
                pass  # deleted meanwhile
            except FileChanged as error:
                if last:
                    problems[path] = error
                continue  # the next scan sees its new state
            except (InvalidKey, OSError) as error:  # of this file, not of the store
                problems[path] = error
                continue
            self.state.pending_files -= 1
            self.state.pending_bytes -= waiting.pop(path).size
            if not last and time.monotonic() - began > self.pass_seconds:
                return

    def _is_due(self, path: str, file: FileState) -> bool:
        settled = time.time() - file.mtime_ns / 1e9
        # A clock that was set back must not hold a file for ever: two equal scans settle it, too.
        if self._seen.get(path) != file or 0 <= settled < SETTLED_SECONDS:
            return False
        return self._is_next(path) and not self._is_being_written(path)

    def _is_next(self, path: str) -> bool:
        since = self._seen_at.get(path, 0.0)
        if time.monotonic() - since > FOLLOW_SECONDS:
            return True
        return all(part.synced_at >= since for part in self._follows)

    def _is_being_written(self, path: str) -> bool:
        """Also by a process that pauses in the middle of the file, however long."""
        self._unfinished.discard(path)
        try:
            descriptor = self.source.open(path)
            try:
                if has_writer(descriptor):
                    self._unfinished.add(path)
            finally:
                os.close(descriptor)
        except OSError:  # the upload will raise it
            return False
        return path in self._unfinished

    def _skip_torn(self, waiting: dict[str, FileState]) -> None:
        """Files that were written to until the end and have an older version in storage."""
        for path, file in list(waiting.items()):
            is_torn = path in self._unfinished or self._seen.get(path) != file
            if path in self._sent and is_torn:
                logger.warning("%r was being written when the script was killed", path)
                del waiting[path]

    def _send(self, path: str, file: FileState) -> None:
        chunks = self._watched(_chunks(self.source, path, file))
        self._to.store.put(self._to.child(path).key, chunks)
        self._sent[path] = file
        self.state.uploaded_bytes += file.size

    def _watched(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self._set_alive()
            yield chunk
        self._set_alive()

    def _delete(self, paths: set[str]) -> None:
        if paths:
            self._to.store.delete(self._to.child(path).key for path in sorted(paths))
            for path in paths:
                del self._sent[path]

    def _list_stored(self) -> None:
        """What is stored already, restored or uploaded by an earlier supervisor, is not sent again.

        Restored files have their object's time. For others the time of change counts: a file moved
        here may be older than the object that had its name.
        """
        stored = dict(entries_below(self._to))
        for path, file in self.found({}).items():
            entry = stored.get(path)
            if entry is None or entry.size_bytes != file.size:
                continue
            was_restored = entry.modified_ns == file.mtime_ns
            if was_restored or entry.modified >= file.ctime_ns / 1e9:
                self._sent[path] = file
        self._is_listed = True

    def found(self, problems: dict[str, Exception]) -> dict[str, FileState]:
        """The files to store, in their current state."""
        files = scan(self.source, problems)
        return {path: file for path, file in files if not self._skip(path)}


def _chunks(folder: ScriptFolder, path: str, seen: FileState) -> Iterator[bytes]:
    """The file's bytes as the scan saw it; `FileChanged` before the last ones if it has changed.

    An error inside the upload discards it, so a torn file never gets its final name.
    """
    changed = FileChanged(f"{str(folder.path / path)!r} was written to while it was uploaded.")
    try:
        handle = folder.open(path)
    except (NoPlainFile, NotADirectoryError) as error:
        raise changed from error
    left = seen.size
    with open(handle, "rb") as file:
        while left:
            data = file.read(min(READ_BYTES, left))
            if not data:
                raise changed
            left -= len(data)
            if left:
                yield data
        if FileState.of(folder.lstat(path)) != seen:
            raise changed
        if seen.size:
            yield data
