"""The sequence of steps: counts them, starts each with a forward, and passes it on when it is over.

`stepper.py` takes the values within a step. Every method is called from inside the boundary of
`hook.py`.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from trackside.capture.copying.open_step import OpenStep
from trackside.capture.hangs.progress import Progress
from trackside.capture.model.values import in_backward
from trackside.capture.modes import ModeKeys
from trackside.capture.selection.collection import Collection
from trackside.capture.selection.save_config import SaveConfig
from trackside.capture.sinks.sink import Sink
from trackside.capture.steps.loss_finder import LossFinder
from trackside.capture.steps.rank_figures import RankFigures
from trackside.capture.steps.rank_times import RankTimes
from trackside.capture.steps.resume import ResumeState
from trackside.capture.steps.step_events import StepClock
from trackside.capture.steps.stepper import Stepper
from trackside.capture.vitals.vitals import Vitals
from trackside.capture.writing.segments import StepRecord

Given = tuple[Any, ...]
"""Arguments and keyword arguments of a model's call."""


class StepCourse:
    """`prepare` is called before the first step; `put_collections` when they have changed."""

    def __init__(
        self,
        stepper: Stepper,
        loss_finder: LossFinder,
        resume: ResumeState,
        *,
        prepare: Callable[[], None],
        put_collections: Callable[[], None],
    ) -> None:
        self.step, self.mode_steps = resume.restore()
        self.mode = ModeKeys.GLOBAL
        self.last_saved_step: int | None = None
        self.follows_training = False
        """Modes are those of the models, and models found by themselves share steps."""
        self.outlet: Sink | None = None
        """None in processes that write nothing: those only count."""
        self.clock: StepClock | None = None
        self.rank_times: RankTimes | None = None
        self.rank_figures: RankFigures | None = None
        self.progress: Progress | None = None
        self.vitals: Vitals | None = None
        self._stepper = stepper
        self._loss_finder = loss_finder
        self._resume = resume
        self._prepare = prepare
        self._put_collections = put_collections
        self._roots: set[int] = set()
        self._in_transfer: list[OpenStep] = []
        self._scalars: list[StepRecord] = []

    def begin(self, root: nn.Module, given: Given) -> None:
        if in_backward():  # a checkpoint recomputes the model
            return
        self._loss_finder.is_in_model = True
        if self.follows_training and self._belongs_to_this_step(root):
            self._stepper.join(root)
            if self.vitals is not None:
                self.vitals.join(root)
            return
        self.finish()
        self.step += 1
        mode_step = self.mode_steps[self.mode] = self.mode_steps.get(self.mode, -1) + 1
        self._notify(root, given)
        if self.outlet is None:
            return
        if self._stepper.plan is None:
            self._prepare()
        self._stepper.begin(root, self.step, self.mode, mode_step)
        if self.vitals is not None:
            self.vitals.begin(root, given, self.step, self.mode, mode_step)

    def flush(self) -> None:
        """Pass on the open step's data so far; the rest may follow."""
        if self.outlet is None:
            return
        if not self.outlet.keeps_steps:
            step = self._stepper.open
            self._finish_transfers()
            self.finish()
            self._stepper.open = None if step is None else step.rest()
        self.outlet.flush()

    def finish(self) -> None:
        if self.outlet is None:
            return
        step = self._stepper.finish()
        if step is not None and step.is_spent:
            step = None
        if step is not None:
            self._in_transfer.append(step)
            self.last_saved_step = step.step
        if self._resume.is_kept:
            self._resume.save(self.last_saved_step, self.step, self.mode_steps)
        while self._in_transfer and self._in_transfer[0].is_transferred():
            self.outlet.deliver(self._in_transfer.pop(0))
        scalars, self._scalars = self._scalars, []
        for record in scalars:
            self.outlet.write(record)
        if step is not None and self._stepper.plan is not None and self._stepper.plan.is_changed:
            self._put_collections()

    def close(self) -> None:
        """Wait for data still being copied from a device, and pass it on."""
        self._finish_transfers()
        self.finish()
        self._resume.save(self.last_saved_step, self.step, self.mode_steps, at_end=True)
        if self.clock is not None:
            self.clock.close()
        if self.rank_figures is not None:
            self.rank_figures.close()
        if self.rank_times is not None:
            self.rank_times.close()
        if self.vitals is not None:
            self.vitals.close()

    def _finish_transfers(self) -> None:
        for step in [self._stepper.open, *self._in_transfer]:
            if step is not None:
                step.wait()

    def switch_mode(self, mode: ModeKeys) -> None:
        self.mode = mode
        self.mode_steps.setdefault(mode, -1)

    def now(self) -> tuple[int, int]:
        """Step and step of the mode. Anything before the first forward belongs to step 0."""
        return max(self.step, 0), max(self.mode_steps.get(self.mode, -1), 0)

    def add_scalar(self, name: str, number: float, at: float, *, is_apart: bool) -> None:
        """Shown at once, written with the step; `is_apart` for one with its own time."""
        if self.outlet is None:
            return
        step, mode_step = self.now()
        last = self._scalars[-1] if self._scalars else None
        if last is None or is_apart or (last.step, last.mode) != (step, self.mode.name):
            last = StepRecord(step, self.mode.name, mode_step, at)
            self._scalars.append(last)
        last.scalars[name] = number
        self.outlet.add_scalar(name, last, at)

    def add_tensor(
        self, name: str, tensor: Tensor, collection: Collection, default: SaveConfig
    ) -> None:
        """If the collection saves the step."""
        if self.outlet is None:
            return
        step, mode_step = self.now()
        if (collection.save_config or default).should_save_step(self.mode, mode_step):
            if self._stepper.open is None:
                self._stepper.start(step, self.mode, mode_step)
            self._stepper.take_as_is(name, tensor, collection)

    def _notify(self, root: nn.Module, given: Given) -> None:
        """Those that follow every step, whether it is saved or not."""
        if self.clock is not None:
            self.clock.begin(self.mode.name, self.step)
        if self.progress is not None:
            self.progress.mark(self.step)
        if self.rank_times is not None:
            self.rank_times.begin(root, self.step, self._trains(root))
        if self.rank_figures is not None:
            self.rank_figures.begin(root, given, self.step, self._trains(root))

    def _trains(self, root: nn.Module) -> bool:
        is_training_mode = self.mode is ModeKeys.TRAIN or self.mode is ModeKeys.GLOBAL
        return is_training_mode and root.training and torch.is_grad_enabled()

    def _belongs_to_this_step(self, root: nn.Module) -> bool:
        """If models are found, not registered, those called before one backward share a step.

        Without a backward, as in evaluation, a model that is called again starts the next. One that
        only helps in a training step, such as a teacher, is part of it in any mode.
        """
        trains = root.training and torch.is_grad_enabled()
        mode = ModeKeys.TRAIN if trains else ModeKeys.EVAL
        is_known = id(root) in self._roots
        helps = self.mode is ModeKeys.TRAIN and not trains and not is_known
        goes_on = (mode is self.mode or helps) and not self._loss_finder.is_step_over
        if self._roots and goes_on and (trains or not is_known):
            self._roots.add(id(root))
            return True
        self.switch_mode(mode)
        self._roots = {id(root)}
        self._loss_finder.is_step_over = False
        return False
