"""The process's one hook, for code that was not passed it, as in smdebug.

Also what hooks of this process are writing, and where: a trial opened in the writing process sees
everything up to this moment.
"""

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from trackside.storage.locate import Location

if TYPE_CHECKING:
    from trackside.capture.hook import Hook

_current: "Hook | None" = None
_writing: dict[str, tuple[int, Callable[[], None]]] = {}
"""A location to the training thread, and what to call there."""


def current_hook() -> "Hook | None":
    return _current


def set_hook(hook: "Hook") -> None:
    global _current
    _current = hook


def del_hook() -> None:
    global _current
    _current = None


def begin_writing(location: Location, flush: Callable[[], None]) -> None:
    _writing[_name(location)] = (threading.get_ident(), flush)


def end_writing(location: Location) -> None:
    _writing.pop(_name(location), None)


def flush_writing(location: Location) -> None:
    """Does nothing outside the training thread: only that one takes steps."""
    thread, flush = _writing.get(_name(location), (0, None)) if _writing else (0, None)
    if flush is not None and thread == threading.get_ident():
        flush()


def _name(location: Location) -> str:
    return location.uri.rstrip("/") if location.local is None else os.path.realpath(location.local)
