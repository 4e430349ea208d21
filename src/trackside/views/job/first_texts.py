"""Texts of a language model's first batch, as the hook has decoded them, with what of them is
trained on.
"""

from pathlib import Path
from typing import Any

from trackside.capture.reading.anatomy import AnatomyFile, TextFacts
from trackside.errors import TracksideError
from trackside.jobs.records import Record
from trackside.records.layout import tensors_of
from trackside.storage.locate import locate_to_read

MOST_ROWS = 8
MOST_CHARACTERS = 2_000
"""Of a row; the hook keeps fewer."""


def first_texts(record: Record, home: Path) -> dict[str, Any]:
    """Without rows where the hook has seen no language model, or was told to keep no text."""
    where = tensors_of(record.spec, record.keys)
    facts = None
    if where is not None:
        try:
            anatomy = AnatomyFile(locate_to_read(where, home=home)).read()
        except (TracksideError, OSError):  # an extra: the job is shown without them
            anatomy = None
        facts = None if anatomy is None else anatomy.text
    return texts_of(facts or TextFacts())


def texts_of(facts: TextFacts) -> dict[str, Any]:
    return {
        "model": facts.model,
        "num_tokens": facts.num_tokens,
        "num_trained": facts.num_trained,
        "rows": [_bounded(row) for row in facts.shown[:MOST_ROWS]],
    }


def _bounded(row: tuple[tuple[str, str], ...]) -> list[list[str]]:
    left, pieces = MOST_CHARACTERS, []
    for kind, text in row:
        if left <= 0:
            break
        pieces.append([kind, text[:left]])
        left -= len(text)
    return pieces
