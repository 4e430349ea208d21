"""Job names that users give, validated; and what a name begins with if they give none."""

import re
from collections.abc import Iterator

from trackside.errors import Violation
from trackside.texts.shown_names import JOB_NAME, MOST_CHARACTERS, wire_name


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
