"""Watches backwards and optimizer steps, and decides which of them are sampled.

An update of the weights has its own schedule: with gradient accumulation most steps have none.
"""

import time
import weakref
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

from trackside.capture.failures import Failures, guarded
from trackside.capture.model.function_patches import FunctionPatch
from trackside.capture.model.values import num_values_of
from trackside.capture.vitals.anatomy_facts import AnatomyFacts
from trackside.capture.vitals.optimizers import WatchedOptimizer
from trackside.capture.vitals.schedule import Schedule
from trackside.capture.vitals.step import RunningStep, VitalsStep


class Updates:
    """Records everything in the `running` step.

    Functions called in every step return at once if nothing is sampled; the rest is guarded.
    """

    def __init__(self, failures: Failures, facts: AnatomyFacts, running: RunningStep) -> None:
        self.failures = failures
        self._facts = facts
        self._running = running
        self._optimizers: dict[int, WatchedOptimizer] = {}
        self._num_optimizers = 0
        self._is_any_due = False
        self._scaler: weakref.ref[Any] | None = None
        self._at_schedule: dict[int, dict[int, int]] = {}
        """By optimizer, the steps of all when a schedule was last stepped for it."""
        self._wrapping = FunctionPatch()
        self._before: Any = None
        self._after: Any = None

    @property
    def optimizers(self) -> list[WatchedOptimizer]:
        return list(self._optimizers.values())

    def install(self) -> None:
        wrap = self._wrapping.wrap
        # `Tensor.backward` calls this one.
        wrap(torch.autograd, "backward", before=self._before_backward, after=self._after_backward)
        wrap(GradScaler, "scale", before=self._on_scaler)
        for name in ("step", "unscale_", "get_scale"):  # the last, to divide by it oneself
            wrap(GradScaler, name, before=self._on_unscaled)
        wrap(LRScheduler, "step", before=self._on_scheduler)
        wrap(ReduceLROnPlateau, "step", before=self._on_scheduler)
        self._listen(True)
        self._after = register_optimizer_step_post_hook(self._after_optimizer)

    def remove(self) -> None:
        self._wrapping.undo()
        self._listen(False)
        self._after.remove()

    def _listen(self, on: bool) -> None:
        """For the start of optimizer steps: between sampled ones only their end counts."""
        if on and self._before is None:
            self._before = register_optimizer_step_pre_hook(self._before_optimizer)
        elif not on and self._before is not None:
            self._before.remove()
            self._before = None

    def _before_backward(self, *losses: Any, **__: Any) -> None:
        if self._running.facts is not None:
            self._facts.see_backward()
            self._facts.rhythm.see_backward()
            self._running.has_fresh_gradients = True
            self._see_scale(losses)
            if self._facts.wants_graph:
                self._read_graph(losses)
            if self._is_any_due:
                self._check_before_backward()

    def _after_backward(self, *_: Any, **__: Any) -> None:
        if self._is_any_due:
            self._check_after_backward()

    @guarded
    def _see_scale(self, losses: tuple[Any, ...]) -> None:
        if losses and self._scaler is None:
            self._facts.texts.see_backward(losses[0])

    @guarded
    def _read_graph(self, losses: tuple[Any, ...]) -> None:
        if losses:
            self._facts.see_graph(losses[0])

    @guarded
    def _check_before_backward(self) -> None:
        for watched in self._optimizers.values():
            if watched.is_due:
                watched.before_backward()

    @guarded
    def _check_after_backward(self) -> None:
        for watched in self._optimizers.values():
            if watched.is_due:
                watched.after_backward()

    def _before_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        watched = self._known(optimizer)
        if watched is None or watched.is_due:
            self._begin_update(optimizer, has_closure(args, kwargs))

    def _after_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        watched = self._known(optimizer)
        if watched is None or watched.is_taken:
            self._end_update(optimizer, has_closure(args, kwargs))
        else:
            self._count(watched)
        self._facts.rhythm.see_update()
        self._running.has_fresh_gradients = False
        self._running.num_updates += 1
        self._running.updated_at = time.perf_counter()

    @guarded
    def _begin_update(self, optimizer: Optimizer, with_closure: bool) -> None:
        watched = self._watched(optimizer)
        watched.is_taken = True
        watched.keep_weights()
        step = self._running.get()
        if step is not None and not with_closure:
            self._take_gradients(step, watched)

    @guarded
    def _end_update(self, optimizer: Optimizer, with_closure: bool) -> None:
        """With a closure the gradients exist when `step` returns, and not before."""
        watched = self._watched(optimizer)
        step = self._running.get()
        if with_closure:
            watched.num_cleared = 0  # what a closure computes has been used
        if watched.is_taken and step is not None:
            if with_closure:
                self._take_gradients(step, watched)
            taken = step.take()
            watched.take_update(taken.pack, taken.totals)
            watched.schedule.take(watched.num_steps)
        self._count(watched)

    @guarded
    def _count(self, watched: WatchedOptimizer) -> None:
        watched.count_step()
        watched.last_step = max(watched.last_step, self._running.number())
        if watched.num_steps == 1:  # it may be gone before the next check
            self._facts.remember([watched])
        if watched.is_due != self._is_any_due:
            self._is_any_due = any(each.is_due for each in self._optimizers.values())
            self._listen(self._is_any_due)

    @torch.no_grad()
    def _take_gradients(self, step: VitalsStep, watched: WatchedOptimizer) -> None:
        taken = step.take()
        taken.figures |= watched.learning_rates()
        watched.take_gradients(taken.pack, taken.totals, self._facts.seeing_gradients(step.step))
        watched.take_leftover(taken.pack, taken.totals)
        self._facts.check_gradients(step.step)
        scaler = None if self._scaler is None else self._scaler()
        scale = getattr(scaler, "_scale", None)
        if isinstance(scale, Tensor):
            taken.pack.add_named(["grad_scale"], [scale.reshape(()).clone()])

    def _known(self, optimizer: Optimizer) -> WatchedOptimizer | None:
        watched = self._optimizers.get(id(optimizer))
        return watched if watched is not None and watched.optimizer() is optimizer else None

    def _watched(self, optimizer: Optimizer) -> WatchedOptimizer:
        watched = self._known(optimizer)
        if watched is None:
            trained = (each for group in optimizer.param_groups for each in group["params"])
            schedule = Schedule(num_values_of(trained))
            watched = WatchedOptimizer(self._num_optimizers, weakref.ref(optimizer), schedule)
            self._num_optimizers += 1
            self._optimizers[id(optimizer)] = watched
            self._facts.see_optimizer(next(iter(watched.parameters()), None))
            self._is_any_due = True
            self._listen(True)
        return watched

    @guarded
    def _on_scaler(self, scaler: Any, *_: Any, **__: Any) -> None:
        self._facts.num_scaled += bool(getattr(scaler, "_enabled", True))
        if self._scaler is None or self._scaler() is not scaler:
            self._scaler = weakref.ref(scaler)
            self._facts.see_scaler(type(scaler).__name__)

    def _on_unscaled(self, scaler: Any, *_: Any, **__: Any) -> None:
        self._facts.is_ever_unscaled = True

    @guarded
    def _on_scheduler(self, scheduler: Any, *_: Any, **__: Any) -> None:
        kind = type(scheduler).__name__
        self._facts.see_scheduler(kind, getattr(scheduler, "last_epoch", None))
        optimizer = getattr(scheduler, "optimizer", None)
        if isinstance(optimizer, Optimizer) and self._is_idle(optimizer):
            self._facts.see_idle_scheduler(kind, self._running.num_updates)

    def _is_idle(self, optimizer: Optimizer) -> bool:
        """Whether, since a schedule was last stepped for it, another optimizer has made updates of
        its parameters, and it has made none."""
        mine = self._known(optimizer)
        counts = {id(each): each.num_steps for each in self.optimizers}
        before = self._at_schedule.get(id(optimizer))
        self._at_schedule[id(optimizer)] = counts
        if before is None or mine is None or counts[id(mine)] > before.get(id(mine), 0):
            return False
        own = {id(parameter) for parameter in mine.parameters()}
        return any(
            each.num_steps > before.get(id(each), 0)
            and any(id(parameter) in own for parameter in each.parameters())
            for each in self.optimizers
        )


def has_closure(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Of a call of `Optimizer.step`, whose first argument is the optimizer."""
    return kwargs.get("closure", args[1] if len(args) > 1 else None) is not None
