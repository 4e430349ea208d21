"""When vitals are sampled: always at the start and after a return to a checkpoint, then ever more
rarely, by the number of the step and the size of what is trained.

No clock decides: the same training is sampled at the same steps on any machine, busy or not, so
that it gets the same diagnosis. That is affordable because a look costs at most about as much as
the step itself, which computes and moves several times what is read: 2 to 7 % of a step of models
with a million weights or more on a CPU, and as much again as the step for the smallest ones.
"""

FIRST = 10
"""Steps at the start that are all taken, whatever the size."""
DENSE = 50
"""The same of what is small."""
DENSE_VALUES = 50_000_000
"""Weights that are read in a dense start, over all of its steps: about 0.1 s on a CPU."""
LARGE = 1_000_000
"""Weights."""
MOST_STEPS, MOST_STEPS_IF_LARGE = 50, 20
"""From one sampled step to the next: 2 % of the time where a look takes as long as a step, 0.4 %
for large models on a CPU."""
_GROWTH, _GROWTH_IF_LARGE = 8, 4
"""An interval is not longer than the steps so far over this: short trainings are sampled, too."""


class Schedule:
    """Counts from 0."""

    def __init__(self, num_values: int = 0) -> None:
        """`num_values` is the number of weights."""
        self.count = 0
        """Steps that have started, for callers that do not count them."""
        self.next = 0
        """The step that is taken next."""
        is_large = num_values >= LARGE
        self._most_steps = MOST_STEPS_IF_LARGE if is_large else MOST_STEPS
        self._growth = _GROWTH_IF_LARGE if is_large else _GROWTH
        self._dense_to = min(DENSE, max(FIRST, DENSE_VALUES // max(1, num_values)))

    def begin_again(self, count: int) -> None:
        """The next steps are all taken, as at the start: training has gone back to a checkpoint."""
        self.next = count
        self._dense_to = count + FIRST

    def is_due(self, count: int) -> bool:
        return count >= self.next

    def take(self, count: int) -> None:
        """The step is sampled; schedules the next one."""
        interval = min(self._most_steps, max(1, count // self._growth))
        self.next = count + (1 if count + 1 < self._dense_to else interval)
