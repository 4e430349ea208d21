"""Bands of the machine tab besides the job's phases: when the script evaluated, and when it wrote
checkpoints, as the hook has recorded it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trackside.capture.reading.anatomy import Anatomy, AnatomyFile, SpanFacts
from trackside.errors import TracksideError
from trackside.jobs.records import Record
from trackside.records.layout import tensors_of
from trackside.storage.locate import locate_to_read

MOST_BANDS = 200
"""Of one kind."""
_CLOSE = 1 / 400
"""Of the time axis: bands that are no further apart are drawn as one."""
_LABELS = {
    "evaluation": ("Evaluation", "{count} evaluations"),
    "checkpoint": ("Checkpoint", "{count} checkpoints"),
}


def recorded_bands(record: Record, home: Path, seconds: float) -> list[dict[str, Any]]:
    """For an axis of so many seconds; empty where the hook has recorded nothing."""
    where = tensors_of(record.spec, record.keys)
    if where is None:
        return []
    try:
        anatomy = AnatomyFile(locate_to_read(where, home=home)).read()
    except (TracksideError, OSError):  # bands are an extra: the charts are there without them
        return []
    return [] if anatomy is None else bands_of(anatomy, seconds)


def bands_of(anatomy: Anatomy, seconds: float) -> list[dict[str, Any]]:
    found = []
    for kind, spans in (("evaluation", anatomy.evaluations), ("checkpoint", anatomy.saves)):
        one, several = _LABELS[kind]
        for span in joined(spans, seconds):
            label = one if span.count == 1 else several.format(count=span.count)
            found.append({"kind": kind, "label": label, "start": span.start, "end": span.end})
    return sorted(found, key=lambda band: band["start"])


def joined(spans: Sequence[SpanFacts], seconds: float) -> list[SpanFacts]:
    """Those that are close together as one; the rarer they are, the closer they must be."""
    gap = seconds * _CLOSE
    while True:
        found: list[SpanFacts] = []
        for span in sorted(spans, key=lambda each: each.start):
            if found and span.start - found[-1].end <= gap:
                found[-1] = _both(found[-1], span)
            else:
                found.append(span)
        if len(found) <= MOST_BANDS:
            return found
        gap = 2 * gap or 1.0


def _both(a: SpanFacts, b: SpanFacts) -> SpanFacts:
    end = max(a.end, b.end)
    return SpanFacts(a.start, end, a.first_step, max(a.last_step, b.last_step), a.count + b.count)
