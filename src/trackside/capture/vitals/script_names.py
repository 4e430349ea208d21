"""What the running function of the script calls its values."""

import re
import sys
from collections.abc import Iterator, Mapping
from inspect import CO_OPTIMIZED
from types import FrameType
from typing import Any

from torch import nn

_NAMES = (r"advantages?|advs?", r"returns?|rets?|[RG]s?", r"rewards?")
_WEIGHTS = [re.compile(rf"(\w+_)?({name})(_\w+)?") for name in _NAMES]
"""Those that come first are nearest to what is multiplied."""
_COSTS = re.compile(r"neg|cost|penalt|regret|minus", re.IGNORECASE)


_MOST_VALUES, _DEEPEST = 2000, 3
"""That are looked through for modules, and objects within objects."""


def reachable_modules(kind: type[nn.Module]) -> list[nn.Module]:
    """Modules of just this class that the running functions of the script hold, as values of their
    own or as attributes of objects, the trainer's average for example."""
    frame: FrameType | None = sys._getframe(1)
    level: list[Any] = []
    while frame is not None:
        if not _is_of_library(str(frame.f_globals.get("__name__", ""))):
            level += _variables(frame).values()
        frame = frame.f_back
    found: dict[int, nn.Module] = {}
    known: set[int] = set()
    for _ in range(_DEEPEST):
        new = [each for each in level if id(each) not in known][: _MOST_VALUES - len(known)]
        known.update(map(id, new))
        found |= {id(each): each for each in new if type(each) is kind}
        level = [value for each in new for value in _attributes(each)]
    return list(found.values())


def _attributes(value: Any) -> list[Any]:
    """Of an object of a class of the script, or of torch's average; of others none."""
    if isinstance(value, nn.Module):
        return [each for each in value._modules.values() if each is not None]
    kind = type(value)
    is_plain = kind.__module__ in sys.builtin_module_names or _is_of_library(kind.__module__)
    if is_plain or isinstance(value, type):
        return []
    found = getattr(value, "__dict__", None)
    return list(found.values()) if isinstance(found, dict) else []


def script_variables() -> dict[str, Any]:
    """By name: those of the function of the script that runs, and of its `self`."""
    frame = _frame_of_script()
    if frame is None:
        return {}
    known = _variables(frame)
    return known | (vars(known["self"]) if hasattr(known.get("self"), "__dict__") else {})


def weights_among(known: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What is named as a policy's rewards, returns or advantages are."""
    for pattern in _WEIGHTS:
        for name, value in known.items():
            if pattern.fullmatch(name) and not _COSTS.search(name):
                yield name, value


def _frame_of_script() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_of_library(str(frame.f_globals.get("__name__", ""))):
        frame = frame.f_back
    return frame


def _is_of_library(module: str) -> bool:
    return module.partition(".")[0] in ("torch", "trackside", "lightning", "accelerate")


def _variables(frame: FrameType) -> dict[str, Any]:
    found = frame.f_locals
    known = dict(found)
    # Before Python 3.13 a function's frame keeps what it gives here, and so all that is in it. One
    # reference is the frame's and two are ours; with more, the script itself holds it.
    is_copy = isinstance(found, dict) and bool(frame.f_code.co_flags & CO_OPTIMIZED)
    if is_copy and sys.getrefcount(found) <= 3:
        found.clear()
    return known
