"""Vitals: the few figures a doctor asks for first, taken by themselves at a cost nobody feels.

Decides when something is looked at and files what was found. What is looked at, and how, is in
the `vitals_*` modules; what is learnt for good goes to `anatomy_facts.py`.
"""

import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from trackside.capture.anatomy_facts import AnatomyFacts
from trackside.capture.failures import Failures, guarded
from trackside.capture.modes import ModeKeys
from trackside.capture.names import Names
from trackside.capture.segments import StepRecord
from trackside.capture.taps import Switch
from trackside.capture.trial_layout import VITALS
from trackside.capture.values import in_backward, readable, tensors_in
from trackside.capture.vitals_activations import Activations
from trackside.capture.vitals_losses import BINARY, OVER_CLASSES, LossCall, LossCalls
from trackside.capture.vitals_measures import (
    measure_binary,
    measure_classes,
    measure_fingerprint,
    measure_input,
)
from trackside.capture.vitals_optimizers import UpdateTotals, WatchedOptimizer
from trackside.capture.vitals_pack import Figures, Pack
from trackside.capture.vitals_schedule import Schedule
from trackside.capture.wrapping import Wrapping

COLLECTION = VITALS.rstrip("/")
_AS_CURVES = ("learning_rate/", "gradient_norm", "step_seconds", "samples_per_second", "batch_size")


@dataclass(slots=True)
class _Step:
    """The step that runs: where it stands, how it began, and what is taken of it."""

    step: int
    mode: ModeKeys
    mode_step: int
    trains: bool
    began: float
    """On the clock of `perf_counter`."""
    time: float
    batch_size: int = 0
    schedule: Schedule | None = None
    """Set when the step is one that is taken."""
    has_classes: bool = False
    figures: Figures = field(default_factory=dict)
    pack: Pack = field(default_factory=Pack)
    totals: UpdateTotals = field(default_factory=UpdateTotals)
    is_used: bool = False
    spent: float = 0.0


class Vitals:
    """`write` gets each record; `show` gets those figures of it that are drawn as curves;
    `put_anatomy` gets the facts as they are known by then."""

    def __init__(
        self,
        failures: Failures,
        facts: AnatomyFacts,
        *,
        write: Callable[[StepRecord], None],
        show: Callable[[StepRecord], None],
        put_anatomy: Callable[[dict[str, Any]], None],
    ) -> None:
        self.failures = failures
        self._facts = facts
        self._write, self._show, self._put_anatomy = write, show, put_anatomy
        self._step: _Step | None = None
        self._last_train: _Step | None = None
        self._seconds = 0.0
        self._num_steps = self._num_samples = 0
        """Of training, since they were last reported."""
        self._landing: list[_Step] = []
        self._schedules: dict[str, tuple[Schedule, int]] = {}
        self._switch = Switch()
        self._losses = LossCalls(self._switch, self._on_loss)
        self._activations: list[Activations] = []
        self._optimizers: dict[int, WatchedOptimizer] = {}
        self._update_schedules: dict[int, tuple[Schedule, float]] = {}
        self._scaler: weakref.ref[Any] | None = None
        self._wrapping = Wrapping()
        self._handles: list[Any] = []

    def install(self) -> None:
        self._losses.install()
        wrap = self._wrapping.wrap
        wrap(
            torch.autograd,
            "backward",
            before=self._before_backward,
            after=self._after_backward,
        )
        wrap(GradScaler, "scale", before=self._on_scaler)
        wrap(LRScheduler, "step", before=self._on_scheduler)
        wrap(ReduceLROnPlateau, "step", before=self._on_scheduler)
        self._handles = [
            register_optimizer_step_pre_hook(self._before_optimizer),
            register_optimizer_step_post_hook(self._after_optimizer),
        ]

    def remove(self) -> None:
        self._switch.on = False
        self._losses.remove()
        self._wrapping.undo()
        for activations in self._activations:
            activations.rest()
        for handle in self._handles:
            handle.remove()

    def add_model(self, names: Names) -> None:
        self._facts.add_model(names)
        self._activations.append(Activations(names, self.failures))

    @guarded
    def begin(
        self, root: nn.Module, given: tuple[Any, ...], step: int, mode: ModeKeys, mode_step: int
    ) -> None:
        """A step starts with the call of `root`; the one before it is over."""
        now = time.perf_counter()
        self._end_step(now)
        trains = root.training and torch.is_grad_enabled()
        if mode is not ModeKeys.GLOBAL:
            trains = trains and mode is ModeKeys.TRAIN
        current = self._step = _Step(step, mode, mode_step, trains, now, time.time())
        self._look_at_call(current, root, given)
        kind = "train" if trains else mode.name
        schedule, count = self._schedules.setdefault(kind, (Schedule(), 0))
        self._schedules[kind] = (schedule, count + 1)
        if trains:
            self._time_step(current, schedule)
        if not schedule.is_due(count):
            return
        schedule.take(count)
        current.schedule, current.is_used = schedule, True
        self._switch.on = True
        self._report_times(current)
        self._measure_batch(current, given)
        for activations in self._activations:
            activations.watch(current.pack)
        current.spent += time.perf_counter() - now

    @guarded
    def join(self, root: nn.Module) -> None:
        """A further call within the step."""
        if self._step is not None:
            self._facts.count_forward(root.training, torch.is_grad_enabled())

    @guarded
    def close(self) -> None:
        self._end_step(time.perf_counter())
        for step in self._landing:
            step.pack.wait()
        self._file_landed()
        self._put_anatomy(self._facts.to_json_dict(self._optimizers.values()))
        self.remove()

    def _look_at_call(self, current: _Step, root: nn.Module, given: tuple[Any, ...]) -> None:
        self._facts.count_forward(root.training, torch.is_grad_enabled())
        batch = _first_tensor(given)
        if batch is not None:
            current.batch_size = batch.shape[0] if batch.dim() else 1
            self._facts.see_call(batch.device)

    def _time_step(self, current: _Step, schedule: Schedule) -> None:
        last, self._last_train = self._last_train, current
        if last is None:
            return
        seconds = current.began - last.began
        schedule.pass_time(seconds)
        self._seconds += seconds
        self._num_steps += 1
        self._num_samples += last.batch_size

    def _report_times(self, current: _Step) -> None:
        if current.batch_size:
            current.figures["batch_size"] = float(current.batch_size)
        if not current.trains or not self._num_steps:
            return
        current.figures["step_seconds"] = self._seconds / self._num_steps
        if self._num_samples:
            current.figures["samples_per_second"] = self._num_samples / max(self._seconds, 1e-9)
        self._seconds, self._num_steps, self._num_samples = 0.0, 0, 0

    @torch.no_grad()
    def _measure_batch(self, current: _Step, given: tuple[Any, ...]) -> None:
        tensors = [t for each in tensors_in(given) if (t := readable(each.detach())) is not None]
        filled = [tensor for tensor in tensors if tensor.numel()]
        if filled:
            measure_fingerprint(current.pack, filled[0])
        values = next((tensor for tensor in filled if _is_measured(tensor)), None)
        if values is not None:
            measure_input(current.pack, values)

    def _end_step(self, now: float) -> None:
        step, self._step = self._step, None
        if step is None:
            return
        if not step.trains:
            self._last_train = None  # what came between is no part of a training step
        self._switch.on = False
        for activations in self._activations:
            activations.rest()
            step.spent += activations.spent
        if step.is_used:
            step.pack.seal()
            self._landing.append(step)
        self._file_landed()
        if self._facts.is_due(step.step):
            self._put_anatomy(self._facts.to_json_dict(self._optimizers.values()))
        if step.schedule is not None:
            step.schedule.spend(step.spent + time.perf_counter() - now)

    def _file_landed(self) -> None:
        while self._landing and self._landing[0].pack.is_landed():
            step = self._landing.pop(0)
            figures = step.figures | step.pack.read()
            figures |= step.totals.figures()
            self._facts.see_figures(figures)
            scalars = {f"{VITALS}{name}": value for name, value in figures.items()}
            record = StepRecord(
                step.step, step.mode.name, step.mode_step, step.time, scalars=scalars
            )
            self._write(record)
            curves = {
                f"{VITALS}{name}": value
                for name, value in figures.items()
                if name.startswith(_AS_CURVES)
            }
            if curves:
                self._show(
                    StepRecord(step.step, step.mode.name, step.mode_step, step.time, scalars=curves)
                )

    @guarded
    @torch.no_grad()
    def _on_loss(self, call: LossCall) -> None:
        step = self._step
        if step is None or in_backward():
            return
        began = time.perf_counter()
        self._facts.see_loss(call)
        if not step.has_classes and call.function in OVER_CLASSES:
            measure_classes(
                step.pack,
                call.prediction,
                call.target,
                ignored=call.ignored,
                log_probabilities=call.function == "nll_loss",
            )
            step.has_classes = True
        elif not step.has_classes and call.function in BINARY:
            is_logit = call.function.endswith("with_logits")
            threshold = 0.0 if is_logit else 0.5
            measure_binary(step.pack, call.prediction, call.target, threshold=threshold)
            step.has_classes = True
        step.spent += time.perf_counter() - began

    @guarded
    def _before_backward(self, *_: Any, **__: Any) -> None:
        if self._step is None:
            return
        self._facts.see_backward()
        with torch.no_grad():
            for watched in self._optimizers.values():
                schedule, _last = self._update_schedules[watched.index]
                watched.before_backward(is_due=schedule.is_due(watched.num_steps))

    @guarded
    def _after_backward(self, *_: Any, **__: Any) -> None:
        for watched in self._optimizers.values():
            watched.after_backward()

    def _before_optimizer(
        self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._on_optimizer(optimizer, has_closure(args, kwargs), is_before=True)

    def _after_optimizer(
        self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._on_optimizer(optimizer, has_closure(args, kwargs), is_before=False)

    @guarded
    @torch.no_grad()
    def _on_optimizer(self, optimizer: Optimizer, has_closure: bool, *, is_before: bool) -> None:
        """With a closure the gradients are there when `step` returns, and not before."""
        began = time.perf_counter()
        watched = self._watched(optimizer)
        schedule, last = self._update_schedules[watched.index]
        is_due = schedule.is_due(watched.num_steps) if is_before else bool(watched.is_taken)
        if is_before:
            watched.is_taken = is_due
            if is_due:
                watched.keep_weights()
        if self._step is not None and is_due:
            self._step.is_used = True
            if is_before != has_closure:
                self._take_gradients(self._step, watched)
            if not is_before:
                watched.take_update(self._step.pack, self._step.totals)
        if is_before:
            watched.spent = time.perf_counter() - began
            return
        if is_due:
            schedule.take(watched.num_steps)
            schedule.spend(watched.spent + time.perf_counter() - began)
        if last:
            schedule.pass_time(began - last)
        self._update_schedules[watched.index] = (schedule, began)
        watched.count_step()

    def _take_gradients(self, step: _Step, watched: WatchedOptimizer) -> None:
        step.figures |= watched.learning_rates()
        watched.take_gradients(step.pack, step.totals, self._facts.seeing_gradients(step.step))
        watched.take_leftover(step.pack, step.totals)
        self._facts.look_for_gradients(step.step)
        scaler = None if self._scaler is None else self._scaler()
        scale = getattr(scaler, "_scale", None)
        if isinstance(scale, Tensor):
            step.pack.add_named(["grad_scale"], [scale.reshape(())])

    def _watched(self, optimizer: Optimizer) -> WatchedOptimizer:
        watched = self._optimizers.get(id(optimizer))
        if watched is None or watched.optimizer() is not optimizer:
            index = len(self._update_schedules)
            watched = WatchedOptimizer(index, weakref.ref(optimizer))
            self._optimizers[id(optimizer)] = watched
            self._update_schedules[index] = (Schedule(), 0.0)
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


def _first_tensor(given: tuple[Any, ...]) -> Tensor | None:
    args, kwargs = given
    if args and isinstance(args[0], Tensor):
        return args[0]
    return next(iter(tensors_in(args, kwargs)), None)


def _is_measured(tensor: Tensor) -> bool:
    """Numbers that mean an amount: no token numbers, no masks."""
    return tensor.is_floating_point() or (
        tensor.dtype in (torch.uint8, torch.int8, torch.int16, torch.int32) and tensor.dim() >= 3
    )
