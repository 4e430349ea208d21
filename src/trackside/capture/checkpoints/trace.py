"""The newest and the first figures of a training, kept beside its checkpoints, so that a later job
that continues from them can be compared with what it continues.

They are a member of the file that holds the step counters (`steps/resume.py`).
"""

import math
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from trackside.files.durable import read_json

STATE = "metadata.json"
TRACE = "trackside"
"""Its member with these figures; smdebug, whose file it is, reads others."""
_FIRST, _LAST = 8, 20
"""Figures that are kept: enough for medians of either side, and for batches in a row."""
_LEVELS_UP = 2
"""Folders above a checkpoint in which the file may be: Trainer's are in folders of their own."""
_MOST_BYTES = 1 << 20
_KEPT = ("loss_term/0.", "gradient_norm", "learning_rate/0", "input/fingerprint")


class Trace:
    """Of this process. `loaders` describes those that were used."""

    def __init__(self) -> None:
        self.loaders: Callable[[], Iterable[Mapping[str, Any]]] = tuple
        self.clear()

    def clear(self) -> None:
        self.continued: dict[str, Any] | None = None
        """The trace beside the file that was loaded before the first step."""
        self._first: dict[str, list[list[float]]] = {}
        self._last: dict[str, deque[list[float]]] = {}

    def see(self, step: int, figures: Mapping[str, float]) -> None:
        """Of a sampled training step."""
        for name, value in figures.items():
            if name.startswith(_KEPT) and math.isfinite(value):
                first = self._first.setdefault(name, [])
                if len(first) < _FIRST:
                    first.append([step, value])
                self._last.setdefault(name, deque(maxlen=_LAST)).append([step, value])

    def to_json(self) -> dict[str, Any]:
        return {
            "script": script_name(),
            "data": trained_data(self.loaders()),
            "first": self._first_of_all(),
            "last": {name: list(rows) for name, rows in self._last.items()},
        }

    def _first_of_all(self) -> Mapping[str, Any]:
        """Of the training that this job continues, if it does."""
        before = self.continued
        return before.get("first", {}) if before and before["is_same_script"] else self._first

    def note_loaded(self, path: str) -> None:
        """A checkpoint is loaded, before the first step."""
        if found := _beside(path):
            name = script_name()
            is_same = bool(name) and found.get("script") == name
            self.continued = {**found, "path": path, "is_same_script": is_same}


def script_name() -> str:
    """Empty where there is none, as in a notebook."""
    return Path(sys.argv[0] if sys.argv else "").name


def trained_data(loaders: Iterable[Mapping[str, Any]]) -> list[int]:
    """Samples of each data set that steps of training began with."""
    return sorted(each["num_samples"] or 0 for each in loaders if each["num_trained"])


def _beside(path: str) -> dict[str, Any] | None:
    for folder in list(Path(path).absolute().parents)[:_LEVELS_UP]:
        state = folder / STATE
        if state.is_file() and state.stat().st_size < _MOST_BYTES:
            items: Any = read_json(state)
            furthest = max(items, key=lambda item: int(item["latest-global-step-seen"]))
            traced = furthest.get(TRACE)
            return traced if isinstance(traced, dict) else None
    return None


trace = Trace()
