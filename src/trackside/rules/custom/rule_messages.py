"""What a custom rule's process says, line by line, and nothing else: it is untrusted.

`process.py` writes such lines; `custom_rule.py` acts on them. The rule runs in the same process and
may write what it likes, so every member is checked.
"""

import json
from dataclasses import dataclass, fields, replace
from typing import Any

from trackside.records.finding import Finding

LINE_BYTES = 1 << 18
"""Longer lines are none of ours."""
TEXT_MOST = 10_000
"""Characters of a message that are kept."""
_STEP_MOST = (1 << 63) - 1
_TEXTS = tuple(field.name for field in fields(Finding) if field.type is str)


@dataclass(frozen=True, slots=True)
class Begins:
    """Its own code runs from now on: at a step, or to be made."""

    step: int | None


@dataclass(frozen=True, slots=True)
class Looked:
    step: int | None


@dataclass(frozen=True, slots=True)
class Failed:
    text: str


@dataclass(frozen=True, slots=True)
class Over:
    """It wants to see no more, or there is no more."""


Word = Begins | Looked | Failed | Over | Finding


class Nonsense(Exception):
    """No rule's process would say that."""


def parse(line: bytes) -> Word:
    """`Nonsense` unless it is one of these."""
    try:
        said = json.loads(line)
        match said["kind"]:
            case "begins":
                return Begins(_step(said["step"]))
            case "looked":
                return Looked(_step(said["step"]))
            case "finding":
                return _finding(said["line"])
            case "failure":
                return Failed(_text(said["text"], "text"))
            case "over":
                return Over()
            case other:
                raise ValueError(other)
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise Nonsense(repr(error)) from None


def checked(found: Finding) -> Finding:
    """With members of the right kind, as anybody expects who reads it; `TypeError` or `ValueError`
    where one is not. When and for which configuration it was found is for the evaluator to say."""
    texts: dict[str, Any] = {name: _text(getattr(found, name), name) for name in _TEXTS}
    return replace(found, **texts, step=_step(found.step), time=0.0, is_profiler=False)


def _finding(line: Any) -> Finding:
    return checked(Finding.from_line(_text(line, "line", LINE_BYTES).encode()))


def _text(value: Any, name: str, most: int = TEXT_MOST) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} = {value!r:.100} is no text.")
    value.encode()  # half of a surrogate pair cannot be written down
    return value[:most]


def _step(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or value != int(value) or not abs(int(value)) <= _STEP_MOST:
        raise ValueError(f"step = {value!r:.100} is no number of a step.")
    return int(value)
