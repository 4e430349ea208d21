"""Files of loggers in a script's working folder, found by name and stored as curves while they
grow.

A damaged or malicious file affects only itself: readers limit what they read at a time,
`LoggedCurves` the number of points. A supervisor that takes over continues where the last one
stopped.
"""

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from trackside.curves.loggers.logged_curves import LoggedCurves
from trackside.curves.loggers.logged_values import LoggerFile, Reader, Seen, State, Unreadable
from trackside.files import damaged_files, durable
from trackside.files.script_folder import ScriptFolder
from trackside.records.event_names import is_event_file

logger = logging.getLogger(__name__)

MOST_FILES = 500
BUSY_SECONDS = 1.0
"""After this long the other files wait for the next scan, …"""
LAST_SECONDS = 30.0
"""… and if there is none."""
_WANDB = re.compile(r"(?:.*/)?run-[^/]+\.wandb")
_DATABASE = re.compile(r".*\.(?:db|sqlite|sqlite3)")
_MLRUNS = re.compile(r"(?:.*/)?\d{1,20}/[0-9a-f]{32}/metrics/.+")
_BYTES_A_SECOND = 1 << 20
_LONGEST_REST = 60.0
"""A database is copied to be read: a large one not at each change."""

SeenFiles = Mapping[str, Seen]


def reader_of(path: str) -> Reader | None:
    """The reader for files of this name, if any. Loaded only when needed: most jobs have no such
    file, and each reader costs memory."""
    if path.endswith(".csv"):
        from trackside.curves.loggers import metrics_csv

        return metrics_csv.read
    if _WANDB.fullmatch(path):
        from trackside.curves.loggers import wandb_run

        return wandb_run.read
    if _DATABASE.fullmatch(path):
        from trackside.curves.loggers import metrics_database

        return metrics_database.read
    if _MLRUNS.fullmatch(path):
        from trackside.curves.loggers import mlruns

        return mlruns.read
    return None


class LoggerFiles:
    """One host's. Not thread-safe."""

    def __init__(
        self, folder: ScriptFolder, list_files: Callable[[], SeenFiles], curves: Path, state: Path
    ) -> None:
        """`list_files` lists the script's files; points go to event files below `curves`."""
        self._folder = folder
        self._list_files = list_files
        self._out = LoggedCurves(curves)
        self._path = state
        self._states, self.is_used = _kept(state)
        """The read position of each file; and whether the script uses any of these loggers. A file
        may still be empty: wandb buffers in memory for a while."""
        self._seen: dict[str, object] = {}
        self._rests_until: dict[str, float] = {}
        self._is_broken = False

    def tick(self, *, last: bool = False) -> None:
        """Never raises: a job does not fail for a curve."""
        if self._is_broken:
            return
        try:
            self._keep(last=last)
        except Exception:
            logger.exception("loggers' files are no longer read")
            self._is_broken = True

    def _keep(self, *, last: bool) -> None:
        has_news = False
        deadline = time.monotonic() + (LAST_SECONDS if last else BUSY_SECONDS)
        for file, reader, stamp in self._changed(last=last):
            if time.monotonic() > deadline:
                break
            has_news = True
            self._seen[file.path] = stamp
            while (is_more := self._read(file, reader)) and time.monotonic() < deadline:
                pass
            if is_more or self._states[file.path].get("again"):
                del self._seen[file.path]
        if has_news:
            self._out.flush()
            content = {"files": self._states, "is_used": self.is_used}
            durable.write_json(self._path, content)

    def _changed(self, *, last: bool) -> Iterator[tuple[LoggerFile, Reader, object]]:
        files = self._list_files()
        with_events = {path.rpartition("/")[0] for path in files if is_event_file(path)}
        for path in sorted(files):
            reader = reader_of(path)
            stamp = (files[path], files.get(f"{path}-wal"))
            if reader is None or self._seen.get(path) == stamp:
                continue
            if path.endswith(".csv") and path.rpartition("/")[0] in with_events:
                continue  # Lightning's loggers share a folder: the same values twice
            if _DATABASE.fullmatch(path) and not (last or self._has_rested(path, files[path].size)):
                continue
            if path not in self._states:
                if len(self._states) >= MOST_FILES:
                    continue
                self._states[path] = {}
            yield LoggerFile(self._folder, path, files[path]), reader, stamp

    def _has_rested(self, path: str, size: int) -> bool:
        now = time.monotonic()
        if now < self._rests_until.get(path, 0.0):
            return False
        self._rests_until[path] = now + min(size / _BYTES_A_SECOND, _LONGEST_REST)
        return True

    def _read(self, file: LoggerFile, reader: Reader) -> bool:
        """Whether there is more to read."""
        state = self._states[file.path]
        before = dict(state)
        self.is_used |= _WANDB.fullmatch(file.path) is not None
        try:
            for point in reader(file, state):
                self.is_used |= self._out.add(point)
        except (Unreadable, OSError) as error:
            logger.info("%r is not read as curves: %s", file.path, error)
            return False
        except Exception:
            logger.exception("%r is not read as curves", file.path)
            return False
        offset = state.get("offset", 0)
        is_behind = isinstance(offset, int) and 0 < offset < file.seen.size
        return state != before and (is_behind or bool(state.get("again")))


def _kept(path: Path) -> tuple[dict[str, State], bool]:
    """The state of an earlier supervisor."""
    content = damaged_files.read_object(path) or {}
    files = content.get("files")
    states = files.items() if isinstance(files, dict) else ()
    return (
        {path: state for path, state in states if isinstance(state, dict)},
        bool(content.get("is_used")),
    )
