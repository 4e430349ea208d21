"""What the hook saved as tensors of one number, as curves: vitals and losses, batches of training
and of evaluation apart. Steps are the hook's own, over all batches.
"""

import logging
import math
import re
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from trackside.capture.trial import Trial
from trackside.capture.trial_layout import VITALS
from trackside.curves.event_reader import Series
from trackside.errors import TracksideError
from trackside.rules.saved.open_trial import open_trial
from trackside.storage.locate import Location
from trackside.views.curves.curve_list import Key

logger = logging.getLogger(__name__)

FRESH_SECONDS = 1.0
"""How long what was read of a running job counts as current."""
MOST_VITALS = 4096
"""Curves of one mode; a model may have more layers."""
_ONE_NUMBER = re.compile(r".*_output_\d+|.*loss.*", re.I)


class VitalCurves:
    """Those of one job, read again when they are old. Not thread-safe."""

    def __init__(self, place: Location, home: Path) -> None:
        self.place = place
        self._home = home
        self._trial: Trial | None = None
        self._read_at: float | None = None
        self._is_all = False
        self._problem = ""
        self._series: dict[Key, Series] = {}

    def series(self, *, is_final: bool) -> dict[Key, Series]:
        """By mode and name. What cannot be read is logged: other curves are shown without it."""
        is_old = self._read_at is None or time.monotonic() - self._read_at > FRESH_SECONDS
        if is_old and not self._is_all:
            self._is_all = self._is_read() and is_final
            self._read_at = time.monotonic()
        if self._is_all:
            self._trial = None  # its index is large
        return self._series

    @property
    def num_points(self) -> int:
        return sum(map(len, self._series.values()))

    def _is_read(self) -> bool:
        try:
            self._read()
        except (TracksideError, OSError, ValueError) as error:
            if str(error) != self._problem:
                logger.warning("the vitals in %s cannot be read: %s", self.place, error)
            self._problem = str(error)
            return False
        return True

    def _read(self) -> None:
        if self._trial is None:
            self._trial = open_trial(self.place, self._home)
        if self._trial is None:
            return
        self._trial.dynamic_refresh = True
        self._trial.refresh_data()
        self._trial.dynamic_refresh = False
        self._series = dict(_read_all(self._trial))


def _read_all(trial: Trial) -> Iterator[tuple[Key, Series]]:
    names = [*trial.tensor_names(regex=f"^{VITALS}"), *_losses(trial)][:MOST_VITALS]
    if not names:
        return
    cube = trial.cube(names)
    steps = np.array(cube.steps, np.int64)
    times = np.array([_time(trial, step) for step in cube.steps])
    modes = trial.step_table.modes_at(steps)
    for mode in trial.modes():
        for column, name in enumerate(cube.names):
            chosen = cube.saved[:, column] & (modes == mode.value)
            if chosen.any():
                parts = (steps[chosen], times[chosen], cube.values[chosen, column])
                yield (mode.name, name), Series(mode.name, name, *parts)


def _losses(trial: Trial) -> list[str]:
    """Only those that are numbers by their name: others may be large."""
    return [name for name in trial.tensor_names(collection="losses") if _ONE_NUMBER.fullmatch(name)]


def _time(trial: Trial, step: int) -> float:
    saved = trial.step_table.get(step)
    return math.nan if saved is None else saved.time
