"""A host's log on its way out: when each part was written, and chunks of it in object storage.

The script writes its log file itself, without us between; so nothing is lost when we die.
"""

import time
from pathlib import Path

from trackside.log_lines import chunk_name, decode, encode, read_marks
from trackside.storage.locate import Location

CHUNK_BYTES = 1 << 20
CHUNK_SECONDS = 5.0


class LogClock:
    """Notes which size the log had when. Called often; writes only when the log has grown."""

    def __init__(self, log: Path, times: Path) -> None:
        self._log = log
        self._times = times
        marks = read_marks(times)
        self._size = marks[-1].size if marks else 0

    def tick(self) -> None:
        try:
            size = self._log.stat().st_size
        except FileNotFoundError:
            return
        if size > self._size:
            self._size = size
            with self._times.open("a") as file:
                file.write(f"{size} {time.time():.3f}\n")


class LogUploader:
    """Sends what is new as chunks named by their offset, so that a repeat does no harm."""

    def __init__(self, log: Path, times: Path, to: Location, attempt: int) -> None:
        self._log = log
        self._times = times
        self.to = to
        self._attempt = attempt
        self._offset: int | None = None
        self._sent_at = time.monotonic()

    def tick(self, *, last: bool = False) -> int:
        """Upload the chunks that are due (`last`: all there is). Returns the bytes left waiting."""
        if self._offset is None:
            self._offset = self._resume()
        while True:
            raw = self._unsent()
            due = len(raw) >= CHUNK_BYTES or time.monotonic() - self._sent_at >= CHUNK_SECONDS
            if not raw or not (last or due):
                return len(raw)
            self._send(raw, last)
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
        place = self.to.child(chunk_name(self._attempt, self._offset))
        place.store.put(place.key, chunk)
        self._offset += len(raw)
        self._sent_at = time.monotonic()

    def _resume(self) -> int:
        """Where an earlier supervisor of this host stopped: the end of the last chunk."""
        first = self.to.child(chunk_name(self._attempt, 0)).key
        prefix = first[: first.rindex("-") + 1]
        keys = [entry.key for entry in self.to.store.list(prefix)]
        if not keys:
            return 0
        start = int(keys[-1].removeprefix(prefix).removesuffix(".log"))
        return start + sum(len(line) for _, line in decode(self.to.store.get(keys[-1])))
