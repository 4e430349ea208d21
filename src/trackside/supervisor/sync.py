"""Folders copied to object storage while the job runs: checkpoints, intermediate output, tensors.
A file goes up whole and settled, or not at all, and once for each time it is written.

Event files, which grow until the script ends, are `event_sync.py`'s; which folders a host has is
`host_syncs.py`'s.
"""

import logging
import math
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Protocol

from trackside.errors import InvalidKey, TracksideError
from trackside.files.script_folder import NoPlainFile, ScriptFolder
from trackside.records.hosts import SyncState
from trackside.storage.locate import Location, entries_below
from trackside.supervisor.event_sync import EventSync
from trackside.supervisor.folder_scan import Look, scan
from trackside.supervisor.open_writers import has_writer

logger = logging.getLogger(__name__)

SCAN_SECONDS = 1.0
SCAN_SHARE = 0.02
"""Of a core's time, that passes may take where each is long: a watched training of hours leaves
ten thousand segments, and a look at all of them every second would cost it a tenth of a core."""
LONGEST_PAUSE_SECONDS = 10.0
STILL_PAUSE_SECONDS = 30.0
IDLE_PASSES = 3
IDLE_PAUSE_SECONDS = 3.0
"""Between passes after so many that found nothing new, …"""
STILL_PASSES = 10
"""… and after so many the longest of all: `wake` cuts either short."""
SETTLED_SECONDS = 1.0
"""A file that has not changed for this long is taken to be whole."""
WEDGED_SECONDS = 180.0
"""A store call that gives no sign of life for so long, past the deadline, is left behind. Stores
retry for two minutes, and then say what is wrong."""
READ_BYTES = 4 << 20
_LOOK_SECONDS = 0.1
_HOPELESS = (InvalidKey, PermissionError)
"""No further try will send such a file; a person may, having renamed it or changed its mode."""


class FileChanged(Exception):
    """The file was written to while it was being sent; what was sent is thrown away."""


class LeftBehind(Exception):
    """Some files of a folder could not be sent; all the others were."""

    def __init__(self, problems: Mapping[str, Exception]) -> None:
        self.problems = problems
        path, error = next(iter(problems.items()))
        more = f" {len(problems) - 1} more files wait too." if len(problems) > 1 else ""
        self.is_hopeless = all(isinstance(error, _HOPELESS) for error in problems.values())
        super().__init__(f"{path!r} is left behind: {error}{more}")


class Part(Protocol):
    """Something that goes up, piece by piece. Its `Syncer`'s thread owns it."""

    name: str
    state: SyncState
    synced_at: float
    """Monotonic: when all there was had been sent. No clock that is set can hide a lag."""
    alive_at: float
    """Monotonic: when the store last took something."""

    def tick(self, *, last: bool = False) -> None: ...


class FolderSync:
    """One folder and the location that follows it. Not thread-safe: its `Syncer` owns it."""

    def __init__(
        self,
        name: str,
        source: Path | ScriptFolder,
        to: Location,
        *,
        mirror: bool = False,
        leave: Callable[[str], bool] = lambda path: False,
    ) -> None:
        self.name = name
        self.source = ScriptFolder.of(source)
        self.state = SyncState(to=to.uri, last=time.time())
        self.synced_at = self.alive_at = time.monotonic()
        self._to = to
        self._mirror = mirror
        """Also delete there what was deleted here (checkpoints)."""
        self._leave = leave
        """Whether a file is somebody else's to send."""
        self.pass_seconds = math.inf
        """A pass that takes longer leaves the rest to the next, so that others in the same thread
        have their turn."""
        self.keeps_older = False
        """The script was killed: a file that it was writing then is torn, and does not replace an
        older version that is whole."""
        self._sent: dict[str, Look] = {}
        self._seen: dict[str, Look] = {}
        self._unfinished: set[str] = set()
        """Those that a process had open for writing at the last look."""
        self._known = False

    def tick(self, *, last: bool = False) -> None:
        """Send what is new and settled (`last`: everything). Raises what the store raises.

        A file that cannot be sent holds up no other: `LeftBehind` comes after the rest went.
        """
        if not self._known:
            self._take_stock()
        began, looked = time.time(), time.monotonic()
        problems: dict[str, Exception] = {}
        looks = self.looks(problems)
        is_whole = not problems and self.source.is_dir()
        waiting = {path: look for path, look in looks.items() if self._sent.get(path) != look}
        if last and self.keeps_older:
            self._leave_torn(waiting)
        due = [path for path, look in waiting.items() if last or self._is_due(path, look)]
        self._seen = looks
        self._count(waiting)
        self._send_due(due, waiting, problems, last=last)
        if self._mirror and is_whole:  # what could not be seen may still be there
            self._delete(set(self._sent) - set(looks))
        if not waiting:
            self.state.last, self.synced_at = began, looked
        if problems:
            raise LeftBehind(problems)

    def _send_due(
        self,
        due: Collection[str],
        waiting: dict[str, Look],
        problems: dict[str, Exception],
        *,
        last: bool,
    ) -> None:
        began = time.monotonic()
        # By time of writing: a pointer to the newest checkpoint follows the checkpoint.
        for path in sorted(due, key=lambda path: waiting[path].mtime_ns):
            try:
                self._send(path, waiting[path])
            except FileNotFoundError:
                pass  # deleted meanwhile
            except FileChanged as error:
                if last:
                    problems[path] = error
                continue  # the next scan sees what became of it
            except (InvalidKey, OSError) as error:  # this file's own; the store's are others
                problems[path] = error
                continue
            self._discount(waiting.pop(path))
            if not last and time.monotonic() - began > self.pass_seconds:
                return

    def _is_due(self, path: str, look: Look) -> bool:
        settled = time.time() - look.mtime_ns / 1e9
        # A clock that was set back must not hold a file for ever: two equal looks settle it too.
        if self._seen.get(path) != look or 0 <= settled < SETTLED_SECONDS:
            return False
        return not self._is_being_written(path)

    def _is_being_written(self, path: str) -> bool:
        """Also by one that pauses in the middle of the file, for however long."""
        self._unfinished.discard(path)
        try:
            descriptor = self.source.open(path)
            try:
                if has_writer(descriptor):
                    self._unfinished.add(path)
            finally:
                os.close(descriptor)
        except OSError:  # who sends it finds out what is wrong with it
            return False
        return path in self._unfinished

    def _leave_torn(self, waiting: dict[str, Look]) -> None:
        """Those of which an older version is stored, and which were written to until the end."""
        for path, look in list(waiting.items()):
            is_torn = path in self._unfinished or self._seen.get(path) != look
            if path in self._sent and is_torn:
                logger.warning("%r was being written when the script was killed", path)
                del waiting[path]

    def _send(self, path: str, look: Look) -> None:
        chunks = self._watched(_chunks(self.source, path, look))
        self._to.store.put(self._to.child(path).key, chunks)
        self._sent[path] = look
        self.state.uploaded_bytes += look.size

    def _watched(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.alive_at = time.monotonic()
            yield chunk
        self.alive_at = time.monotonic()

    def _delete(self, paths: set[str]) -> None:
        if paths:
            self._to.store.delete(self._to.child(path).key for path in sorted(paths))
            for path in paths:
                del self._sent[path]

    def _take_stock(self) -> None:
        """What is there already, restored or sent by an earlier supervisor, is not sent again.

        Restored files have their object's time. Of others the time of change counts: a file moved
        here may be older than the object that had its name.
        """
        there = dict(entries_below(self._to))
        for path, look in self.looks({}).items():
            entry = there.get(path)
            if entry is None or entry.size_bytes != look.size:
                continue
            was_restored = entry.modified_ns == look.mtime_ns
            if was_restored or entry.modified >= look.ctime_ns / 1e9:
                self._sent[path] = look
        self._known = True

    def looks(self, problems: dict[str, Exception]) -> dict[str, Look]:
        """The files that belong there."""
        found = scan(self.source, problems)
        return {path: look for path, look in found if not self._leave(path)}

    def _count(self, waiting: Mapping[str, Look]) -> None:
        self.state.pending_files = len(waiting)
        self.state.pending_bytes = sum(look.size for look in waiting.values())

    def _discount(self, look: Look) -> None:
        self.state.pending_files -= 1
        self.state.pending_bytes -= look.size


class Syncer:
    """Owns the threads in which a host's folders, curves and log go up. Training never waits.

    Each group has a thread: curves do not wait behind a large checkpoint.
    """

    def __init__(self, *groups: Sequence[Part]) -> None:
        self._groups = [list(group) for group in groups]
        self._stop = Event()
        self._deadline = 0.0
        self._hopeless: set[str] = set()
        self._awake = [Event() for _ in self._groups]
        self._threads = [
            Thread(target=self._run, args=each, name=f"trackside-sync-{number}", daemon=True)
            for number, each in enumerate(zip(self._groups, self._awake, strict=True))
        ]

    @property
    def parts(self) -> list[Part]:
        return [part for group in self._groups for part in group]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def add(self, part: Part) -> None:
        """Also while it runs: the first group's thread takes it along from its next pass on."""
        self._groups[0].append(part)

    def wake(self) -> None:
        """The script does something: whoever rests because nothing was new looks again."""
        for event in self._awake:
            event.set()

    def states(self) -> dict[str, SyncState]:
        """As of now, also when the thread hangs in a store that does not answer."""
        now = time.monotonic()
        for part in self.parts:
            part.state.lag_seconds = round(now - part.synced_at, 1)
        return {
            part.name: part.state
            for part in self.parts
            if not (isinstance(part, EventSync) and part.is_unused)
        }

    def finish(
        self,
        deadline: float,
        waiting: Callable[[str], None],
        look: Callable[[], None] = lambda: None,
        *,
        was_killed: bool = False,
    ) -> str:
        """Send everything that is left, trying until the deadline (monotonic). The error, or ''.

        `waiting` is called with each new error, `look` now and then while it lasts. What is under
        way at the deadline is not cut short, unless it gives no sign of life. `was_killed`: the
        script had no chance to finish what it was writing.
        """
        for part in self.parts:
            if isinstance(part, FolderSync):
                part.keeps_older = was_killed
        self._deadline = deadline
        self._stop.set()
        self.wake()
        said = ""
        while alive := [thread for thread in self._threads if thread.is_alive()]:
            look()
            alive[0].join(_LOOK_SECONDS)
            error = self._error()
            if error and error != said:
                said = error
                waiting(error)
            silent = time.monotonic() - max(deadline, *(part.alive_at for part in self.parts))
            if silent > WEDGED_SECONDS:
                return error or f"The store has not answered for {silent:.0f} s."
        return self._error()

    def send_all(self) -> str:
        """Send everything in this thread, once. The first error, or ''."""
        self._pass(self.parts, last=True)
        return self._error()

    def _run(self, parts: Sequence[Part], awake: Event) -> None:
        cpu_seconds, num_idle = 0.0, 0
        while not self._rest(awake, cpu_seconds, num_idle):
            began, before = time.thread_time(), _amounts(parts)
            self._pass(parts, last=False)
            after = _amounts(parts)
            num_idle = num_idle + 1 if after == before else 0
            if any(waiting for _, waiting in after):  # for a store that is away, perhaps
                num_idle = min(num_idle, IDLE_PASSES)
            cpu_seconds = time.thread_time() - began
        pause, num_hopeless = 0.5, 0
        while True:
            self._pass(parts, last=True)
            wrong = {part.name for part in parts if part.state.error}
            # Twice: a pass may take away what was in the way of the next.
            num_hopeless = num_hopeless + 1 if wrong <= self._hopeless else 0
            if not wrong or num_hopeless > 1 or time.monotonic() + pause > self._deadline:
                return
            time.sleep(pause)
            pause = min(pause * 2, 15.0)

    def _rest(self, awake: Event, cpu_seconds: float, num_idle: int) -> bool:
        """Whether the script is over. What a pass cost is rested for in any case."""
        least = pause_after(cpu_seconds)
        if not self._stop.wait(least):
            awake.wait(pause_after(cpu_seconds, num_idle) - least)
        awake.clear()
        return self._stop.is_set()

    def _pass(self, parts: Sequence[Part], *, last: bool) -> None:
        for part in parts:
            self._try(part, last)

    def _try(self, part: Part, last: bool) -> None:
        state = part.state
        self._hopeless.discard(part.name)
        try:
            part.tick(last=last)
            state.error = ""
        except (KeyboardInterrupt, SystemExit):
            raise
        # A thread that died here would stop the sync unseen. A panic in the store's native code
        # is no `Exception`.
        except BaseException as error:
            known = isinstance(error, TracksideError | OSError | LeftBehind)
            if not state.error:
                logger.warning("sync to %s waits: %s", state.to, error, exc_info=not known)
            state.error = str(error) or repr(error)
            if isinstance(error, LeftBehind) and error.is_hopeless:
                self._hopeless.add(part.name)
        finally:
            part.alive_at = time.monotonic()

    def _error(self) -> str:
        return next((part.state.error for part in self.parts if part.state.error), "")


def pause_after(cpu_seconds: float, num_idle: int = 0) -> float:
    """Until the next pass, by what the last one cost and how many have found nothing new."""
    least = SCAN_SECONDS if num_idle < IDLE_PASSES else IDLE_PAUSE_SECONDS
    if num_idle >= STILL_PASSES:
        return STILL_PAUSE_SECONDS
    return min(max(least, cpu_seconds / SCAN_SHARE), LONGEST_PAUSE_SECONDS)


def _amounts(parts: Sequence[Part]) -> list[tuple[int, int]]:
    """What has gone up and what waits: the same again when nothing is new. The machine's figures,
    which never end, are no news."""
    watched = (part for part in parts if not (isinstance(part, EventSync) and part.is_filled))
    return [(part.state.uploaded_bytes, part.state.pending_bytes) for part in watched]


def _chunks(folder: ScriptFolder, path: str, look: Look) -> Iterator[bytes]:
    """The file's bytes as the scan saw it; `FileChanged` before the last one if it is no longer so.

    Raising inside the upload throws the upload away, so a torn file never gets its final name.
    """
    changed = FileChanged(f"{str(folder.path / path)!r} was written to while it was sent.")
    try:
        handle = folder.open(path)
    except (NoPlainFile, NotADirectoryError) as error:
        raise changed from error
    left = look.size
    with open(handle, "rb") as file:
        while left:
            data = file.read(min(READ_BYTES, left))
            if not data:
                raise changed
            left -= len(data)
            if left:
                yield data
        if Look.of(folder.lstat(path)) != look:
            raise changed
        if look.size:
            yield data
