"""Vitals: the few figures that show a training's health, sampled automatically at little cost.

Decides which steps are sampled and records the results. The modules next to this one measure;
lasting facts go to `anatomy_facts.py`.
"""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from trackside.capture.checkpoints import checkpoint_watch
from trackside.capture.checkpoints.trace import trace
from trackside.capture.failures import Failures, guarded
from trackside.capture.model.module_hooks import Switch
from trackside.capture.model.names import Names
from trackside.capture.model.values import in_backward, num_values_of, readable, tensors_in
from trackside.capture.modes import ModeKeys
from trackside.capture.trial_layout import VITALS
from trackside.capture.vitals.activations import Activations
from trackside.capture.vitals.anatomy_facts import AnatomyFacts
from trackside.capture.vitals.endings import Endings
from trackside.capture.vitals.loss_setup import count_classes, measure_setup
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
    measure_others,
)
from trackside.capture.vitals.misplaced import Misplaced
from trackside.capture.vitals.objectives import Objectives
from trackside.capture.vitals.onlookers import Onlookers
from trackside.capture.vitals.policies import Policies, Sampling
from trackside.capture.vitals.samples import Samples
from trackside.capture.vitals.schedule import Schedule
from trackside.capture.vitals.sequences import measure_padding, measure_sequence, tokens_in
from trackside.capture.vitals.step import RunningStep, VitalsStep, curves_of
from trackside.capture.vitals.updates import Updates
from trackside.capture.writing.segments import StepRecord

COLLECTION = VITALS.rstrip("/")
_AMOUNTS = (torch.uint8, torch.int8, torch.int16, torch.int32)
"""Integers that may be pixels. Class and token numbers are usually int64."""
_MOST_OTHERS = 4
"""Inputs beside the first that are looked at."""


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
        self._num_returns = 0
        """To files of this run, up to the newest step."""
        self._times = _StepTimes()
        self._switch = Switch()
        self._losses = LossCalls(self._switch, self._on_loss)
        self._activations: list[Activations] = []
        self._added: dict[tuple[int, str], int] = {}
        """Models by the step in which they came and their class."""
        self._updates = Updates(failures, facts, self._running)
        self._sampling = Sampling(facts)
        self._policies = Policies(failures, facts)
        self._objectives = Objectives(failures, facts, self._running)
        self._endings = Endings(facts)
        self._onlookers = facts.onlookers = Onlookers(failures)
        self._misplaced = Misplaced(failures, facts, self._running)
        self._samples = Samples()

    def install(self) -> None:
        self._losses.install()
        self._facts.loaders.install()
        self._facts.loaders.on_elsewhere = self._see_elsewhere
        checkpoint_watch.log.step = self._running.number
        trace.loaders = self._facts.loaders.to_json
        checkpoint_watch.install()
        self._updates.install()
        self._sampling.install()
        self._policies.install()
        self._objectives.install()
        self._misplaced.install()

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
        self._end_step()
        training, grad = root.training, torch.is_grad_enabled()
        self._facts.count_forward(training, grad, is_frozen=_is_frozen(root))
        self._onlookers.see(root, grad)
        trains = training and grad and (mode is ModeKeys.TRAIN or mode is ModeKeys.GLOBAL)
        batch = _first_tensor(given)
        size = 0 if batch is None else batch.shape[0] if batch.dim() else 1
        self._running.facts = (step, mode, mode_step, trains, size)
        self._running.is_evaluated = not training and not grad
        self._see_evaluated(root, grad)
        self._find_copies()
        self._facts.loaders.see_step(trains)
        self._facts.see_step(step, trains)
        self._see_text(root, given, grad)
        self._times.begin(trains, now, size, self._running.updated_at)
        kind = ModeKeys.TRAIN if trains else mode
        schedule = self._schedules.get(kind)
        if schedule is None:
            schedule = self._schedules[kind] = Schedule(num_values_of(root.parameters()))
        count = schedule.count
        schedule.count = count + 1
        if trains and self._num_returns != checkpoint_watch.log.num_returns:
            self._num_returns = checkpoint_watch.log.num_returns
            schedule.begin_again(count)
        current = self._running.get() if count >= schedule.next else None
        seen = {}
        if batch is not None and self._compares(batch):
            seen = self._samples.see(batch, is_trained=trains)
        if current is not None:
            current.schedule = schedule
            current.take().figures |= seen
            self._losses.forward = getattr(getattr(type(root), "forward", None), "__code__", None)
            self._measure(current, batch, given)
            schedule.take(count)

    @guarded
    @torch.no_grad()
    def _see_text(self, root: nn.Module, given: tuple[Any, ...], grad: bool) -> None:
        self._facts.texts.begin(root, given, grad)

    @guarded
    def note_part(self, module: nn.Module) -> None:
        self._facts.see_part(module)

    def note_early_evaluation(self, num_calls: int) -> None:
        self._facts.num_evaluated_early += num_calls

    def note_onlooker(self, module: nn.Module) -> None:
        self._onlookers.watch(module)

    @guarded
    def join(self, root: nn.Module) -> None:
        """A further call of a model within the step."""
        grad = torch.is_grad_enabled()
        self._facts.count_forward(root.training, grad, is_frozen=_is_frozen(root))
        self._onlookers.see(root, grad)
        self._see_evaluated(root, grad)

    @guarded
    def _see_elsewhere(self) -> None:
        self._facts.look_for_copies(self._running.num_updates)

    @guarded
    def _find_copies(self) -> None:
        self._facts.find_copies(self._running.num_updates)

    @guarded
    def _see_evaluated(self, root: nn.Module, grad: bool) -> None:
        self._facts.evaluated.stop_looking()
        if not grad:
            self._facts.evaluated.see(root, self._running.num_updates)

    @guarded
    def close(self) -> None:
        self._end_step()
        self._misplaced.remove()
        self._objectives.remove()
        self._onlookers.remove()
        self._policies.remove()
        self._updates.remove()
        self._sampling.remove()
        self._losses.remove()
        self._facts.loaders.remove()
        self._facts.evaluated.remove()
        checkpoint_watch.remove()
        for activations in self._activations:
            activations.rest(permanently=True)
        for step in self._in_transfer:
            step.take().pack.wait()
        self._file_transferred()
        self._facts.see_crash()
        self._facts.evaluations.end(time.time())
        self._put_anatomy(self._facts.to_json_dict(self._updates.optimizers))
        checkpoint_watch.log.clear()
        trace.clear()

    @torch.no_grad()
    def _measure(self, step: VitalsStep, batch: Tensor | None, given: tuple[Any, ...]) -> None:
        self._switch.on = True
        taken = step.take()
        taken.figures |= self._times.figures(step)
        for activations in self._activations:
            activations.watch(taken.pack)
        if step.trains:
            self._facts.see_modes_of_modules(step.step)
            self._facts.see_autocast(is_on=torch._C._is_any_autocast_enabled())
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
        if batch is not None and self._compares(batch):
            self._samples.measure(taken.pack, batch, is_trained=step.trains)
        self._amounts = next((tensor for tensor in filled if _is_amount(tensor)), None)
        if self._amounts is not None:
            measure_input(taken.pack, self._amounts)
            others = [tensor for tensor in filled if _is_beside(tensor, self._amounts)]
            if others:
                measure_others(taken.pack, others[:_MOST_OTHERS])

    def _compares(self, batch: Tensor) -> bool:
        """Whether the running step trains or evaluates, and samples of `batch` may be compared."""
        facts = self._running.facts
        is_used = self._running.is_evaluated or (facts is not None and facts[3])
        return is_used and _is_amount(batch)

    def _end_step(self) -> None:
        facts = self._running.facts
        step = self._running.end()
        if step is not None:
            self._file(step)
        elif self._in_transfer:
            self._file_transferred()
        if facts is not None and self._facts.is_due(facts[0], time.perf_counter()):
            self._put_anatomy(self._facts.to_json_dict(self._updates.optimizers))

    def _file(self, step: VitalsStep) -> None:
        if step.schedule is not None:
            self._switch.on = False
            self._tokens, self._memory, self._amounts = [], set(), None
            self._facts.padding_mask = None
            for activations in self._activations:
                activations.rest()
        if step.taken is not None:
            step.taken.pack.seal()
            self._in_transfer.append(step)
        self._file_transferred()

    def _file_transferred(self) -> None:
        while self._in_transfer and self._in_transfer[0].take().pack.is_transferred():
            step = self._in_transfer.pop(0)
            figures = step.take().read()
            self._facts.see_figures(figures)
            if step.trains:
                trace.see(step.step, figures)
            self._write(step.record(figures))
            if curves := curves_of(figures):
                self._show(step.record(curves))

    @guarded
    @torch.no_grad()
    def _on_loss(self, call: LossCall) -> None:
        step = self._running.get()
        if step is None or in_backward():
            return
        is_input = call.target.data_ptr() in self._memory
        self._facts.see_loss(call, is_target_input=is_input)
        self._facts.see_autocast(is_on=step.trains and torch._C._is_any_autocast_enabled())
        taken = step.take()
        taken.see_term(call)
        self._objectives.see_loss(call)
        self._endings.see_loss(call)
        if call.function in ("kl_div", ALIGNING):
            measure_log_probabilities(taken.pack, call.prediction)
        if taken.has_loss:
            return
        if step.trains and (counts := self._facts.class_counts(call)):
            count_classes(taken.pack, call, counts)
        if call.target.dim():
            mask = self._facts.padding_mask
            measure_padding(taken.pack, self._tokens, mask, call.target.shape[0])
            if self._amounts is not None:
                measure_leak(taken.pack, self._amounts, call.target)
        if call.function in OVER_CLASSES:
            self._facts.texts.see_loss(call)
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
            measure_setup(taken.pack, call, step.batch_size)
            taken.has_loss = True
        elif call.function in BINARY:
            threshold = 0.0 if call.function.endswith("with_logits") else 0.5
            measure_binary(taken.pack, call.prediction, call.target, threshold=threshold)
            taken.has_loss = True
        elif call.function in ELEMENTWISE:
            measure_amounts(taken.pack, call.prediction, call.target, call.value)
            taken.has_loss = True


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


def _is_frozen(root: nn.Module) -> bool:
    """A part of what is trained, of which nothing is: evaluation mode is its proper one."""
    return not any(each.requires_grad for each in root.parameters())


def _first_tensor(given: tuple[Any, ...]) -> Tensor | None:
    args, kwargs = given
    first = args[0] if args else next(iter(kwargs.values()), None)
    if isinstance(first, Tensor):
        return first
    return next(iter(tensors_in(args, kwargs)), None)


def _is_beside(tensor: Tensor, first: Tensor) -> bool:
    """Another input of the samples; a number for each is as likely its label."""
    is_other = tensor is not first and tensor.device == first.device
    return is_other and tensor.dim() > 1 and not tensor.is_complex()


def _is_amount(tensor: Tensor) -> bool:
    """Numbers that measure something: no token numbers, no masks."""
    return tensor.is_floating_point() or (tensor.dtype in _AMOUNTS and tensor.dim() >= 3)
