"""The steps of a trial: in which mode, by which workers, and which are complete."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from enum import Enum

import numpy as np

from trackside.capture.dtypes import Array
from trackside.capture.modes import ModeKeys
from trackside.quick_dataclass import dataclass


class StepState(Enum):
    UNAVAILABLE = 0
    AVAILABLE = 1
    NOT_YET_AVAILABLE = 2


@dataclass(frozen=True, slots=True)
class SavedStep:
    mode: ModeKeys
    mode_step: int
    time: float
    workers: frozenset[str]
    is_aside: bool
    """Nothing but vitals was saved."""


class StepTable:
    """Global step to what is known about it. GLOBAL as a mode means all of them.

    Stored in columns, some forty bytes per step: a trial that is followed live has very many.
    """

    def __init__(
        self, start: int | None = None, end: int | None = None, *, most_incomplete: int = 1000
    ) -> None:
        """Without steps before `start` and from `end` on. With more incomplete steps than
        `most_incomplete`, the older half counts as complete: a worker was lost."""
        self._most_incomplete = most_incomplete
        self.last_complete_step = -1
        self.num_workers = 1
        self.is_final = False
        """Nothing more will come: then every step counts as complete."""
        self._start, self._end = start, end
        self._steps = array("q")
        """Ascending; the columns below go with it."""
        self._modes = array("b")
        self._mode_steps = array("q")
        self._times = array("d")
        self._groups_at = array("I")
        self._aside = array("b")
        self._groups: list[frozenset[str]] = []
        """The sets of workers that saved some step together."""
        self._by_mode: dict[ModeKeys, _Numbering] = {}
        self.by_global_step: Mapping[int, tuple[ModeKeys, int]] = _ByGlobalStep(self)
        """Each step to its mode and its number in that mode."""

    def __contains__(self, step: int) -> bool:
        return self._index(step) is not None

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[int]:
        return iter(self._steps)

    @property
    def is_limited(self) -> bool:
        """Whether some steps are left out on purpose."""
        return self._start is not None or self._end is not None

    @property
    def has_only_complete_steps(self) -> bool:
        """Whether everything found counts: none left out, none still to be written."""
        return not self.is_limited and (self.is_final or self.num_workers == 1)

    @property
    def first_step(self) -> int:
        """0 when there is none."""
        return self._steps[0] if self._steps else 0

    @property
    def last_step(self) -> int:
        """0 when there is none."""
        return self._steps[-1] if self._steps else 0

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
        index = bisect_left(self._steps, step)
        if index == len(self._steps) or self._steps[index] != step:
            self._steps.insert(index, step)
            self._modes.insert(index, mode.value)
            self._mode_steps.insert(index, mode_step)
            self._times.insert(index, time)
            self._groups_at.insert(index, self._group(frozenset({worker})))
            self._aside.insert(index, is_aside)
            self._by_mode.setdefault(mode, _Numbering()).put(mode_step, step)
            return
        workers = self._groups[self._groups_at[index]]
        if worker not in workers:
            self._groups_at[index] = self._group(workers | {worker})
        self._aside[index] &= is_aside

    def get(self, step: int) -> SavedStep | None:
        index = self._index(step)
        if index is None:
            return None
        return SavedStep(
            ModeKeys(self._modes[index]),
            self._mode_steps[index],
            self._times[index],
            self._groups[self._groups_at[index]],
            bool(self._aside[index]),
        )

    def modes_at(self, steps: Array) -> Array:
        """The `value` of each step's mode; GLOBAL's for unknown steps."""
        if not self._steps:
            return np.full(len(steps), ModeKeys.GLOBAL.value, np.int8)
        known = np.frombuffer(self._steps, np.int64)
        indices = np.searchsorted(known, steps).clip(max=len(known) - 1)
        modes = np.frombuffer(self._modes, np.int8)[indices]
        return np.where(known[indices] == steps, modes, np.int8(ModeKeys.GLOBAL.value))

    def global_step(self, mode: ModeKeys, step: int) -> int | None:
        if mode is ModeKeys.GLOBAL:
            return step if step in self else None
        numbering = self._by_mode.get(mode)
        return None if numbering is None else numbering.find(step)

    def in_mode(self, global_step: int, mode: ModeKeys) -> int | None:
        """The step's number in a mode; None when it belongs to another."""
        index = self._index(global_step)
        if index is None:
            return None
        if mode is ModeKeys.GLOBAL:
            return global_step
        return self._mode_steps[index] if self._modes[index] == mode.value else None

    def complete(self, mode: ModeKeys, *, after: int | None = None) -> list[int]:
        return self.columns(mode, after=after)[0].tolist()

    def columns(
        self, mode: ModeKeys, *, after: int | None = None, with_incomplete: bool = False
    ) -> "tuple[array[int], array[int]]":
        """Steps in the mode's own numbers, ordered, and the same steps among all."""
        own, whole = self._numbers(mode)
        start = 0 if after is None else bisect_right(own, after)
        own, whole = own[start:], whole[start:]
        if with_incomplete or self.has_only_complete_steps:
            return own, whole
        chosen = [index for index, step in enumerate(whole) if self.is_complete(step)]
        if len(chosen) < len(whole):
            own = array("q", [own[index] for index in chosen])
            whole = array("q", [whole[index] for index in chosen])
        return own, whole

    def without_aside(self, mode: ModeKeys, *, with_incomplete: bool = False) -> list[int]:
        """Steps of the mode with something other than vitals."""
        own, whole = self.columns(mode, with_incomplete=with_incomplete)
        if 1 not in self._aside:
            return own.tolist()
        aside = {step for step, flag in zip(self._steps, self._aside, strict=True) if flag}
        return [step for step, number in zip(own, whole, strict=True) if number not in aside]

    def is_aside(self, global_step: int) -> bool:
        """Whether only vitals were saved at it."""
        index = self._index(global_step)
        return index is not None and bool(self._aside[index])

    def is_complete(self, global_step: int) -> bool:
        return (
            self.is_final
            or global_step <= self.last_complete_step
            or self._num_workers_at(bisect_left(self._steps, global_step)) >= self.num_workers
        )

    def state(self, step: int, mode: ModeKeys) -> StepState:
        """A step with only vitals counts as passed without being saved."""
        own, whole = self._numbers(mode)
        index = bisect_left(own, step)
        if index == len(own):
            return StepState.UNAVAILABLE if self.is_final else StepState.NOT_YET_AVAILABLE
        if not self.is_complete(whole[index]):
            return StepState.NOT_YET_AVAILABLE
        is_saved = own[index] == step and not self.is_aside(whole[index])
        return StepState.AVAILABLE if is_saved else StepState.UNAVAILABLE

    def settle(self) -> None:
        """After new steps were added: find the last complete one."""
        first_open = bisect_right(self._steps, self.last_complete_step)
        for index in reversed(range(first_open, len(self._steps))):
            if self._num_workers_at(index) >= self.num_workers:
                self.last_complete_step = self._steps[index]
                first_open = index + 1
                break
        num_incomplete = len(self._steps) - first_open
        if num_incomplete > self._most_incomplete:
            self.last_complete_step = self._steps[-1 - num_incomplete // 2]

    def _index(self, step: int) -> int | None:
        index = bisect_left(self._steps, step)
        return index if index < len(self._steps) and self._steps[index] == step else None

    def _numbers(self, mode: ModeKeys) -> "tuple[array[int], array[int]]":
        if mode is ModeKeys.GLOBAL:
            return self._steps, self._steps
        numbering = self._by_mode.get(mode) or _Numbering()
        return numbering.own, numbering.whole

    def _group(self, workers: frozenset[str]) -> int:
        if workers not in self._groups:
            self._groups.append(workers)
        return self._groups.index(workers)

    def _num_workers_at(self, index: int) -> int:
        return len(self._groups[self._groups_at[index]])


class _Numbering:
    """The steps of one mode: its own numbers, ascending, and what they are among all."""

    def __init__(self) -> None:
        self.own = array("q")
        self.whole = array("q")

    def put(self, own: int, whole: int) -> None:
        """A repeated number, as after a restart, refers to the later step."""
        index = bisect_left(self.own, own)
        if index < len(self.own) and self.own[index] == own:
            self.whole[index] = whole
        else:
            self.own.insert(index, own)
            self.whole.insert(index, whole)

    def find(self, own: int) -> int | None:
        index = bisect_left(self.own, own)
        return self.whole[index] if index < len(self.own) and self.own[index] == own else None


class _ByGlobalStep(Mapping[int, tuple[ModeKeys, int]]):
    """A view, so that one step costs one lookup."""

    def __init__(self, table: StepTable) -> None:
        self._table = table

    def __getitem__(self, step: int) -> tuple[ModeKeys, int]:
        saved = self._table.get(step)
        if saved is None:
            raise KeyError(step)
        return saved.mode, saved.mode_step

    def __iter__(self) -> Iterator[int]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)
