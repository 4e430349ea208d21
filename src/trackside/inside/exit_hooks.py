"""How a run's process or notebook cell ends: by an exception, by `sys.exit`, or normally.

What Python does not see (SIGKILL, `os._exit`, a crash in native code) the supervisor detects.
"""

import atexit
import opcode
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn, Protocol


class Ending(Protocol):
    """The run that is notified."""

    def note_error(self, error: BaseException) -> None: ...

    def note_exit(self, code: object, frame: Any) -> None: ...

    def end_with_process(self, *, has_returned: bool) -> None: ...


class ExitHooks:
    """Notifies one run, from `install` to `remove`. Hooks that were set before are called too."""

    def __init__(self, run: Ending) -> None:
        self._run = run
        self._pid = os.getpid()
        self._excepthook: Callable[..., Any] = sys.excepthook
        self._exit: Callable[..., NoReturn] = sys.exit
        self._is_on = False
        self._main: MainFrame | None = None

    def install(self, *, errors_end: bool = True) -> None:
        """`errors_end`: whether an uncaught exception ends the process. At a prompt and in a
        notebook it does not."""
        self._is_on = True
        if errors_end:
            sys.excepthook = self._on_exception
            sys.exit = self._on_exit
            self._main = MainFrame()
        atexit.register(self._at_exit)

    def remove(self) -> None:
        """Where another hook was set over ours, ours stays and only calls the previous one."""
        self._is_on = False
        self._main = None
        if sys.excepthook == self._on_exception:
            sys.excepthook = self._excepthook
        if sys.exit == self._on_exit:
            sys.exit = self._exit
        atexit.unregister(self._at_exit)

    @property
    def _is_here(self) -> bool:
        return self._is_on and os.getpid() == self._pid

    def _on_exception(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if self._is_here:
            with suppress(Exception):  # what matters now is the script's own error
                self._run.note_error(error)
        self._excepthook(kind, error, trace)

    def _on_exit(self, code: object = None, /) -> NoReturn:
        if self._is_here:
            with suppress(Exception):
                self._run.note_exit(code, sys._getframe(1))
        self._exit(code)

    def _at_exit(self) -> None:
        if self._is_here:
            has_returned = self._main is None or self._main.has_returned
            self._run.end_with_process(has_returned=has_returned)


_UNBUFFERED = 2
"""glibc's _IONBF."""


class MainFrame:
    """The outermost frame of the main thread, inspected again when it has finished."""

    def __init__(self) -> None:
        frame: FrameType | None = sys._current_frames().get(threading.main_thread().ident or 0)
        while frame is not None and frame.f_back is not None:
            frame = frame.f_back
        self._frame = frame

    @property
    def has_returned(self) -> bool:
        """False when an exception was raised through it. Valid in `atexit` only."""
        if self._frame is None:
            return True
        last = self._frame.f_code.co_code[self._frame.f_lasti]
        return opcode.opname[last].startswith("RETURN")


def write_exit_status(path: Path) -> bool:
    """Have the C library write the exit status to the file as one byte, after Python has exited.

    `raise SystemExit(3)`, `exit(3)` and a `sys.exit` imported by name reach no hook of Python's:
    when `atexit` runs, the exception is gone and only the interpreter's C code knows its code.

    False without `on_exit`, which only glibc has. The function that it calls with the status and
    our argument is its own `fputc`: no Python code may run so late.
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


class CellWatcher(Protocol):
    """The run that is notified.

    IPython catches what a cell raises. Whether an error ended the run is known later: not if
    another cell succeeds, but if the kernel exits.
    """

    def note_cell(self, error: BaseException | None) -> None: ...


class Cells:
    """Notifies one run of each notebook cell, from `install` to `remove`."""

    def __init__(self, run: CellWatcher) -> None:
        self._run = run
        self._shell: Any = None

    def install(self) -> None:
        ipython = sys.modules.get("IPython")
        self._shell = None if ipython is None else ipython.get_ipython()
        if self._shell is not None:
            self._shell.events.register("post_run_cell", self._after)

    def remove(self) -> None:
        """A second call does nothing. IPython finishes its list even when a cell removes itself."""
        shell, self._shell = self._shell, None
        if shell is not None and self._after in shell.events.callbacks["post_run_cell"]:
            shell.events.unregister("post_run_cell", self._after)

    def _after(self, result: Any) -> None:
        if self._shell is not None:
            self._run.note_cell(result.error_before_exec or result.error_in_exec)
