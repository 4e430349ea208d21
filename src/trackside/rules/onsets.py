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
        if not saved.any():
            return
        columns = np.arange(len(names))
        before = np.array([name in self._bad for name in names], bool)
        # The last row, up to each row, at which the tensor was saved; -1 where there is none.
        seen = np.where(saved, np.arange(len(saved))[:, None], -1)
        last = np.maximum.accumulate(seen, axis=0)
        previous = np.vstack([np.full(len(names), -1), last[:-1]])
        was = np.where(previous >= 0, holds[previous, columns], before)
        is_bad = np.where(last[-1] >= 0, holds[last[-1], columns], before)
        self._bad.difference_update(names[column] for column in columns[~is_bad].tolist())
        self._bad.update(names[column] for column in columns[is_bad].tolist())
        yield from map(tuple, np.argwhere(holds & saved & ~was).tolist())

    def begins(self, name: str, holds: bool) -> bool:
        """The same for one thing that is judged one step at a time."""
        was = name in self._bad
        if holds:
            self._bad.add(name)
        else:
            self._bad.discard(name)
        return holds and not was
