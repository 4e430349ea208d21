"""Messages of a custom rule's process, parsed and checked.

`process.py` writes these lines, `custom_rule.py` acts on them. The rule runs in the same process
and can write anything, so every field is checked.
"""

import json
from dataclasses import fields, replace
from typing import Any

from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding

LINE_BYTES = 1 << 18
"""Longer lines are invalid."""
TEXT_MOST = 10_000
"""Messages are cut to this many characters."""
_STEP_MOST = (1 << 63) - 1
_TEXTS = tuple(field.name for field in fields(Finding) if field.type is str)


@dataclass(frozen=True, slots=True)
class Begins:
    """The rule's own code runs from now on: its constructor, or a step."""

    step: int | None


@dataclass(frozen=True, slots=True)
class Checked:
    step: int | None


@dataclass(frozen=True, slots=True)
class Failed:
    text: str


@dataclass(frozen=True, slots=True)
class Over:
    """The rule wants no more steps, or there are none."""


Word = Begins | Checked | Failed | Over | Finding


class InvalidMessage(Exception):
    """The line is not a valid message."""


def parse(line: bytes) -> Word:
    """`Nonsense` unless it is a valid message."""
    try:
        said = json.loads(line)
        match said["kind"]:
            case "begins":
                return Begins(_step(said["step"]))
            case "checked":
                return Checked(_step(said["step"]))
            case "finding":
                return _finding(said["line"])
            case "failure":
                return Failed(_text(said["text"], "text"))
            case "over":
                return Over()
            case other:
                raise ValueError(other)
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise InvalidMessage(repr(error)) from None


def checked(found: Finding) -> Finding:
    """The finding with fields of the right types; `TypeError` or `ValueError` otherwise. The
    evaluator adds the time and the rule's configuration.
    """
    texts: dict[str, Any] = {name: _text(getattr(found, name), name) for name in _TEXTS}
    return replace(found, **texts, step=_step(found.step), time=0.0, is_profiler=False)


def _finding(line: Any) -> Finding:
    return checked(Finding.from_line(_text(line, "line", LINE_BYTES).encode()))


def _text(value: Any, name: str, most: int = TEXT_MOST) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} = {value!r:.100} is not a string.")
    value.encode()  # a lone surrogate cannot be encoded
    return value[:most]


def _step(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or value != int(value) or not abs(int(value)) <= _STEP_MOST:
        raise ValueError(f"step = {value!r:.100} is not a step number.")
    return int(value)
