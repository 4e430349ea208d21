"""A host's log: when each part of it was written, and its chunks in object storage.

The sandbox writes the log file directly, so nothing is lost when the supervisor dies.
"""

import os
import time
from pathlib import Path

from trackside.records.log_lines import chunk_name, chunk_position, decode, encode, read_marks
from trackside.storage.locate import Location
from trackside.supervisor.sync_part import SyncPart, now

CHUNK_BYTES = 1 << 20
CHUNK_SECONDS = 5.0
TAIL_BYTES = 8192


class LogClock:
    """Records the log's size over time. Called often; writes only when the log has grown."""

    def __init__(self, log: Path, times: Path) -> None:
        self._log = os.fspath(log)
        self._times = times
        marks = read_marks(times)
        self._size = marks[-1].size if marks else 0
        self._time = marks[-1].time if marks else 0.0
        _drop_torn_line(times)

    def tick(self) -> bool:
        """Whether it has grown."""
        try:
            size = os.stat(self._log).st_size
        except FileNotFoundError:
            return False
        if size <= self._size:
            return False
        self._time = max(self._time, time.time())  # readers search it by bisection
        line = f"{size} {self._time:.3f}\n".encode()
        with self._times.open("ab", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            if file.write(line) != len(line):  # the disk became full in the middle
                file.truncate(end)
                return False
        self._size = size
        return True


def _drop_torn_line(times: Path) -> None:
    """Left by a crash; appending to it would corrupt the next mark."""
    try:
        with times.open("r+b") as file:
            file.truncate(file.read().rfind(b"\n") + 1)
    except FileNotFoundError:
        return


def add_line(log: Path, times: Path, line: str) -> None:
    """Append a line to a log that no script writes to any more, unless an earlier supervisor has
    added it.
    """
    data = f"{line}\n".encode(errors="backslashreplace")
    with log.open("a+b") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
        tail = file.read()
        if data not in tail:
            file.write(data if not tail or tail.endswith(b"\n") else b"\n" + data)
    LogClock(log, times).tick()


class LogUploader(SyncPart):
    """Uploads what is new as chunks named by their offset, so that a repeat is safe."""

    def __init__(self, log: Path, times: Path, to: Location, attempt: int) -> None:
        super().__init__("log", to)
        self._log = log
        self._times = times
        self._attempt = attempt
        self._offset: int | None = None
        self._sent_at = time.monotonic()

    def tick(self, *, last: bool = False) -> None:
        """Upload the chunks that are due (`last`: all there is)."""
        started = now()
        if self._offset is None:
            self._offset = self._resume()
        self.state.pending_bytes = self._send_due(last)
        if not self.state.pending_bytes:
            self._set_synced(started)

    def _send_due(self, last: bool) -> int:
        """Returns the bytes left waiting."""
        while True:
            raw = self._unsent()
            due = len(raw) >= CHUNK_BYTES or time.monotonic() - self._sent_at >= CHUNK_SECONDS
            if not raw or not (last or due):
                return len(raw)
            self._send(raw, last)
            self._set_alive()
            if len(raw) < CHUNK_BYTES and not last:
                return 0

    def _unsent(self) -> bytes:
        assert self._offset is not None
        try:
            with self._log.open("rb") as file:
                file.seek(self._offset)
                return file.read(CHUNK_BYTES)
        except FileNotFoundError:
            return b""

    def _send(self, raw: bytes, last: bool) -> None:
        assert self._offset is not None
        end = raw.rfind(b"\n") + 1
        if end and not (last and len(raw) < CHUNK_BYTES):
            raw = raw[:end]  # cut at a line's end unless the line is longer than a chunk
        elif not end and len(raw) < CHUNK_BYTES and not last:
            self._sent_at = time.monotonic()
            return  # a line that is still being written
        marks = read_marks(self._times)
        chunk = encode(raw, self._offset, marks, time.time())
        place = self._to.child(chunk_name(self._attempt, self._offset))
        place.store.put(place.key, chunk)
        self._offset += len(raw)
        self._sent_at = time.monotonic()

    def _resume(self) -> int:
        """Where an earlier supervisor of this host stopped: the end of the last chunk."""
        first = self._to.child(chunk_name(self._attempt, 0)).key
        prefix = first[: first.rindex("-") + 1]
        keys = [entry.key for entry in self._to.store.list(prefix)]
        places = [(place, key) for key in keys if (place := chunk_position(key.rpartition("/")[2]))]
        if not places:
            return 0
        (_, start), key = max(places)
        return start + sum(len(line) for _, line in decode(self._to.store.get(key)))
