"""The process's one hook, for code that was not handed it. A thin shell, for smdebug's sake."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trackside.capture.hook import Hook

_current: "Hook | None" = None


def current_hook() -> "Hook | None":
    return _current


def set_hook(hook: "Hook") -> None:
    global _current
    _current = hook


def del_hook() -> None:
    global _current
    _current = None
