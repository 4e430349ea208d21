"""Job names: a given one, validated, or a unique one from a base and the current time."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from trackside.errors import Violation
from trackside.texts.shown_names import JOB_NAME, MOST_CHARACTERS, wire_name


def unique_name(base: str, now: datetime | None = None) -> str:
    """`<base>-YYYY-MM-DD-HH-MM-SS-mmm`, the base cut so that the name has at most 63 characters."""
    moment = now or datetime.now(UTC)
    stamp = f"{moment:%Y-%m-%d-%H-%M-%S}-{moment.microsecond // 1000:03d}"
    room = MOST_CHARACTERS - len(stamp) - 1
    return f"{_clean(base)[:room].rstrip('-')}-{stamp}"


def name_problems(given: str) -> Iterator[Violation]:
    """Also accepts `.` and `_`, which the wire format does not."""
    wire = wire_name(given)
    if re.fullmatch(JOB_NAME, wire) and len(wire) <= MOST_CHARACTERS:
        return
    advice = f"must be 1 to {MOST_CHARACTERS} letters and digits, with - . _ between them"
    if len(wire) > MOST_CHARACTERS and wire != given:
        advice = f"is {len(wire) - MOST_CHARACTERS} characters too long: {wire!r} stands for it"
    yield Violation("TrainingJobName", given, advice)


def base_of(entry_point: str | None, image: str | None) -> str:
    """The default name of a job: its script, or else its image."""
    if entry_point:
        return entry_point.rpartition("/")[2].rpartition(".")[0] or entry_point
    return re.split("[:@]", (image or "").rpartition("/")[2])[0]


def _clean(base: str) -> str:
    return re.sub("[^a-zA-Z0-9]+", "-", base).strip("-") or "job"
