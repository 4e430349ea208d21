"""Watches backwards and optimizer steps, and says which of them are looked at.

An update of the weights has a schedule of its own: with gradient accumulation most steps have none.
"""

import time
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from trackside.capture.anatomy_facts import AnatomyFacts
from trackside.capture.failures import Failures, guarded
from trackside.capture.vitals_optimizers import WatchedOptimizer
from trackside.capture.vitals_schedule import Schedule
from trackside.capture.vitals_step import VitalsStep
from trackside.capture.wrapping import Wrapping


class Updates:
    """`current` gives the step that runs, into which everything is filed."""

    def __init__(
        self, failures: Failures, facts: AnatomyFacts, current: Callable[[], VitalsStep | None]
    ) -> None:
        self.failures = failures
        self._facts = facts
        self._current = current
        self._optimizers: dict[int, WatchedOptimizer] = {}
        self._schedules: dict[int, Schedule] = {}
        self._scaler: weakref.ref[Any] | None = None
        self._wrapping = Wrapping()
        self._handles: list[Any] = []

    @property
    def optimizers(self) -> list[WatchedOptimizer]:
        return list(self._optimizers.values())

    def install(self) -> None:
        wrap = self._wrapping.wrap
        # `Tensor.backward` calls this one.
        wrap(torch.autograd, "backward", before=self._before_backward, after=self._after_backward)
        wrap(GradScaler, "scale", before=self._on_scaler)
        wrap(LRScheduler, "step", before=self._on_scheduler)
        wrap(ReduceLROnPlateau, "step", before=self._on_scheduler)
        self._handles = [
            register_optimizer_step_pre_hook(self._before_optimizer),
            register_optimizer_step_post_hook(self._after_optimizer),
        ]

    def remove(self) -> None:
        self._wrapping.undo()
        for handle in self._handles:
            handle.remove()

    @guarded
    def _before_backward(self, *_: Any, **__: Any) -> None:
        if self._current() is None:
            return
        self._facts.see_backward()
        for watched in self._optimizers.values():
            if self._schedules[watched.index].is_due(watched.num_steps):
                watched.before_backward()

    @guarded
    def _after_backward(self, *_: Any, **__: Any) -> None:
        for watched in self._optimizers.values():
            if self._schedules[watched.index].is_due(watched.num_steps):
                watched.after_backward()

    def _before_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._begin_update(optimizer, has_closure(args, kwargs))

    def _after_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._end_update(optimizer, has_closure(args, kwargs))

    @guarded
    def _begin_update(self, optimizer: Optimizer, with_closure: bool) -> None:
        began = time.perf_counter()
        watched = self._watched(optimizer)
        schedule = self._schedules[watched.index]
        if watched.began:
            schedule.pass_time(began - watched.began)
        watched.began = began
        watched.is_taken = schedule.is_due(watched.num_steps)
        if watched.is_taken:
            watched.keep_weights()
            step = self._current()
            if step is not None and not with_closure:
                self._take_gradients(step, watched)
        watched.spent = time.perf_counter() - began

    @guarded
    def _end_update(self, optimizer: Optimizer, with_closure: bool) -> None:
        """With a closure the gradients are there when `step` returns, and not before."""
        began = time.perf_counter()
        watched = self._watched(optimizer)
        step = self._current()
        if watched.is_taken and step is not None:
            if with_closure:
                self._take_gradients(step, watched)
            taken = step.take()
            watched.take_update(taken.pack, taken.totals)
            schedule = self._schedules[watched.index]
            schedule.take(watched.num_steps)
            schedule.spend(watched.spent + time.perf_counter() - began)
        watched.count_step()

    @torch.no_grad()
    def _take_gradients(self, step: VitalsStep, watched: WatchedOptimizer) -> None:
        taken = step.take()
        taken.figures |= watched.learning_rates()
        watched.take_gradients(taken.pack, taken.totals, self._facts.seeing_gradients(step.step))
        watched.take_leftover(taken.pack, taken.totals)
        self._facts.look_for_gradients(step.step)
        scaler = None if self._scaler is None else self._scaler()
        scale = getattr(scaler, "_scale", None)
        if isinstance(scale, Tensor):
            taken.pack.add_named(["grad_scale"], [scale.reshape(()).clone()])

    def _watched(self, optimizer: Optimizer) -> WatchedOptimizer:
        watched = self._optimizers.get(id(optimizer))
        if watched is None or watched.optimizer() is not optimizer:
            watched = WatchedOptimizer(len(self._schedules), weakref.ref(optimizer))
            self._optimizers[id(optimizer)] = watched
            self._schedules[watched.index] = Schedule()
            self._facts.is_changed = True
        return watched

    @guarded
    def _on_scaler(self, scaler: Any, *_: Any, **__: Any) -> None:
        if self._scaler is None or self._scaler() is not scaler:
            self._scaler = weakref.ref(scaler)
            self._facts.see_scaler(type(scaler).__name__)

    @guarded
    def _on_scheduler(self, scheduler: Any, *_: Any, **__: Any) -> None:
        self._facts.see_scheduler(type(scheduler).__name__)


def has_closure(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Of a call of `Optimizer.step`, whose first argument is the optimizer."""
    return kwargs.get("closure", args[1] if len(args) > 1 else None) is not None
