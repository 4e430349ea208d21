"""From "it holds at this step" to "it began here": a finding for each time something goes wrong,
not for each step at which it is wrong."""

from collections.abc import Iterator, Sequence

import numpy as np

from trackside.capture.dtypes import Array

WELL_LOOKS = 20
"""So often in a row a thing must be well before its illness is over. What lies near a threshold is
above it and below it in turn, and that is one illness; noise seldom keeps to one side this long."""


class Onsets:
    """Remembers what is ill. One per rule, or per condition of a rule."""

    def __init__(self, well_looks: int = WELL_LOOKS) -> None:
        self._well_looks = well_looks
        self._well: dict[str, int] = {}
        """Of each that is ill: how often in a row it has been well since."""

    def of(self, names: Sequence[str], holds: Array, saved: Array) -> Iterator[tuple[int, int]]:
        """Row and column where the condition begins, by step and then by name. A step at which
        the tensor was not saved neither begins nor ends anything. `holds`: [steps x names]."""
        bad = holds & saved
        concerned = np.asarray(bad.any(axis=0))
        if self._well:
            concerned |= np.array([name in self._well for name in names], bool)
        chosen: list[int] = concerned.nonzero()[0].tolist()  # few: most tensors are well
        if not chosen or not len(bad):  # a new attempt may have saved nothing yet
            return
        begins = self._begins([names[each] for each in chosen], bad[:, chosen], saved[:, chosen])
        for row, place in np.argwhere(begins).tolist():
            yield row, chosen[place]

    def begins(self, name: str, holds: bool) -> bool:
        """The same for one thing that is judged one step at a time."""
        well = self._well.get(name, self._well_looks)
        self._keep(name, 0 if holds else well + 1)
        return holds and well >= self._well_looks

    def _begins(self, names: list[str], bad: Array, saved: Array) -> Array:
        """Where each is bad and was not ill before. How they are at the end is kept."""
        start = [-self._well.get(name, self._well_looks) for name in names]
        looks = np.cumsum(saved, axis=0)
        # The look, up to each row, at which the tensor was last bad; the first row is the past.
        last = np.vstack([start, np.where(bad, looks, -self._well_looks)])
        last = np.maximum.accumulate(last, axis=0)
        for name, well in zip(names, (looks[-1] - last[-1]).tolist(), strict=True):
            self._keep(name, well)
        begins: Array = bad & (looks - 1 - last[:-1] >= self._well_looks)
        return begins

    def _keep(self, name: str, well: int) -> None:
        if well < self._well_looks:
            self._well[name] = well
        else:
            self._well.pop(name, None)
