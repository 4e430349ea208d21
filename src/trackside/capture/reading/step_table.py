"""Which steps a trial has, in which mode, by which workers, and which of them are complete."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from enum import Enum

from trackside.capture.modes import ModeKeys

INCOMPLETE_STEP_WAIT_WINDOW = 1000
"""With more incomplete steps than this, the older half counts as complete: a worker was lost."""


class StepState(Enum):
    UNAVAILABLE = 0
    AVAILABLE = 1
    NOT_YET_AVAILABLE = 2


@dataclass(slots=True)
class SavedStep:
    mode: ModeKeys
    mode_step: int
    time: float
    workers: frozenset[str] = frozenset()
    """One object for all steps that the same workers saved: a long trial has many steps."""
    is_aside: bool = False
    """Nothing but vitals was saved."""


class StepTable:
    """Global step to what is known of it. GLOBAL as a mode means all of them."""

    def __init__(self, start: int | None = None, end: int | None = None) -> None:
        self.last_complete_step = -1
        self.num_workers = 1
        self.is_final = False
        """Nothing more will come: then every step counts as complete."""
        self._start, self._end = start, end
        self._steps: dict[int, SavedStep] = {}
        self._by_mode: dict[ModeKeys, dict[int, int]] = {}
        self._ordered: dict[ModeKeys, list[int]] = {}
        self._groups: dict[frozenset[str], frozenset[str]] = {}

    def __contains__(self, step: int) -> bool:
        return step in self._steps

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def is_limited(self) -> bool:
        """Whether some steps are left out on purpose."""
        return self._start is not None or self._end is not None

    @property
    def has_only_complete_steps(self) -> bool:
        """Whether everything that was found counts: none left out, none still to be written."""
        return not self.is_limited and (self.is_final or self.num_workers == 1)

    @property
    def modes(self) -> list[ModeKeys]:
        return [mode for mode in ModeKeys if mode in self._by_mode and mode is not ModeKeys.GLOBAL]

    def add(
        self,
        step: int,
        mode: ModeKeys,
        mode_step: int,
        time: float,
        worker: str,
        *,
        is_aside: bool = False,
    ) -> None:
        if (self._start is not None and step < self._start) or (
            self._end is not None and step >= self._end
        ):
            return
        saved = self._steps.get(step)
        if saved is None:
            saved = self._steps[step] = SavedStep(mode, mode_step, time, is_aside=is_aside)
            self._by_mode.setdefault(mode, {})[mode_step] = step
            self._ordered.clear()
        if worker not in saved.workers:
            together = saved.workers | {worker}
            saved.workers = self._groups.setdefault(together, together)
        saved.is_aside = saved.is_aside and is_aside

    def get(self, step: int) -> SavedStep | None:
        return self._steps.get(step)

    def is_aside(self, mode: ModeKeys, step: int) -> bool:
        found = self.global_step(mode, step)
        return found is not None and self._steps[found].is_aside

    def global_step(self, mode: ModeKeys, step: int) -> int | None:
        if mode is ModeKeys.GLOBAL:
            return step if step in self._steps else None
        return self._by_mode.get(mode, {}).get(step)

    def in_mode(self, global_step: int, mode: ModeKeys) -> int | None:
        """The step's number in a mode; None when it belongs to another."""
        saved = self._steps.get(global_step)
        if saved is None:
            return None
        if mode is ModeKeys.GLOBAL:
            return global_step
        return saved.mode_step if saved.mode is mode else None

    def all(self, mode: ModeKeys) -> list[int]:
        """Steps of the mode in its own numbers, ordered, complete or not."""
        if mode not in self._ordered:
            known = self._steps if mode is ModeKeys.GLOBAL else self._by_mode.get(mode, {})
            self._ordered[mode] = sorted(known)
        return self._ordered[mode]

    def complete(self, mode: ModeKeys, *, after: int | None = None) -> list[int]:
        steps = self.all(mode)
        if after is not None:
            steps = steps[bisect_right(steps, after) :]
        if self.has_only_complete_steps:
            return list(steps)
        return [step for step in steps if self._is_complete_in(mode, step)]

    def is_complete(self, global_step: int) -> bool:
        return (
            self.is_final
            or global_step <= self.last_complete_step
            or len(self._steps[global_step].workers) >= self.num_workers
        )

    def state(self, step: int, mode: ModeKeys) -> StepState:
        steps = self.all(mode)
        position = bisect_left(steps, step)
        if position == len(steps):
            return StepState.UNAVAILABLE if self.is_final else StepState.NOT_YET_AVAILABLE
        if not self._is_complete_in(mode, steps[position]):
            return StepState.NOT_YET_AVAILABLE
        return StepState.AVAILABLE if steps[position] == step else StepState.UNAVAILABLE

    def settle(self) -> None:
        """After new steps have come: find the last complete one."""
        incomplete = []
        for step in reversed(self.all(ModeKeys.GLOBAL)):
            if step <= self.last_complete_step:
                break
            if len(self._steps[step].workers) >= self.num_workers:
                self.last_complete_step = step
                break
            incomplete.append(step)
        if len(incomplete) > INCOMPLETE_STEP_WAIT_WINDOW:
            self.last_complete_step = incomplete[len(incomplete) // 2]

    def _is_complete_in(self, mode: ModeKeys, step: int) -> bool:
        found = self.global_step(mode, step)
        return found is not None and self.is_complete(found)
