"""Converts the argument of `log` to names and numbers. Pure."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, SupportsFloat, SupportsIndex

MOST_STEP = 2**63 - 1
_MOST_SHOWN = 80

Refuse = Callable[[str, str], None]
"""Called with the name of a skipped value, and what is wrong with it."""


def flattened(
    values: Mapping[Any, Any], refuse: Refuse, prefix: str = ""
) -> Iterator[tuple[str, float]]:
    """`{"train": {"loss": 1}}` is `train/loss`. Values that are not numbers are skipped."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if type(value) is float:
            yield name, value
        elif isinstance(value, Mapping):
            yield from flattened(value, refuse, f"{name}/")
        else:
            try:
                found = number(value)
            except Exception as error:  # noqa: BLE001 - an array's own, of whatever kind
                refuse(name, _what_is_wrong(value, error))
            else:
                yield name, found


def number(value: Any) -> float:
    """Of a number, or of an array or tensor with one element; the conversion's error otherwise."""
    item = getattr(value, "item", None)
    plain = item() if callable(item) else value  # not `float`, which makes torch warn in training
    if isinstance(plain, str | bytes | complex) or not isinstance(plain, SupportsFloat):
        raise TypeError("it is not a number")
    return float(plain)


def whole(step: Any) -> int:
    """A step; `ValueError` if it is not an integer."""
    item = getattr(step, "item", None)
    plain = item() if callable(item) else step
    is_whole = isinstance(plain, SupportsIndex) or (isinstance(plain, float) and plain.is_integer())
    if not is_whole or not 0 <= int(plain) <= MOST_STEP:
        raise ValueError(f"step={shown(step)} is not a non-negative whole number.")
    return int(plain)


def shown(value: Any) -> str:
    try:
        text = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001 - the object's own
        text = object.__repr__(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"


def _what_is_wrong(value: Any, error: Exception) -> str:
    shape = getattr(value, "shape", None)
    if shape is not None and tuple(shape) not in ((), (1,)):
        return f"{shown(value)} has the shape {tuple(shape)}; log one number, such as its mean"
    if isinstance(error, OverflowError):
        return f"{shown(value)} is too large for a curve"
    return f"{shown(value)} is not a number; log a number, or an array or tensor of one element"
