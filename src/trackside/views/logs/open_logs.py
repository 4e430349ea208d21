"""Logs that people look at: each with its line index, which is extended when the log has grown.

A few are kept in memory. The index of a finished job's long log is kept on disk too: a cache, which
may be removed at any time.
"""

import json
import logging
import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from trackside.errors import InputError
from trackside.files import durable
from trackside.jobs.logs import chosen_hosts
from trackside.jobs.records import Record
from trackside.records.layout import Home
from trackside.views.logs.line_index import LineIndex
from trackside.views.logs.log_source import LogSource, SearchPart, source_of

logger = logging.getLogger(__name__)

_MOST_OPEN = 64
_MOST_ON_DISK = 1000
_WORTH_KEEPING_BYTES = 8 << 20
_FORMAT = 2


class OpenLog:
    """One host's log of one attempt. All methods may be called from several threads."""

    def __init__(self, host: str, attempt: int, source: LogSource, index: LineIndex) -> None:
        self.host = host
        self.attempt = attempt
        self._source = source
        self._index = index
        self._lock = threading.Lock()

    def refresh(self) -> bool:
        """Read what was added. Whether anything was."""
        with self._lock:
            size = self._index.size
            for block in self._source.new(size):
                self._index.add(block.size, block.newlines, ends_line=block.ends_line)
            return self._index.size > size

    @property
    def size(self) -> int:
        return self._index.size

    @property
    def num_lines(self) -> int:
        return self._index.num_lines

    def starts(self, numbers: Sequence[int]) -> list[int]:
        """The offsets of these lines, counted from 0."""
        with self._lock:
            return [self._index.start(number, self._source.read) for number in numbers]

    def read(self, start: int, end: int) -> bytes:
        with self._lock:
            return self._source.read(start, end)

    def times(self, offsets: Sequence[int]) -> list[float]:
        with self._lock:
            return self._source.times(offsets)

    def line_at_time(self, time: float) -> int | None:
        """The first line, counted from 0, of this time or later; None if all are earlier."""
        with self._lock:
            offset = self._source.offset_at(time)
            if offset >= self._index.size:
                return None
            line = self._index.line_at(offset, self._source.read)
            begins = self._index.start(line, self._source.read) == offset
            return line if begins else min(line + 1, self._index.num_lines - 1)

    def parts(self, start: int) -> Iterator[SearchPart]:
        """From this offset to the end."""
        with self._lock:
            return self._source.parts(start, self._index.size)

    def state(self) -> dict[str, Any]:
        """For `with_state`."""
        with self._lock:
            index = self._index
            return {
                "source": self._source.state(),
                "size": index.size,
                "newlines": index.newlines,
                "ends_line": index.ends_line,
                "offsets": index.offsets.tolist(),
                "before": index.before.tolist(),
            }


class OpenLogs:
    """The logs that were looked at last."""

    def __init__(self, home: Home, most_open: int = _MOST_OPEN) -> None:
        self._home = home
        self._most_open = most_open
        self._open: OrderedDict[tuple[Any, ...], OpenLog] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, record: Record, host: str, attempt: int) -> OpenLog:
        """With all that is there now. `InputError` or `JobError` if the job has no such log."""
        chosen_hosts(record, host)
        if not 1 <= attempt <= max(1, record.history.attempt):
            raise InputError(
                f"Job {record.spec.name!r} has no attempt {attempt}; it has attempts from 1 to "
                f"{max(1, record.history.attempt)}."
            )
        log = self._opened(record, host, attempt)
        if log.refresh() and record.history.state.is_final and log.size >= _WORTH_KEEPING_BYTES:
            self._keep(record, log)
        return log

    def _opened(self, record: Record, host: str, attempt: int) -> OpenLog:
        key = _identity(record, host, attempt)
        with self._lock:
            if key in self._open:
                self._open.move_to_end(key)
                return self._open[key]
        log = self._kept(record, host, attempt) or OpenLog(
            host, attempt, source_of(record, self._home, host, attempt), LineIndex()
        )
        with self._lock:
            log = self._open.setdefault(key, log)
            while len(self._open) > self._most_open:
                self._open.popitem(last=False)
        return log

    def _kept(self, record: Record, host: str, attempt: int) -> OpenLog | None:
        """From disk; None if it is not there, or of another job of this name."""
        if not record.history.state.is_final:
            return None
        path = self._home.log_index(record.spec.name, host, attempt)
        try:
            kept = json.loads(path.read_bytes())
            if kept["identity"] != _text(_identity(record, host, attempt)):
                return None
            source = source_of(record, self._home, host, attempt, kept["source"])
            index = LineIndex(
                int(kept["size"]),
                int(kept["newlines"]),
                bool(kept["ends_line"]),
                array("q", kept["offsets"]),
                array("q", kept["before"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return OpenLog(host, attempt, source, index)

    def _keep(self, record: Record, log: OpenLog) -> None:
        path = self._home.log_index(record.spec.name, log.host, log.attempt)
        identity = _text(_identity(record, log.host, log.attempt))
        content = {"identity": identity, **log.state()}
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            data = json.dumps(content, separators=(",", ":")).encode()
            durable.write_bytes(path, data, spends_ballast=False, lasts=False)
            _remove_oldest(path.parent)
        except OSError as error:  # it is only a cache
            logger.warning("the index of a log was not kept at %s: %s", path, error)


def _identity(record: Record, host: str, attempt: int) -> tuple[Any, ...]:
    is_here = record.folder is not None
    return (_FORMAT, record.spec.name, record.history.created, host, attempt, is_here)


def _text(identity: tuple[Any, ...]) -> str:
    return json.dumps(identity)


def _remove_oldest(folder: Path) -> None:
    paths = list(folder.iterdir())
    if len(paths) > _MOST_ON_DISK:
        with suppress(OSError):
            paths.sort(key=lambda path: path.stat().st_mtime)
            for path in paths[: len(paths) - _MOST_ON_DISK]:
                path.unlink(missing_ok=True)
