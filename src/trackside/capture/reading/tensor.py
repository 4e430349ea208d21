"""One tensor of a trial: its values, reductions and shapes at the steps it was saved."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from trackside.capture.dtypes import Array
from trackside.capture.exceptions import (
    IndexReaderException,
    InvalidWorker,
    ShapeUnavailableForStep,
    StepNotYetAvailable,
    StepUnavailable,
    TensorUnavailableForStep,
)
from trackside.capture.modes import ModeKeys
from trackside.capture.reading.damaged_blocks import UNREADABLE
from trackside.capture.reading.numpy_reductions import column_name, reduce_rows
from trackside.capture.reading.smdebug_record import MissingEventFile
from trackside.capture.reading.step_table import StepState
from trackside.capture.reading.tensor_index import Block, TensorRecord

if TYPE_CHECKING:
    from trackside.capture.trial import Trial


class Tensor:
    """Steps are those of `mode`; the default, GLOBAL, counts all modes together.

    A bfloat16 or float8 tensor is returned as float32; `dtype` is what was saved.
    """

    def __init__(self, name: str, trial: "Trial", record: TensorRecord) -> None:
        self.name = name
        self.original_name = name
        self._trial = trial
        self._record = record

    def __repr__(self) -> str:
        return f"Tensor({self.name!r})"

    def steps(
        self, mode: ModeKeys = ModeKeys.GLOBAL, show_incomplete_steps: bool = False
    ) -> list[int]:
        self._trial.maybe_refresh()
        saved = self._record.steps()
        own, whole = self._trial.step_table.columns(mode, with_incomplete=show_incomplete_steps)
        return [step for step, number in zip(own, whole, strict=True) if number in saved]

    def value(
        self, step_num: int, mode: ModeKeys = ModeKeys.GLOBAL, worker: str | None = None
    ) -> Array:
        """An array owned by the caller; of several workers, the first's by name."""
        found = self._find_value(step_num, mode, worker)
        if found is None:
            raise self._why_not(step_num, mode, worker)
        block, row = found
        with self._reading(step_num, mode):
            value: Array = np.array(block.read()[row])
        return value

    def values(
        self, mode: ModeKeys = ModeKeys.GLOBAL, worker: str | None = None
    ) -> dict[int, Array]:
        """All values by step: the fast way to read them. The arrays are read-only views."""
        self._trial.maybe_refresh()
        self._check_worker(worker)
        found: dict[int, Array] = {}
        # The first worker by name comes last, and so wins.
        for each in [worker] if worker else reversed(self._record.runs.workers):
            for run in self._record.runs.of(each):
                with self._reading(run.steps[0], ModeKeys.GLOBAL):
                    found.update(self._numbered(run.steps, run.block.read(), mode))
        return dict(sorted(found.items()))

    def reduction_value(
        self,
        step_num: int,
        reduction_name: str,
        mode: ModeKeys = ModeKeys.GLOBAL,
        worker: str | None = None,
        abs: bool = False,
    ) -> Array:
        """As stored; else computed from the value, by the same definition."""
        column = column_name(reduction_name, abs)
        stored = self._stored_reductions(step_num, mode, worker)
        if column in stored:
            return stored[column]
        found = self._find_value(step_num, mode, worker, refresh=False)
        if found is None:
            raise self._why_not(step_num, mode, worker)
        block, row = found
        with self._reading(step_num, mode):
            figure: Array = np.array(reduce_rows(block.read()[row : row + 1], column)[0])
        return figure

    def reduction_values(
        self, step_num: int, mode: ModeKeys = ModeKeys.GLOBAL, worker: str | None = None
    ) -> dict[tuple[str, bool], Array]:
        """What was stored, by name and whether of absolute values."""
        stored = self._stored_reductions(step_num, mode, worker)
        if not stored and not self._is_saved(step_num, mode, worker):
            raise self._why_not(step_num, mode, worker)
        return {
            (column.removeprefix("abs_"), column.startswith("abs_")): value
            for column, value in stored.items()
        }

    def shape(
        self, step_num: int, mode: ModeKeys = ModeKeys.GLOBAL, worker: str | None = None
    ) -> tuple[int, ...]:
        found = self._find_value(step_num, mode, worker)
        if found is not None:
            with self._reading(step_num, mode):
                return found[0].shape
        shapes = self._record.shapes.at(self._global(step_num, mode), worker)
        if shapes:
            return shapes[-1][0].shape
        reason = self._why_not(step_num, mode, worker)
        if isinstance(reason, TensorUnavailableForStep):
            raise ShapeUnavailableForStep(self.name, step_num, mode, reason.has_reductions)
        raise reason

    def shapes(
        self, mode: ModeKeys = ModeKeys.GLOBAL, worker: str | None = None
    ) -> dict[int, tuple[int, ...]]:
        """By step; without steps with reductions only."""
        shapes = {}
        for step in self.steps(mode):
            global_step = self._global(step, mode)
            values = self._record.runs.at(global_step, worker)
            recorded = self._record.shapes.at(global_step, worker)
            if values:
                with self._reading(step, mode):
                    shapes[step] = values[-1][0].block.shape
            elif recorded:
                shapes[step] = recorded[-1][0].shape
        return shapes

    def dtype(
        self, step_num: int, mode: ModeKeys = ModeKeys.GLOBAL, worker: str | None = None
    ) -> str:
        """The type it was saved with, by torch's name: "bfloat16"."""
        found = self._find_value(step_num, mode, worker)
        if found is None:
            raise self._why_not(step_num, mode, worker)
        with self._reading(step_num, mode):
            return found[0].dtype

    def workers(self, step_num: int, mode: ModeKeys = ModeKeys.GLOBAL) -> list[str]:
        self._trial.maybe_refresh()
        workers = self._record.workers_at(self._global(step_num, mode))
        if not workers:
            raise self._why_not(step_num, mode, None)
        return workers

    def prev_steps(
        self, step: int, n: int | None = None, mode: ModeKeys = ModeKeys.GLOBAL
    ) -> list[int]:
        """The last `n` saved steps up to and with `step`; all of them when `n` is None."""
        earlier = [saved for saved in self.steps(mode) if saved <= step]
        return earlier if n is None else earlier[len(earlier) - min(n, len(earlier)) :]

    def _numbered(
        self, steps: Sequence[int], array: Array, mode: ModeKeys
    ) -> Iterable[tuple[int, Array]]:
        """The rows of an array under their steps in a mode, complete steps only."""
        table = self._trial.step_table
        if mode is ModeKeys.GLOBAL and table.has_only_complete_steps:
            return zip(steps, array, strict=True)
        numbers = [table.in_mode(step, mode) if step in table else None for step in steps]
        return [
            (number, array[row])
            for row, number in enumerate(numbers)
            if number is not None and table.is_complete(steps[row])
        ]

    def _find_value(
        self, step: int, mode: ModeKeys, worker: str | None, *, refresh: bool = True
    ) -> tuple[Block, int] | None:
        if refresh:
            self._trial.maybe_refresh()
        found = self._record.runs.at(self._global(step, mode), worker)
        return (found[-1][0].block, found[-1][1]) if found else None

    def _stored_reductions(self, step: int, mode: ModeKeys, worker: str | None) -> dict[str, Array]:
        self._trial.maybe_refresh()
        stored: dict[str, Array] = {}
        for cube, row in self._record.cubes.at(self._global(step, mode), worker):
            with self._reading(step, mode):
                figures = cube.block.read()[row, cube.positions[self.name]]
            stored.update(
                (column, np.array(figure))
                for column, figure in zip(cube.columns, figures, strict=True)
            )
        return stored

    def _is_saved(self, step: int, mode: ModeKeys, worker: str | None) -> bool:
        workers = self._record.workers_at(self._global(step, mode))
        return bool(workers) and (worker is None or worker in workers)

    def _global(self, step: int, mode: ModeKeys) -> int:
        """-1, which is no step, when there is none."""
        found = self._trial.step_table.global_step(mode, step)
        return -1 if found is None else found

    def _check_worker(self, worker: str | None) -> None:
        if worker is not None and worker not in self._trial.workers():
            raise InvalidWorker(worker)

    def _why_not(self, step: int, mode: ModeKeys, worker: str | None) -> Exception:
        self._check_worker(worker)
        state = self._trial.step_table.state(step, mode)
        if state is StepState.NOT_YET_AVAILABLE:
            return StepNotYetAvailable(step, mode)
        if state is StepState.UNAVAILABLE:
            return StepUnavailable(step, mode)
        has_reductions = bool(self._record.cubes.at(self._global(step, mode), worker))
        return TensorUnavailableForStep(self.name, step, mode, has_reductions)

    @contextmanager
    def _reading(self, step: int, mode: ModeKeys) -> Iterator[None]:
        """Raises a file's problem as the step's exception."""
        try:
            yield
        except MissingEventFile as error:
            self._trial.logger.warning("%s.", error)
            raise TensorUnavailableForStep(self.name, step, mode) from error
        except UNREADABLE as error:
            raise IndexReaderException(f"A file of the trial cannot be read: {error}.") from error
