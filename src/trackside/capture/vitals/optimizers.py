"""What optimizers do: learning rates, the gradients they use, how far they move the weights.

Also whether gradients of the last update still existed when the next ones were added.
"""

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from trackside.capture.model.values import readable
from trackside.capture.vitals.measures import norms_of, sample_parameter
from trackside.capture.vitals.pack import Figures, Finish, Pack
from trackside.capture.vitals.schedule import Schedule

Saw = Callable[[list[Tensor], Any], None]
"""Gets the parameters that had a gradient, and the norm of each, once they are transferred."""

_FULL_SIZE = 4
"""Bytes of a float32."""
_NUM_PROBES = 8
"""Parameters of an optimizer that are checked for being reached by a backward."""


@dataclass(slots=True)
class UpdateTotals:
    """Sums over the optimizers and devices of one step; None if nothing was sampled."""

    gradient: float | None = None
    """Squared, as are the next two."""
    change: float = 0.0
    length: float = 0.0
    num_missing: int | None = None
    leftovers: dict[int, dict[int, bool]] = field(default_factory=dict)
    """By optimizer, by backward since its last step: whether gradients were there before it."""
    num_cleared: int | None = None
    """Backwards whose gradients were cleared before any use."""

    def figures(self) -> Figures:
        found: Figures = {}
        if self.gradient is not None:
            found["gradient_norm"] = math.sqrt(self.gradient)
        if self.length > 0:
            found["update_ratio"] = math.sqrt(self.change / self.length)
        if self.num_missing is not None:
            found["gradient_missing"] = float(self.num_missing)
        if self.leftovers:
            # Gradients that were gone before any of the backwards are not left over: a
            # discriminator gets some from the generator's loss, and is cleared before its own.
            forgotten = {index: all(each.values()) for index, each in self.leftovers.items()}
            found["leftover_gradients"] = float(any(forgotten.values()))
            found |= {f"leftover_gradients/{n}": float(is_so) for n, is_so in forgotten.items()}
        if self.num_cleared is not None:
            found["cleared_backwards"] = float(self.num_cleared)
        return found

    def add_gradients(self, norms: Any) -> None:
        self.gradient = (self.gradient or 0.0) + float((norms.astype("float64") ** 2).sum())

    def add_update(self, squares: Any) -> None:
        self.change += float(squares[0])
        self.length += float(squares[1])

    def add_leftover(self, optimizer: int, backward: int, norms: Any) -> None:
        known = self.leftovers.setdefault(optimizer, {})
        known[backward] = known.get(backward, False) or bool((norms != 0).any())


@dataclass(slots=True)
class _Probe:
    parameter: Tensor
    gradient: Tensor | None = None
    version: int = 0

    def sample(self) -> None:
        self.gradient = self.parameter.grad
        self.version = 0 if self.gradient is None else self.gradient._version

    def is_touched(self) -> bool:
        """Also releases the gradient, whose memory is not ours to hold."""
        before, self.gradient = self.gradient, None
        now = self.parameter.grad
        return now is not before or (now is not None and now._version != self.version)


@dataclass(slots=True)
class WatchedOptimizer:
    """One optimizer, from its first step on."""

    index: int
    optimizer: "weakref.ref[Optimizer]"
    schedule: Schedule
    num_steps: int = 0
    last_step: int = 0
    """Of training, at its last update."""
    num_backwards: int = 0
    """Since its last step, as far as they reached its parameters, if it was sampled."""
    num_cleared: int = 0
    """Of these, those whose gradients were gone before the next."""
    backwards_per_step: dict[int, int] = field(default_factory=dict)
    num_discarded: int = 0
    """Backwards, of those, whose gradients were cleared before any step used them."""
    is_due: bool = True
    """Whether the gradients and update of its next step are sampled."""
    is_taken: bool = False
    """Whether the running step is sampled."""
    _probes: list[_Probe] = field(default_factory=list)
    _leftovers: list[list[Tensor]] = field(default_factory=list)
    """For each backward since its last step that reached them, the norms of its gradients from
    before; none where they were gone."""
    _candidates: list[Tensor] = field(default_factory=list)
    _last_gradients: list[int] = field(default_factory=list)
    """Which tensors they were after the last backward."""
    _before: list[tuple[Tensor, Tensor, float]] = field(default_factory=list)

    def groups(self) -> list[dict[str, Any]]:
        optimizer = self.optimizer()
        return [] if optimizer is None else optimizer.param_groups

    def parameters(self) -> list[Tensor]:
        return [parameter for group in self.groups() for parameter in group["params"]]

    @torch.no_grad()
    def before_backward(self) -> None:
        """Of a sampled update, as is `after_backward`."""
        for probe in self._probes:
            probe.sample()
        if all(self._leftovers):
            there = [p.gradient for p in self._probes if p.gradient is not None]
            self._candidates = _norms(there)

    def after_backward(self) -> None:
        was_there = any(probe.gradient is not None for probe in self._probes)
        touched = [probe.is_touched() for probe in self._probes]
        if any(touched):
            self.num_cleared += self.num_backwards > 0 and not was_there
            self.num_backwards += 1
            self._last_gradients = self._gradients()
            self._leftovers.append(self._candidates)
        self._candidates = []

    def count_step(self) -> None:
        self.num_steps += 1
        if self.is_taken:
            self._leftovers = []
            if self._probes:
                count = self.num_backwards
                self.backwards_per_step[count] = self.backwards_per_step.get(count, 0) + 1
            self.num_discarded += self.num_cleared if self._uses_the_last() else 0
            self.num_backwards = self.num_cleared = 0
            self.is_taken = False
        self.is_due = self.num_steps >= self.schedule.next
        if self.num_steps <= 2 or self.num_steps & (self.num_steps - 1) == 0:
            self._choose_probes()

    def take_gradients(self, pack: Pack, totals: UpdateTotals, saw: Saw) -> None:
        optimizer = self.optimizer()
        parameters = [p for p in self.parameters() if p.requires_grad]
        present = sum(p.grad is not None for p in parameters)
        totals.num_missing = (totals.num_missing or 0) + len(parameters) - present
        scale = getattr(optimizer, "grad_scale", None)  # a fused one unscales within its step
        having = [(p, g) for p in parameters if (g := _dense_gradient(p)) is not None]
        for chosen, norms in _norms_by_device(having):
            final = norms / scale.to(norms.device) if isinstance(scale, Tensor) else norms

            def finish(values: Any, chosen: list[Tensor] = chosen) -> Figures:
                saw(chosen, values)
                totals.add_gradients(values)
                return {}

            pack.add(final, finish)

    def take_leftover(self, pack: Pack, totals: UpdateTotals) -> None:
        if self.num_backwards:
            cleared = self.num_cleared if self._uses_the_last() else 0
            totals.num_cleared = (totals.num_cleared or 0) + cleared
        for number, norms in enumerate(self._leftovers):
            if not norms:
                totals.leftovers[self.index] = {number: False}
                return
        for number, norms in enumerate(self._leftovers):
            for each in norms:
                pack.add(each, _silently(partial(totals.add_leftover, self.index, number)))

    def learning_rates(self) -> Figures:
        stem = "learning_rate/" if self.index == 0 else f"learning_rate/{self.index}."
        return {
            f"{stem}{number}": float(group["lr"])
            for number, group in enumerate(self.groups())
            if "lr" in group
        }

    @torch.no_grad()
    def keep_weights(self) -> None:
        self._before = []
        for parameter in self.parameters():
            dense = readable(parameter.detach())
            if parameter.requires_grad and dense is not None and dense.numel():
                part = sample_parameter(dense)
                self._before.append((part, part.clone(), dense.numel() / part.numel()))

    @torch.no_grad()
    def take_update(self, pack: Pack, totals: UpdateTotals) -> None:
        before, self._before = self._before, []
        by_device: dict[torch.device, list[tuple[Tensor, Tensor, float]]] = {}
        for entry in before:
            by_device.setdefault(entry[0].device, []).append(entry)
        for device, entries in by_device.items():
            old = [kept for _, kept, _ in entries]
            shares = torch.tensor([share for _, _, share in entries], device=device)
            lengths = norms_of(old)
            torch._foreach_sub_(old, [now for now, _, _ in entries])
            squares = torch.stack([norms_of(old), lengths]).square() * shares
            pack.add(squares.sum(1), _silently(totals.add_update))
            short = [each for each in old if each.element_size() < _FULL_SIZE]
            if short:
                lost = torch.stack([(each == 0).float().mean() for each in short])
                pack.add(lost, _judge_lost)

    def _uses_the_last(self) -> bool:
        """Whether it uses the gradients of the last backward, not some that were collected
        elsewhere and assigned, as with separate gradients per task or per sample.
        """
        return self._last_gradients == self._gradients()

    def _gradients(self) -> list[int]:
        return [id(probe.parameter.grad) for probe in self._probes]

    def _choose_probes(self) -> None:
        having = [p for p in self.parameters() if p.grad is not None]
        self._probes = [_Probe(p) for p in having[:: max(1, len(having) // _NUM_PROBES)]]


def _judge_lost(shares: Any) -> Figures:
    """Of weights in 16 bits: elements that an update left as they were, by rounding."""
    return {"update_lost_share": float(np.median(shares))}


def _silently(act: Callable[[Any], None]) -> Finish:
    def finish(values: Any) -> Figures:
        act(values)
        return {}

    return finish


def _norms(gradients: list[Tensor]) -> list[Tensor]:
    dense = [each for each in map(_dense, gradients) if each is not None]
    return [norms for _, norms in _norms_by_device([(each, each) for each in dense])]


def _norms_by_device(
    having: list[tuple[Tensor, Tensor]],
) -> list[tuple[list[Tensor], Tensor]]:
    by_device: dict[torch.device, list[tuple[Tensor, Tensor]]] = {}
    for pair in having:
        by_device.setdefault(pair[1].device, []).append(pair)
    return [
        ([parameter for parameter, _ in pairs], norms_of([gradient for _, gradient in pairs]))
        for pairs in by_device.values()
    ]


def _dense_gradient(parameter: Tensor) -> Tensor | None:
    return None if parameter.grad is None else _dense(parameter.grad)


def _dense(gradient: Tensor) -> Tensor | None:
    if gradient.layout is torch.sparse_coo:
        return gradient.detach().coalesce().values()
    return readable(gradient.detach())
