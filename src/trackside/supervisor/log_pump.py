"""Moves the command's output from a pipe to the log; a full disk costs lines, not the script.

Runs inside the sandbox's init, so it imports nothing slow. Readers see a log file that only grows.
Space is reserved ahead of its end: so a full disk is noticed before a byte is lost, and the last
lines of a script that fails because of it can still be written.
"""

import errno
import os
import sys
import time

if sys.platform == "linux":
    from trackside.system.linux_calls import reserve

PIECE_BYTES = 1 << 16
"""Moved at once: as much as a pipe holds."""
RESERVED_BYTES = 4 * PIECE_BYTES
HELD_BYTES = PIECE_BYTES // 2
"""Of the newest output, in memory while the disk is full."""
RETRY_SECONDS = 0.1
"""How often a full disk is tried again."""

_NONBLOCK = 2  # SPLICE_F_NONBLOCK
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


class LogPump:
    """One pipe and one log. The writer's end is `writable`; no other process may write to the log.

    Bytes go from the pipe to the file by splice: at every moment they are in one or the other, so
    once the pipe is empty the file is complete.
    """

    def __init__(self, log: str) -> None:
        self._log = os.open(log, os.O_RDWR | os.O_CREAT, 0o644)
        self._end = os.lseek(self._log, 0, os.SEEK_END)
        self._reserved_to = self._end
        self._can_reserve = sys.platform == "linux"
        self._can_splice = hasattr(os, "splice")
        self.readable, self.writable = os.pipe()
        os.set_blocking(self.readable, False)
        self._held = bytearray()
        self._num_dropped = 0
        self._refusal: OSError | None = None
        """Why the log takes nothing at present."""
        self._tried_at = 0.0

    @property
    def is_holding(self) -> bool:
        return self._refusal is not None

    def open_for_reading(self) -> int:
        """For the command, which may read its own last lines."""
        return os.open(f"/dev/fd/{self._log}", os.O_RDONLY)

    def say(self, line: str) -> None:
        """Add a line of our own, after the output so far."""
        self._hold(self._line_end() + f"[trackside] {line}\n".encode())
        self._write_held()

    def step(self) -> int:
        """Move available output, one piece at most; returns the bytes taken from the pipe."""
        if self._refusal is not None and time.monotonic() - self._tried_at >= RETRY_SECONDS:
            self._write_held()
        try:
            if self._refusal is not None:
                return self._hold(os.read(self.readable, PIECE_BYTES))
            return self._move()
        except BlockingIOError:
            return 0

    def finish(self) -> None:
        """Move the rest, using the reserved space."""
        while self.step():
            pass
        if self._held:
            self._write_held(is_last=True)
        if self._reserved_to > self._end:
            os.ftruncate(self._log, self._end)  # gives back what is reserved beyond

    def _move(self) -> int:
        try:
            self._reserve()
            if self._can_splice:
                moved = os.splice(self.readable, self._log, PIECE_BYTES, flags=_NONBLOCK)
                self._end += moved
                return moved
        except BlockingIOError:
            raise
        except OSError as error:
            if self._can_splice and error.errno in _UNSUPPORTED:
                self._can_splice = False  # the log's file system does not support it
            else:
                self._refuse(error)
            return self.step()
        taken = self._hold(os.read(self.readable, PIECE_BYTES))
        self._write_held()
        return taken

    def _reserve(self) -> None:
        """Reserve space for two pieces beyond the end, or raise: the second is for `finish`."""
        if not self._can_reserve or self._reserved_to - self._end >= 2 * PIECE_BYTES:
            return
        try:
            reserve(self._log, self._end, RESERVED_BYTES)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            self._can_reserve = False
            return
        self._reserved_to = self._end + RESERVED_BYTES

    def _hold(self, data: bytes) -> int:
        """Keep the newest complete lines."""
        self._held += data
        if (excess := len(self._held) - HELD_BYTES) > 0 and self._refusal is not None:
            dropped = self._held.find(b"\n", excess - 1) + 1 or excess
            self._num_dropped += dropped
            del self._held[:dropped]
        return len(data)

    def _write_held(self, *, is_last: bool = False) -> None:
        """All of it, after a line about what is missing; or nothing."""
        try:
            if not is_last:
                self._reserve()
            self._append(self._marker() + self._held)
        except OSError as error:
            self._refuse(error)
            return
        self._held.clear()
        self._num_dropped = 0
        self._refusal = None

    def _append(self, text: bytes) -> None:
        """Complete or not at all."""
        written = 0
        try:
            while written < len(text):
                written += os.write(self._log, text[written:])
        except OSError:
            if written:
                os.ftruncate(self._log, self._end)
                os.lseek(self._log, self._end, os.SEEK_SET)
                self._reserved_to = self._end  # cutting gives it back
            raise
        self._end += len(text)

    def _refuse(self, error: OSError) -> None:
        self._refusal = error
        self._tried_at = time.monotonic()

    def _marker(self) -> bytes:
        if not self._num_dropped or self._refusal is None:
            return b""
        why = os.strerror(self._refusal.errno or 0)
        lost = f"{self._num_dropped:,} bytes of output are missing here: {why}."
        return self._line_end() + f"[trackside] {lost}\n".encode()

    def _line_end(self) -> bytes:
        """Terminates an incomplete line."""
        is_open = self._end and os.pread(self._log, 1, self._end - 1) != b"\n"
        return b"\n" if is_open else b""
