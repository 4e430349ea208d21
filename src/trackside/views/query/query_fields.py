"""What every job has and can be searched by, besides its hyperparameters, tags and metrics."""

from enum import Enum

from trackside.records.status import Secondary, Status

FIELD = "field"
"""The kind of their names."""


class Kind(Enum):
    TEXT = "text"
    WORD = "word"
    """One of a few."""
    MOMENT = "time"
    SPAN = "duration"
    NUMBER = "number"
    SHARE = "percentage"


FIELDS = {
    "name": Kind.TEXT,
    "status": Kind.WORD,
    "is": Kind.WORD,
    "owner": Kind.TEXT,
    "created": Kind.MOMENT,
    "started": Kind.MOMENT,
    "ended": Kind.MOMENT,
    "seconds": Kind.SPAN,
    "age": Kind.SPAN,
    "step": Kind.NUMBER,
    "progress": Kind.SHARE,
    "findings": Kind.NUMBER,
    "finding": Kind.TEXT,
    "host": Kind.TEXT,
    "hosts": Kind.NUMBER,
    "attempt": Kind.NUMBER,
    "cpu": Kind.SHARE,
    "memory": Kind.SHARE,
    "gpu": Kind.SHARE,
    "tag": Kind.TEXT,
    "has": Kind.TEXT,
    "note": Kind.TEXT,
}

RUNNING = "Running"
"""The common word for `InProgress`."""
WORDS = {
    "status": tuple(dict.fromkeys([*map(str, Status), RUNNING, *map(str, Secondary)])),
    "is": ("live", "finished", "queued", "failed", "completed", "stopped", "sick"),
}
