"""The toolkit's own lines on standard error, in the format of SageMaker's log readers; and reading
the log.

Not `logging`: importing that would cost every job 6 ms before its first line.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import time

NAME = "trackside-toolkit"
FORMAT = "%(asctime)s %(name)-12s %(levelname)-8s %(message)s"
INFO, WARNING, ERROR = 20, 30, 40

_LEVELS = {INFO: "INFO", WARNING: "WARNING", ERROR: "ERROR"}
_threshold = INFO
_log: int | None = None
_SETTLE_SECONDS = 2.0
_FIONREAD = 0x541B  # of Linux; `termios` has it too, where it was built


def read_from(descriptor: int | None) -> None:
    """Where to read the log if standard error is a pipe that another process copies into it."""
    global _log
    _log = descriptor


def open_for_reading() -> int | None:
    """A new descriptor on the log. None if it cannot be read."""
    try:
        if stat.S_ISREG(os.fstat(2).st_mode):
            # By descriptor: the log's path may not exist in this mount namespace.
            return os.open("/dev/fd/2", os.O_RDONLY)
        return None if _log is None else os.dup(_log)
    except OSError:
        return None


def settle() -> None:
    """Wait until everything written to standard error is in the log, with a timeout: the log may be
    on a full disk.
    """
    deadline = time.monotonic() + _SETTLE_SECONDS
    try:
        while _log is not None and _num_unread() and time.monotonic() < deadline:
            time.sleep(0.001)
    except OSError:
        return  # standard error is not a pipe


def _num_unread() -> int:
    return int.from_bytes(fcntl.ioctl(2, _FIONREAD, bytes(4)), sys.byteorder)


def set_level(level: int) -> None:
    global _threshold
    _threshold = level


def info(message: str) -> None:
    _write(INFO, message)


def warning(message: str) -> None:
    _write(WARNING, message)


def error(message: str) -> None:
    _write(ERROR, message)


def _write(level: int, message: str) -> None:
    if level < _threshold:
        return
    now = time.time()
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    line = f"{stamp},{int(now * 1000) % 1000:03d} {NAME} {_LEVELS[level]:<8} {message}\n"
    write_all(2, _line_end() + line.encode(errors="backslashreplace"))


def _line_end() -> bytes:
    """For an incomplete line of the script, such as a progress bar. Known if the log can be read;
    otherwise the lines run together.
    """
    log = open_for_reading()
    if log is None:
        return b""
    settle()
    try:
        size_bytes = os.fstat(log).st_size
        is_open = size_bytes and os.pread(log, 1, size_bytes - 1) != b"\n"
        return b"\n" if is_open else b""
    except OSError:
        return b""
    finally:
        os.close(log)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it. A log that is full or gone loses lines; it never fails the job."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            time.sleep(0.001)
        except OSError:
            return
