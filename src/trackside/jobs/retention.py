"""Decides what to remove from a home, by age and size. Pure: `garbage_collection` removes it."""

import re
import time
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

from trackside.errors import InvalidSetting
from trackside.jobs.stored_data import Stored
from trackside.quick_dataclass import dataclass

_SECONDS = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_BYTES = {"MB": 1e6, "GB": 1e9, "TB": 1e12}
_LIMIT = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")


class Kind(StrEnum):
    """In the order of removal when space is short."""

    LEFTOVER = "leftover"
    """Temporary files of killed processes: never used again."""
    WORKING = "working files"
    """The /opt/ml of a finished job."""
    OVERLAY = "overlay"
    """Recreated when a job needs it."""
    FOLDER = "job folder"
    """The job is still listed and read, from its record in storage."""
    DATA = "job data"
    """Model, output and tensors in embedded buckets. Not recoverable, so last, and never by age."""


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
    owner: str = ""
    """The job's owner; empty for what belongs to no job."""


@dataclass(frozen=True, slots=True)
class Keep:
    """How much to keep; None means everything."""

    age_seconds: float | None = None
    size_bytes: float | None = None

    @classmethod
    def parse(cls, text: str, where: str = "TRACKSIDE_KEEP") -> "Keep":
        """`90d,200GB`: an age, a size, or both; empty keeps all. `InvalidSetting` otherwise."""
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


QUOTA_KEEPS_SECONDS = 86400.0
"""A quota removes no data of a job that ended less than this ago: its owner can still fetch it."""
_QUOTA_MOST = 2**63


def parse_quota(text: str, where: str = "--quota") -> int | None:
    """`200GB` in bytes; None for `none`. `InvalidSetting` otherwise."""
    if text.strip() == "none":
        return None
    matched = _LIMIT.fullmatch(text.strip())
    factor = _BYTES.get(matched[2], 0.0) if matched else 0.0
    size_bytes = float(matched[1]) * factor if matched else 0.0
    if not 1 <= size_bytes < _QUOTA_MOST:
        raise InvalidSetting(
            f"{where} = {text!r} is no quota. Write a size greater than zero in {', '.join(_BYTES)}"
            ", as in 200GB, or none for no quota."
        )
    return int(size_bytes)


def decide(found: Iterable[Item], keep: Keep, *, now: float, used_bytes: int) -> list[Item]:
    """What to remove, in order: what is too old; then, until the rest fits, one kind after the
    other, oldest first.
    """
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


def within_quota(found: Iterable[Item], *, quota_bytes: int, used_bytes: int) -> list[Item]:
    """What to remove of one owner's until the rest fits, as by `decide`; newest data is kept."""
    now = time.time()
    old = now - QUOTA_KEEPS_SECONDS
    free = (item for item in found if item.kind is not Kind.DATA or item.last_used < old)
    return decide(free, Keep(size_bytes=quota_bytes), now=now, used_bytes=used_bytes)


def _is_due(item: Item, keep: Keep, now: float) -> bool:
    if item.kind is Kind.LEFTOVER:
        return True
    is_old = keep.age_seconds is not None and now - item.last_used > keep.age_seconds
    return is_old and item.kind is not Kind.DATA
