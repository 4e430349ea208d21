"""From "it holds at this step" to "it began here": a finding for each time something goes wrong,
not for each step at which it is wrong."""

from collections.abc import Iterator, Sequence

import numpy as np

from trackside.capture.dtypes import Array


class Onsets:
    """Remembers what is in a bad state. One per rule, or per condition of a rule."""

    def __init__(self) -> None:
        self._bad: set[str] = set()

    def of(self, names: Sequence[str], holds: Array, saved: Array) -> Iterator[tuple[int, int]]:
        """Row and column where the condition begins, by step and then by name. A step at which
        the tensor was not saved neither begins nor ends anything. `holds`: [steps x names]."""
        bad = holds & saved
        concerned = np.asarray(bad.any(axis=0))
        if self._bad:
            concerned |= np.array([name in self._bad for name in names], bool)
        chosen: list[int] = concerned.nonzero()[0].tolist()  # few: most tensors are well
        if not chosen:
            return
        bad, saved = bad[:, chosen], saved[:, chosen]
        was_bad = self._was_bad([names[column] for column in chosen], bad, saved)
        for row, place in np.argwhere(bad & ~was_bad).tolist():
            yield row, chosen[place]

    def begins(self, name: str, holds: bool) -> bool:
        """The same for one thing that is judged one step at a time."""
        was = name in self._bad
        if holds:
            self._bad.add(name)
        else:
            self._bad.discard(name)
        return holds and not was

    def _was_bad(self, names: list[str], bad: Array, saved: Array) -> Array:
        """Whether each was in a bad state before each row. How they are at the end is kept."""
        start = np.array([name in self._bad for name in names], bool)
        # The last row, up to each row, at which the tensor was saved; 0 is the state at the start.
        seen = np.where(saved, np.arange(1, len(saved) + 1)[:, None], 0)
        last = np.vstack([np.zeros(len(names), int), np.maximum.accumulate(seen, axis=0)])
        states = np.vstack([start, bad])[last, np.arange(len(names))]
        for name, is_bad in zip(names, states[-1].tolist(), strict=True):
            if is_bad:
                self._bad.add(name)
            else:
                self._bad.discard(name)
        was_bad: Array = states[:-1]
        return was_bad
