"""JSON from clients, restricted to what the rest of the server can handle: 64-bit numbers, text
that can be encoded, and a limited depth."""

import json
import math
from collections.abc import Iterable
from typing import Any, NoReturn

_LEVELS_MOST = 64
_WHOLE_MOST = 2**63 - 1
_DIGITS_MOST = 20


def read_json(data: bytes) -> Any:
    """ValueError, with a clause that gives the reason, for everything else."""
    text = data.decode()
    try:
        found = json.loads(text, parse_int=_whole, parse_float=_real, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it has too many levels") from None
    if text.count("{") + text.count("[") > _LEVELS_MOST:
        _check_levels(found)
    if "\\u" in text:
        _check_texts(found)
    return found


def read_object(data: bytes) -> dict[str, Any]:
    found = read_json(data)
    if not isinstance(found, dict):
        raise ValueError("it is not an object")
    return found


def _whole(text: str) -> int:
    if len(text) > _DIGITS_MOST or abs(number := int(text)) > _WHOLE_MOST:
        raise ValueError(f"the number {text[:_DIGITS_MOST]}… is too large")
    return number


def _real(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:_DIGITS_MOST]} is too large")
    return number


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _check_levels(found: Any) -> None:
    level = [found]
    for _ in range(_LEVELS_MOST):
        level = [inner for each in level for inner in _within(each)]
        if not level:
            return
    raise ValueError(f"it has more than {_LEVELS_MOST} levels")


def _within(each: Any) -> Iterable[Any]:
    if isinstance(each, dict):
        return each.values()
    return each if isinstance(each, list) else ()


def _check_texts(found: Any) -> None:
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("a text has half of a surrogate pair") from None
