"""Losses that a script logs itself, as evidence for loss rules where there is no hook.

Training in JAX, XGBoost or a loop that the hook cannot see still has curves, in event files or
converted from other loggers' files. Implements the part of `Evidence` that such rules use.
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from trackside.capture.dtypes import Array
from trackside.capture.modes import ModeKeys
from trackside.capture.reading.cube import Cube
from trackside.curves.event_reader import Follower
from trackside.curves.machine_curves import is_machine_run
from trackside.quick_dataclass import dataclass
from trackside.rules.saved.evidence import Selection
from trackside.storage.locate import Location

_LOSS = re.compile(r"loss(?:es)?(?![a-z])", re.I)
_EVAL = re.compile(r"(?<![a-z])(?:val|valid|validation|eval|evaluation|test|dev)(?![a-z])", re.I)
MOST_CURVES = 200


@dataclass(frozen=True, slots=True)
class _Curve:
    name: str
    mode: ModeKeys
    num_seen: int = 0


class LossCurves:
    """Losses, and whether they are of an evaluation, are recognized by name. Steps are the script's
    own. Rules get nothing before `is_wanted`.
    """

    def __init__(
        self, place: Location, home: Path, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.steps: tuple[int, ...] = ()
        """New since the last check, in order; one may be there twice: training and evaluation."""
        self.is_all = False
        self.is_wanted = False
        self.seen_at: float | None = None
        """Monotonic: when there was a loss for the first time."""
        self._clock = clock
        self._follower = Follower(place, home=home)
        self._curves: dict[tuple[str, str], _Curve] = {}
        self._modes: Array = np.empty(0, np.int64)
        self._cube = Cube((), (), np.empty((0, 0)), np.empty((0, 0), bool))
        self._has_ended = False

    def advance(self) -> bool:
        """Read what was logged meanwhile; returns whether there is anything to check."""
        if not self.is_all:
            self._follower.update()
            self._find()
        if not self.is_wanted:
            return False
        was_all, self.is_all = self.is_all, self._has_ended
        self._take()
        return bool(self.steps) or self.is_all != was_all

    def end(self) -> None:
        self._has_ended = True

    def has_been_there(self, seconds: float) -> bool:
        """Whether a loss has been present for this long."""
        return self.seen_at is not None and self._clock() - self.seen_at >= seconds

    def names(self, selection: Selection) -> tuple[str, ...]:
        patterns = [re.compile(pattern) for pattern in selection.patterns]
        is_any = not patterns or "losses" in selection.collections
        return tuple(
            curve.name
            for curve in self._curves.values()
            if is_any or any(pattern.search(curve.name) for pattern in patterns)
        )

    def scalars(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(names)

    def figures(self, names: Sequence[str], reduction: str) -> Cube:
        columns = [self._cube.names.index(name) for name in names]
        saved = self._cube.saved[:, columns]
        return replace(
            self._cube, names=tuple(names), values=self._cube.values[:, columns], saved=saved
        )

    def modes(self, steps: Sequence[int] | None = None) -> Array:
        """The mode of each row of `figures`, which are all the new steps."""
        return self._modes

    def mode_steps(self, steps: Sequence[int] | None = None) -> Array:
        return np.array(self.steps, np.int64)

    def mode(self, step: int) -> ModeKeys:
        rows = np.flatnonzero(np.array(self.steps) == step)
        return ModeKeys(int(self._modes[rows[0]])) if rows.size else ModeKeys.GLOBAL

    def workers(self) -> tuple[str, ...]:
        return ()

    def missing(self, selection: Selection, reductions: Sequence[str] = ()) -> str:
        return "" if self.names(selection) else f"No curve of a loss is there for {selection}."

    def _find(self) -> None:
        for run, tag in self._follower.curves.scalars:
            if (run, tag) in self._curves or len(self._curves) >= MOST_CURVES:
                continue
            if _LOSS.search(tag) and not is_machine_run(run):
                name = tag if run in (".", "") or run.startswith("trackside/") else f"{run}/{tag}"
                is_eval = _EVAL.search(name.replace("_", " "))
                mode = ModeKeys.EVAL if is_eval else ModeKeys.TRAIN
                self._curves[run, tag] = _Curve(name, mode)
        if self._curves and self.seen_at is None:
            self.seen_at = self._clock()

    def _take(self) -> None:
        """The new points of all curves as rows, by step; within a step, training comes first."""
        names = tuple(curve.name for curve in self._curves.values())
        rows: dict[tuple[int, int, int], dict[int, float]] = {}
        for column, (key, curve) in enumerate(self._curves.items()):
            series = self._follower.curves.scalars[key]
            new = slice(curve.num_seen, None)
            order = 1 if curve.mode is ModeKeys.EVAL else 0
            for step, value in zip(series.steps[new], series.values[new], strict=True):
                rows.setdefault((int(step), order, curve.mode.value), {})[column] = float(value)
            self._curves[key] = replace(curve, num_seen=len(series.steps))
        order_of_rows = sorted(rows)
        self.steps = tuple(step for step, _, _ in order_of_rows)
        self._modes = np.array([mode for _, _, mode in order_of_rows], np.int64)
        values = np.full((len(rows), len(names)), np.nan)
        saved = np.zeros((len(rows), len(names)), bool)
        for row, place in enumerate(order_of_rows):
            for column, value in rows[place].items():
                values[row, column], saved[row, column] = value, True
        self._cube = Cube(self.steps, names, values, saved)
