"""Points of one event file and tag that are in memory: those that count, as they come."""

from collections.abc import Sequence

import numpy as np

from trackside.curves.columns import Integers, Reals
from trackside.curves.curve_points import CurvePoints, Figures, Piece, Steps
from trackside.curves.downsample import in_order

_LONG = 1 << 16
"""Parts from this length on are joined when they are read: copying them often costs more."""

_Columns = tuple[Integers, Reals, Reals]


class GrowingCurve:
    """Steps ascend at any time: what goes back to an earlier step replaces what is after it."""

    def __init__(self) -> None:
        self._parts: list[_Columns] = []
        self._last: int | None = None
        self._piece: Piece | None = None
        self._figures: Figures | None = None

    def add(self, steps: Integers, times: Reals, values: Reals) -> None:
        """Of a block, in the order in which they were written."""
        least = int(steps.min())
        if self._last is not None and least < self._last:
            self._cut(least)
        kept = in_order(steps)
        if kept is not None:
            steps, times, values = steps[kept], times[kept], values[kept]
        self._parts.append((steps, times, values))
        self._last = int(steps[-1])
        self._piece = self._figures = None
        while len(self._parts) > 1 and len(self._parts[-2][0]) <= len(self._parts[-1][0]) < _LONG:
            self._parts[-2:] = [_joined(self._parts[-2:])]

    def __len__(self) -> int:
        return sum(len(steps) for steps, _, _ in self._parts)

    def piece(self) -> Piece:
        if self._piece is None:
            steps, times, values = self._join()
            self._piece = Piece.ordered(Steps.of(steps), times, values)
        return self._piece

    def figures(self) -> Figures:
        if self._figures is None:
            self._figures = CurvePoints([self.piece()]).figures()
        return self._figures

    def _join(self) -> _Columns:
        if len(self._parts) > 1:
            self._parts = [_joined(self._parts)]
        return self._parts[0]

    def _cut(self, least: int) -> None:
        """Leave the points up to this step."""
        steps, times, values = self._join()
        count = int(np.searchsorted(steps, least, side="right"))
        self._parts = [(steps[:count], times[:count], values[:count])]


def _joined(parts: Sequence[_Columns]) -> _Columns:
    steps, times, values = zip(*parts, strict=True)
    return np.concatenate(steps), np.concatenate(times), np.concatenate(values)
