"""Vitals: the few figures that show a training's health, sampled automatically at little cost.

Decides which steps are sampled and records the results. The modules next to this one measure;
lasting facts go to `anatomy_facts.py`.
"""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from trackside.capture.failures import Failures, guarded
from trackside.capture.model.module_hooks import Switch
from trackside.capture.model.names import Names
from trackside.capture.model.values import in_backward, readable, tensors_in
from trackside.capture.modes import ModeKeys
from trackside.capture.trial_layout import VITALS
from trackside.capture.vitals.activations import Activations
from trackside.capture.vitals.anatomy_facts import AnatomyFacts
from trackside.capture.vitals.losses import (
    ALIGNING,
    BINARY,
    ELEMENTWISE,
    OVER_CLASSES,
    LossCall,
    LossCalls,
)
from trackside.capture.vitals.measures import (
    measure_amounts,
    measure_binary,
    measure_classes,
    measure_fingerprint,
    measure_input,
    measure_leak,
    measure_log_probabilities,
)
from trackside.capture.vitals.policies import Policies, Sampling
from trackside.capture.vitals.schedule import Schedule
from trackside.capture.vitals.sequences import measure_padding, measure_sequence, tokens_in
from trackside.capture.vitals.step import RunningStep, VitalsStep, curves_of
from trackside.capture.vitals.updates import Updates
from trackside.capture.writing.segments import StepRecord

COLLECTION = VITALS.rstrip("/")
_AMOUNTS = (torch.uint8, torch.int8, torch.int16, torch.int32)
"""Integers that may be pixels. Class and token numbers are usually int64."""


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
        self._running = RunningStep()
        self._in_transfer: list[VitalsStep] = []
        self._tokens: list[Tensor] = []
        self._memory: set[int] = set()
        """Tokens that the model got in the sampled step, and where all of it is."""
        self._amounts: Tensor | None = None
        """The same of the amounts that it was given, if any."""
        self._schedules: dict[ModeKeys, Schedule] = {}
        self._times = _StepTimes()
        self._switch = Switch()
        self._losses = LossCalls(self._switch, self._on_loss)
        self._activations: list[Activations] = []
        self._added: dict[tuple[int, str], int] = {}
        """Models by the step in which they came and their class."""
        self._updates = Updates(failures, facts, self._running)
        self._sampling = Sampling(facts)
        self._policies = Policies(failures, facts)

    def install(self) -> None:
        self._losses.install()
        self._facts.loaders.install()
        self._updates.install()
        self._sampling.install()
        self._policies.install()

    def add_model(self, names: Names) -> None:
        """Of several that are called in one step, as an ensemble's are, each is sampled
        separately; of those that follow one another, as folds do, any one is enough."""
        step = 0 if self._running.facts is None else self._running.facts[0]
        key = (step, names.root)
        number = self._added[key] = self._added.get(key, 0) + 1
        if number > 1:
            names = names.apart(number)
        self._facts.add_model(names)
        self._activations.append(Activations(names, self.failures, self._facts))

    @guarded
    def begin(
        self, root: nn.Module, given: tuple[Any, ...], step: int, mode: ModeKeys, mode_step: int
    ) -> None:
        """A step starts with the call of `root`; the one before it is over.

        `given` are the arguments of the call and its keyword arguments.
        """
        now = time.perf_counter()
        self._end_step(now)
        training, grad = root.training, torch.is_grad_enabled()
        self._facts.count_forward(training, grad)
        trains = training and grad and (mode is ModeKeys.TRAIN or mode is ModeKeys.GLOBAL)
        batch = _first_tensor(given)
        size = 0 if batch is None else batch.shape[0] if batch.dim() else 1
        self._running.facts = (step, mode, mode_step, trains, size)
        self._facts.loaders.see_step(trains)
        self._times.begin(trains, now, size, self._running.updated_at)
        kind = ModeKeys.TRAIN if trains else mode
        schedule = self._schedules.get(kind)
        if schedule is None:
            schedule = self._schedules[kind] = Schedule()
        count = schedule.count
        schedule.count = count + 1
        current = self._running.get() if count >= schedule.next else None
        if current is not None:
            current.schedule = schedule
            self._losses.forward = getattr(getattr(type(root), "forward", None), "__code__", None)
            self._measure(current, batch, given)
            schedule.take(count)
            current.spent = time.perf_counter() - now

    @guarded
    def note_part(self, module: nn.Module) -> None:
        self._facts.see_part(module)

    @guarded
    def join(self, root: nn.Module) -> None:
        """A further call of a model within the step."""
        self._facts.count_forward(root.training, torch.is_grad_enabled())

    @guarded
    def close(self) -> None:
        self._end_step(time.perf_counter())
        self._policies.remove()
        self._updates.remove()
        self._sampling.remove()
        self._losses.remove()
        self._facts.loaders.remove()
        for activations in self._activations:
            activations.rest(permanently=True)
        for step in self._in_transfer:
            step.take().pack.wait()
        self._file_transferred()
        self._put_anatomy(self._facts.to_json_dict(self._updates.optimizers))

    @torch.no_grad()
    def _measure(self, step: VitalsStep, batch: Tensor | None, given: tuple[Any, ...]) -> None:
        self._switch.on = True
        taken = step.take()
        taken.figures |= self._times.figures(step)
        if step.schedule is not None and "step_seconds" in taken.figures:
            step.schedule.pass_time(taken.figures["step_seconds"])
        for activations in self._activations:
            activations.watch(taken.pack)
        if step.trains:
            self._facts.see_modes_of_modules()
        if batch is not None:
            self._facts.see_device(batch.device)
            taken.figures["input/is_trained"] = float(batch.requires_grad)
            taken.figures["input/num_values"] = float(batch.numel())
        dense = [t for each in tensors_in(*given) if (t := readable(each.detach())) is not None]
        filled = [tensor for tensor in dense if tensor.numel()]
        self._tokens = tokens_in(filled)
        self._memory = {tensor.data_ptr() for tensor in filled}
        if filled:
            measure_fingerprint(taken.pack, filled[0])
        self._amounts = next((tensor for tensor in filled if _is_amount(tensor)), None)
        if self._amounts is not None:
            measure_input(taken.pack, self._amounts)

    def _end_step(self, now: float) -> None:
        facts = self._running.facts
        step = self._running.end()
        if step is not None:
            self._file(step, now)
        elif self._in_transfer:
            self._file_transferred()
        if facts is not None and self._facts.is_due(facts[0], now):
            self._put_anatomy(self._facts.to_json_dict(self._updates.optimizers))

    def _file(self, step: VitalsStep, now: float) -> None:
        if step.schedule is not None:
            self._switch.on = False
            self._tokens, self._memory, self._amounts = [], set(), None
            self._facts.padding_mask = None
            for activations in self._activations:
                activations.rest()
                step.spent += activations.spent
        if step.taken is not None:
            step.taken.pack.seal()
            self._in_transfer.append(step)
        self._file_transferred()
        if step.schedule is not None:
            step.schedule.spend(step.spent + time.perf_counter() - now)

    def _file_transferred(self) -> None:
        while self._in_transfer and self._in_transfer[0].take().pack.is_transferred():
            step = self._in_transfer.pop(0)
            figures = step.take().read()
            self._facts.see_figures(figures)
            self._write(step.record(figures))
            if curves := curves_of(figures):
                self._show(step.record(curves))

    @guarded
    @torch.no_grad()
    def _on_loss(self, call: LossCall) -> None:
        step = self._running.get()
        if step is None or in_backward():
            return
        began = time.perf_counter()
        is_input = call.target.data_ptr() in self._memory
        self._facts.see_loss(call, is_target_input=is_input)
        taken = step.take()
        taken.see_term(call)
        if call.function in ("kl_div", ALIGNING):
            measure_log_probabilities(taken.pack, call.prediction)
        if taken.has_loss:
            return
        if call.target.dim():
            mask = self._facts.padding_mask
            measure_padding(taken.pack, self._tokens, mask, call.target.shape[0])
            if self._amounts is not None:
                measure_leak(taken.pack, self._amounts, call.target)
        if call.function in OVER_CLASSES:
            measure_sequence(
                taken.pack,
                self._tokens,
                call.prediction,
                call.target,
                ignored=call.ignored,
                is_inside=call.is_inside,
            )
            measure_classes(
                taken.pack,
                call.prediction,
                call.target,
                ignored=call.ignored,
                log_probabilities=call.function == "nll_loss",
            )
            taken.has_loss = True
        elif call.function in BINARY:
            threshold = 0.0 if call.function.endswith("with_logits") else 0.5
            measure_binary(taken.pack, call.prediction, call.target, threshold=threshold)
            taken.has_loss = True
        elif call.function in ELEMENTWISE:
            measure_amounts(taken.pack, call.prediction, call.target, call.value)
            taken.has_loss = True
        step.spent += time.perf_counter() - began


class _StepTimes:
    """How long consecutive training steps last, since the last call."""

    def __init__(self) -> None:
        self._last: tuple[bool, float, int] = (False, 0.0, 0)
        self._between: float | None = None
        self._seconds = 0.0
        self._num_steps = self._num_samples = 0

    def begin(self, trains: bool, now: float, batch_size: int, updated_at: float) -> None:
        trained, began, last_size = self._last
        self._last = (trains, now, batch_size)
        # Where the step before made no update, as when gradients add up, nothing is known.
        follows = trained and trains and updated_at > began
        self._between = now - updated_at if follows else None
        if trained and trains:  # the time between training and evaluation belongs to neither
            self._seconds += now - began
            self._num_steps += 1
            self._num_samples += last_size

    def figures(self, step: VitalsStep) -> dict[str, float]:
        found = {"batch_size": float(step.batch_size)} if step.batch_size else {}
        if self._between is not None:
            found["between_seconds"] = self._between
        if step.trains and self._num_steps:
            found["step_seconds"] = self._seconds / self._num_steps
            if self._num_samples:
                found["samples_per_second"] = self._num_samples / max(self._seconds, 1e-9)
            self._seconds, self._num_steps, self._num_samples = 0.0, 0, 0
        return found


def _first_tensor(given: tuple[Any, ...]) -> Tensor | None:
    args, kwargs = given
    first = args[0] if args else next(iter(kwargs.values()), None)
    if isinstance(first, Tensor):
        return first
    return next(iter(tensors_in(args, kwargs)), None)


def _is_amount(tensor: Tensor) -> bool:
    """Numbers that measure something: no token numbers, no masks."""
    return tensor.is_floating_point() or (tensor.dtype in _AMOUNTS and tensor.dim() >= 3)
