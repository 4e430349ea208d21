"""From "it holds at this step" to "it started here": a finding for each time something goes wrong,
not for each step at which it is wrong."""

from collections.abc import Iterator, Sequence

import numpy as np

from trackside.capture.dtypes import Array

HEALTHY_CHECKS = 20
"""Healthy checks in a row after which a problem is over. A value near a threshold is above and
below it in turn, and that is one problem; noise seldom stays on one side this long."""


class Onsets:
    """Remembers what is wrong. One per rule, or per condition of a rule."""

    def __init__(self, healthy_checks: int = HEALTHY_CHECKS) -> None:
        self._healthy_checks = healthy_checks
        self._healthy: dict[str, int] = {}
        """Of each that is wrong: how many checks in a row have been healthy since."""

    def of(self, names: Sequence[str], holds: Array, saved: Array) -> Iterator[tuple[int, int]]:
        """Row and column where the condition starts, by step and then by name. A step at which
        the tensor was not saved neither starts nor ends anything. `holds`: [steps x names]."""
        bad = holds & saved
        concerned = np.asarray(bad.any(axis=0))
        if self._healthy:
            concerned |= np.array([name in self._healthy for name in names], bool)
        chosen: list[int] = concerned.nonzero()[0].tolist()  # few: most tensors are healthy
        if not chosen or not len(bad):  # a new attempt may have saved nothing yet
            return
        starts = self._starts([names[each] for each in chosen], bad[:, chosen], saved[:, chosen])
        for row, column in np.argwhere(starts).tolist():
            yield row, chosen[column]

    def begins(self, name: str, holds: bool) -> bool:
        """The same for one thing that is judged one step at a time."""
        healthy = self._healthy.get(name, self._healthy_checks)
        self._remember(name, 0 if holds else healthy + 1)
        return holds and healthy >= self._healthy_checks

    def _starts(self, names: list[str], bad: Array, saved: Array) -> Array:
        """Where each is bad and was not before. Their state at the end is remembered."""
        past = [-self._healthy.get(name, self._healthy_checks) for name in names]
        checks = np.cumsum(saved, axis=0)
        # The check, up to each row, at which the tensor was last bad; the first row is the past.
        last = np.vstack([past, np.where(bad, checks, -self._healthy_checks)])
        last = np.maximum.accumulate(last, axis=0)
        for name, healthy in zip(names, (checks[-1] - last[-1]).tolist(), strict=True):
            self._remember(name, healthy)
        starts: Array = bad & (checks - 1 - last[:-1] >= self._healthy_checks)
        return starts

    def _remember(self, name: str, healthy: int) -> None:
        if healthy < self._healthy_checks:
            self._healthy[name] = healthy
        else:
            self._healthy.pop(name, None)
