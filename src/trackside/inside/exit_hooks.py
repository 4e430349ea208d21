"""How the process of a run ends, as far as Python tells: an exception, `sys.exit`, the last line.

That it left by another SystemExit is seen from its outermost frame; `exit_status` has the code.
What it does not tell (SIGKILL, `os._exit`, a crash of native code) the supervisor sees by itself.
"""

import atexit
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, NoReturn, Protocol

from trackside.inside.exit_status import MainFrame


class Ending(Protocol):
    """The run that wants to know."""

    def note_error(self, error: BaseException) -> None: ...

    def note_exit(self, code: object, frame: Any) -> None: ...

    def end_with_process(self, *, has_returned: bool) -> None: ...


class ExitHooks:
    """Tells one run, from `install` to `remove`. Whoever came before us is asked too."""

    def __init__(self, run: Ending) -> None:
        self._run = run
        self._pid = os.getpid()
        self._excepthook: Callable[..., Any] = sys.excepthook
        self._exit: Callable[..., NoReturn] = sys.exit
        self._is_on = False
        self._main: MainFrame | None = None

    def install(self, *, errors_end: bool = True) -> None:
        """`errors_end`: whether an exception that nobody catches ends the process. At a prompt and
        in a notebook it does not."""
        self._is_on = True
        if errors_end:
            sys.excepthook = self._on_exception
            sys.exit = self._on_exit
            self._main = MainFrame()
        atexit.register(self._at_exit)

    def remove(self) -> None:
        """Where somebody has put his own function before ours, ours stays and only hands on."""
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
