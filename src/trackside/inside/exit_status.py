"""The exit status of this process, kept in a file where Python does not tell it.

`raise SystemExit(3)`, `exit(3)` and a `sys.exit` imported by name reach no hook of Python's: when
`atexit` runs, the exception is gone and its code is known to the interpreter's C code alone.
"""

import opcode
import os
import sys
import threading
from pathlib import Path
from types import FrameType

_UNBUFFERED = 2
"""glibc's _IONBF."""


class MainFrame:
    """The outermost frame of the main thread, looked at again when it is over."""

    def __init__(self) -> None:
        frame: FrameType | None = sys._current_frames().get(threading.main_thread().ident or 0)
        while frame is not None and frame.f_back is not None:
            frame = frame.f_back
        self._frame = frame

    @property
    def has_returned(self) -> bool:
        """False when an exception has gone through it. Ask in `atexit` only."""
        if self._frame is None:
            return True
        last = self._frame.f_code.co_code[self._frame.f_lasti]
        return opcode.opname[last].startswith("RETURN")


def keep(path: Path) -> bool:
    """Have the C library put the status into the file as one byte, after Python is gone.

    False where it has no `on_exit`, which glibc alone has. The function that it calls with the
    status and our argument is its own `fputc`: nothing of Python's may run so late.
    """
    try:
        import ctypes

        library = ctypes.CDLL(None)
        library.on_exit.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        library.fopen.restype = ctypes.c_void_p
        library.setvbuf.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
        put = ctypes.cast(library.fputc, ctypes.c_void_p)
        file = library.fopen(os.fsencode(path), b"we")
        if not file:
            return False
        library.setvbuf(file, None, _UNBUFFERED, 0)
        return bool(library.on_exit(put, file) == 0)
    except (ImportError, OSError, AttributeError):
        return False
