"""The toolkit's own lines on standard error, in the form SageMaker's log readers know.

Not `logging`: importing that would cost every job 6 ms before its first line.
"""

import os
import stat
import time

NAME = "trackside-toolkit"
FORMAT = "%(asctime)s %(name)-12s %(levelname)-8s %(message)s"
INFO, WARNING, ERROR = 20, 30, 40

_LEVELS = {INFO: "INFO", WARNING: "WARNING", ERROR: "ERROR"}
_threshold = INFO


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
    """For a line that the script has left open, as progress bars do. Known where the log is a
    file; elsewhere the lines run together."""
    try:
        size_bytes = os.fstat(2).st_size if stat.S_ISREG(os.fstat(2).st_mode) else 0
        if not size_bytes:
            return b""
        log = os.open("/dev/fd/2", os.O_RDONLY)  # ours is for writing alone
        try:
            return b"" if os.pread(log, 1, size_bytes - 1) == b"\n" else b"\n"
        finally:
            os.close(log)
    except OSError:
        return b""


def write_all(descriptor: int, data: bytes) -> None:
    """Write it whole. A log that is full or gone loses lines; it never fails the job."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            time.sleep(0.001)
        except OSError:
            return
