"""Names of jobs that nobody has to invent: a base and the time."""

import re
from datetime import UTC, datetime

from trackside.texts.shown_names import MOST_CHARACTERS

_STAMP = re.compile(r"-\d{4}(-\d\d){5}-\d{3}$")


def unique_name(base: str, now: datetime | None = None) -> str:
    """`<base>-YYYY-MM-DD-HH-MM-SS-mmm`, the base cut so that the name has at most 63 characters."""
    moment = now or datetime.now(UTC)
    stamp = f"{moment:%Y-%m-%d-%H-%M-%S}-{moment.microsecond // 1000:03d}"
    room = MOST_CHARACTERS - len(stamp) - 1
    return f"{_clean(base)[:room].rstrip('-')}-{stamp}"


def without_time(name: str) -> str:
    """The base of a name that was made so; any other name itself."""
    return _STAMP.sub("", name)


def _clean(base: str) -> str:
    return re.sub("[^a-zA-Z0-9]+", "-", base).strip("-") or "job"
