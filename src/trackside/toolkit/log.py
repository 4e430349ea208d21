"""The toolkit's own lines on standard error, in the form SageMaker's log readers know.

Not `logging`: importing that would cost every job 6 ms before its first line.
"""

import os
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
    write_all(2, line.encode(errors="backslashreplace"))


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
