"""How many backwards each update of the weights uses, over all of them, and in which rhythm."""

from collections import Counter
from typing import Any

_MOST_GAPS = 64


class UpdateRhythm:
    def __init__(self) -> None:
        self._since = 0
        """Backwards since the last update."""
        self._run = 0
        """Updates of one backward each since the last that had two."""
        self._num: Counter[str] = Counter()
        self._gaps: Counter[int] = Counter()

    def see_backward(self) -> None:
        self._since += 1

    def see_update(self) -> None:
        count, self._since = self._since, 0
        if count == 1:
            self._num["num_single"] += 1
            self._run += 1
            return
        self._num["num_double" if count == 2 else "num_other"] += 1
        if count == 2 and (self._run in self._gaps or len(self._gaps) < _MOST_GAPS):
            self._gaps[self._run] += 1
        self._run = 0

    def to_json(self) -> dict[str, Any]:
        gaps = {str(run): count for run, count in self._gaps.items()}
        return {**self._num, "gaps": gaps}
