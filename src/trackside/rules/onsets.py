"""From "it holds at this step" to "it began here": a finding for each time something goes wrong,
not for each step at which it is wrong."""

from collections.abc import Iterator, Sequence

from trackside.capture.dtypes import Array


class Onsets:
    """Remembers which tensors are in a bad state. One per rule, or per condition of a rule."""

    def __init__(self) -> None:
        self._bad: set[str] = set()

    def of(self, names: Sequence[str], holds: Array, saved: Array) -> Iterator[tuple[int, int]]:
        """Row and column where the condition begins, by step and then by name. A step at which
        the tensor was not saved neither begins nor ends anything. `holds`: [steps x names]."""
        changes = holds & saved
        for row in range(len(changes)):
            for column in changes[row].nonzero()[0].tolist():
                if names[column] not in self._bad:
                    self._bad.add(names[column])
                    yield row, column
            well = (saved[row] & ~holds[row]).nonzero()[0]
            if len(self._bad):
                self._bad.difference_update(names[column] for column in well.tolist())
