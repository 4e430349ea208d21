"""What of a home may go, by age and size. Pure: `disk` finds what there is, and removes it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from trackside.errors import InvalidSetting
from trackside.jobs.stored import Stored

_SECONDS = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_BYTES = {"MB": 1e6, "GB": 1e9, "TB": 1e12}
_LIMIT = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")


class Kind(StrEnum):
    """In the order in which they go when space is short."""

    LEFTOVER = "leftover"
    """Of a process that was killed: nobody comes back for it."""
    WORKING = "working files"
    """The /opt/ml of a job that has ended."""
    OVERLAY = "overlay"
    """Made again when a job needs it."""
    FOLDER = "job folder"
    """The job is still listed and read, from its record in storage."""
    DATA = "job data"
    """Model, output, tensors in embedded buckets. Gone for good, so last, and never by age."""


_TURNS = {kind: turn for turn, kind in enumerate(Kind)}


@dataclass(frozen=True, slots=True)
class Item:
    kind: Kind
    name: str
    last_used: float
    """Seconds since the epoch."""
    size_bytes: int
    path: Path | None = None
    data: tuple[Stored, ...] = ()


@dataclass(frozen=True, slots=True)
class Keep:
    """How much is kept; None is everything."""

    age_seconds: float | None = None
    size_bytes: float | None = None

    @classmethod
    def parse(cls, text: str, where: str = "TRACKSIDE_KEEP") -> "Keep":
        """`90d,200GB`: an age, a size, or both; empty keeps all. `InvalidSetting` for others."""
        age = size = None
        for part in filter(None, (part.strip() for part in text.split(","))):
            matched = _LIMIT.fullmatch(part)
            number, unit = (float(matched[1]), matched[2]) if matched else (0.0, "")
            if unit in _SECONDS and age is None:
                age = number * _SECONDS[unit]
            elif unit in _BYTES and size is None:
                size = number * _BYTES[unit]
            else:
                raise InvalidSetting(
                    f"{where} = {text!r} is no age and size. Write an age in {', '.join(_SECONDS)}"
                    f", a size in {', '.join(_BYTES)}, or both, as in 90d,200GB."
                )
        return cls(age, size)


def decide(found: Iterable[Item], keep: Keep, *, now: float, used_bytes: int) -> list[Item]:
    """What goes, in this order: what is too old, and then, until the rest fits, one kind after the
    other, the oldest first."""
    ordered = sorted(found, key=lambda item: (_TURNS[item.kind], item.last_used, item.name))
    chosen = {item for item in ordered if _is_due(item, keep, now)}
    left = used_bytes - sum(item.size_bytes for item in chosen)
    for item in ordered:
        if keep.size_bytes is None or left <= keep.size_bytes:
            break
        if item not in chosen:
            chosen.add(item)
            left -= item.size_bytes
    return [item for item in ordered if item in chosen]


def _is_due(item: Item, keep: Keep, now: float) -> bool:
    if item.kind is Kind.LEFTOVER:
        return True
    is_old = keep.age_seconds is not None and now - item.last_used > keep.age_seconds
    return is_old and item.kind is not Kind.DATA
