"""The stacks of a process that holds the interpreter's lock, so that none of its threads runs:
faulthandler writes them, in a thread that is not Python's, unless it is put off in time.

There is one such timer in a process. A script that uses it has it for itself.
"""

import faulthandler
import math
import os
import time
from pathlib import Path
from typing import IO, Any

_TIMES = 10
"""Within the time that it is set to, the timer is set again: that starts a thread."""
_original = faulthandler.dump_traceback_later
_is_taken = False


def leave_to_script() -> None:
    """From now on notice if the script sets the timer itself. Called before the script starts."""
    if faulthandler.dump_traceback_later is _original:
        faulthandler.dump_traceback_later = _set_by_script


def _set_by_script(*args: Any, **kwargs: Any) -> None:
    global _is_taken
    _is_taken = True
    _original(*args, **kwargs)


class LastWords:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None
        self._set_at = -math.inf

    def put_off(self, seconds: float) -> None:
        """The stacks are written unless this is called again within nine tenths of `seconds`."""
        if _is_taken or time.monotonic() - self._set_at < seconds / _TIMES:
            return
        self._set_at = time.monotonic()
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("w")
        if os.fstat(self._file.fileno()).st_size:  # the machine was only suspended
            os.truncate(self._file.fileno(), 0)
            os.lseek(self._file.fileno(), 0, os.SEEK_SET)
        _original(seconds, file=self._file)

    def close(self) -> None:
        if self._file is not None:
            if not _is_taken:
                faulthandler.cancel_dump_traceback_later()
            self._path.unlink(missing_ok=True)
