"""What every process of a group records, also those that save no tensors: loss, gradient norm,
learning rates, number of updates, a fingerprint of the batch, and hashes of weights and buffers.

Steps are numbered by the training steps of the process, which replicas have in common; a rank that
also evaluates has others of its own in between. Costs and steps are timed by the thread's own
processor time, which other work on the machine does not change. `reading/rank_figures.py` reads it.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.data.dataloader import _BaseDataLoaderIter

from trackside.capture.copying.hashes import hash_of
from trackside.capture.copying.late_numbers import LateNumbers, total_norm
from trackside.capture.failures import Failures, guarded
from trackside.capture.model.function_patches import FunctionPatch
from trackside.capture.model.replicas import ReplicaFacts, shared_parameters
from trackside.capture.model.values import readable, tensors_in
from trackside.capture.steps.common_steps import CommonSteps
from trackside.capture.steps.machine_clocks import MachineClocks
from trackside.capture.steps.watched import WatchedModel

MOST_SAMPLES, MOST_CHECKS = 1024, 512
_FIRST_SAMPLES, _FIRST_CHECKS = 16, 3
_MOST_HASHES = 8192
"""Of all checks whose hashes are kept for each tensor."""
_MOST_TENSORS = 4096
_MOST_RATES = 8
_HASHED_VALUES = 4096
"""Of a batch: spread over all of it."""
_BYTES_PER_SECOND = 2e11
"""A device reads at least this fast; what it does is not seen in the time that the host takes."""


@dataclass(slots=True)
class _Sample:
    number: int
    step: int
    num_updates: int
    clocks: tuple[float, float, float, float]
    machine: tuple[float, float, float]
    rates: list[float] = field(default_factory=list)
    late: dict[str, LateNumbers] = field(default_factory=dict)
    spent: float = 0.0

    def is_done(self) -> bool:
        return all(each.is_done() for each in self.late.values())

    def row(self) -> list[Any]:
        read = {name: late.read()[0] for name, late in self.late.items()}
        loss, norm = (_finite(read.get(name)) for name in ("loss", "gradient_norm"))
        clocks = [round(seconds, 6) for seconds in self.clocks]
        start = [self.number, self.step, self.num_updates]
        machine = [round(each, 6) for each in self.machine]
        return [*start, *clocks, loss, norm, read.get("fingerprint"), self.rates, *machine]


@dataclass(slots=True)
class _Check:
    number: int
    step: int
    num_updates: int
    late: list[LateNumbers]

    def hashes(self) -> list[int]:
        return [number for late in self.late for number in late.read()]


class RankFigures:
    """`models` gives the watched ones."""

    def __init__(self, failures: Failures, models: Callable[[], Iterable[WatchedModel]]) -> None:
        self.failures = failures
        self._models = models
        self._facts = ReplicaFacts()
        self._samples, self._checks = CommonSteps(_FIRST_SAMPLES), CommonSteps(_FIRST_CHECKS)
        self._sample: _Sample | None = None
        self._late_samples: list[_Sample] = []
        self._late_checks: list[_Check] = []
        self._lock = threading.Lock()
        self._sample_rows: list[list[Any]] = []
        self._check_rows: list[list[int]] = []
        self._hashes: list[tuple[int, list[int]]] = []
        self._tensors: list[tuple[str, str, int, str]] = []
        self._num_steps = self._num_updates = 0
        self._began = self._updated_at = self._asked_at = 0.0
        self._own_seconds = self._data_seconds = 0.0
        self._syncs, self._has_synced = True, False
        self._handles: list[Any] = []
        self._wrapping = FunctionPatch()
        self._machine = MachineClocks()

    def install(self) -> None:
        self._handles = [
            register_optimizer_step_pre_hook(self._before_update),
            register_optimizer_step_post_hook(self._after_update),
        ]
        self._wrapping.wrap(
            _BaseDataLoaderIter, "__next__", before=self._on_next, after=self._after_next
        )

    def begin(self, root: nn.Module, given: tuple[Any, ...], step: int, trains: bool) -> None:
        """A step begins with the call of `root`. Where DDP is called, only its steps count: a rank
        may use the model inside it for something of its own."""
        is_replica = isinstance(root, DistributedDataParallel)
        if not trains or (self._facts.num_called and not is_replica):
            self._began = 0.0
            return
        now = time.thread_time()
        number = self._num_steps
        self._num_steps += 1
        if self._began:
            self._samples.pass_time(now - self._began)
            self._checks.pass_time(now - self._began)
        self._began = now
        self._facts.see_step(root)
        self._syncs = not is_replica or bool(root.require_backward_grad_sync)
        self._has_synced |= is_replica and self._syncs
        self._settle(wait=False)
        if self._sample is not None:
            self._samples.spend(self._sample.spent)
        self._sample = None
        if self._samples.is_due(number):
            self._take_sample(given, number, step)
        elif self._samples.is_timed(number):
            self._late_samples.append(self._clocked(number, step))
        if self._checks.is_due(number):
            self._take_check(number, step)

    @guarded
    def see_loss(self, loss: Tensor) -> None:
        """`backward` is called on it."""
        if self._updated_at:
            self._own_seconds += time.perf_counter() - self._updated_at
            self._updated_at = 0.0
        if self._sample is not None and loss.numel() == 1 and "loss" not in self._sample.late:
            self._sample.late["loss"] = LateNumbers(loss.detach().float())

    @guarded
    def close(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._wrapping.undo()
        self._machine.close()
        self._sample = None
        self._settle(wait=True)

    def to_json(self) -> dict[str, Any]:
        with self._lock:
            return {
                "facts": {
                    **asdict(self._facts),
                    "num_steps": self._num_steps,
                    "num_updates": self._num_updates,
                },
                "samples": list(self._sample_rows),
                "tensors": list(self._tensors),
                "checks": list(self._check_rows),
                "hashes": list(self._hashes),
            }

    @torch.no_grad()
    def _take_sample(self, given: tuple[Any, ...], number: int, step: int) -> None:
        began = time.thread_time()
        self._sample = sample = self._clocked(number, step)
        batch = next(
            (t for each in tensors_in(*given) if (t := readable(each.detach())) is not None), None
        )
        if batch is not None and batch.numel():
            sample.late["fingerprint"] = LateNumbers(_fingerprint(batch))
        self._late_samples.append(sample)
        self._facts.see_collectives()
        sample.spent = time.thread_time() - began

    def _clocked(self, number: int, step: int) -> _Sample:
        """Times alone."""
        clocks = (time.perf_counter(), self._own_seconds, self._data_seconds, time.process_time())
        return _Sample(number, step, self._num_updates, clocks, self._machine.read())

    @torch.no_grad()
    def _take_check(self, number: int, step: int) -> None:
        began = time.thread_time()
        tensors = self._tensors_now()
        by_device: dict[torch.device, list[Tensor]] = {}
        for tensor in tensors:
            by_device.setdefault(tensor.device, []).append(hash_of(tensor))
        if len(by_device) > 1 or not tensors:  # a model over several devices has stages
            return
        late = [LateNumbers(torch.stack(hashes)) for hashes in by_device.values()]
        self._facts.see_device(tensors[0].device)
        self._late_checks.append(_Check(number, step, self._num_updates, late))
        on_device = sum(t.nbytes for t in tensors if t.device.type != "cpu") / _BYTES_PER_SECOND
        self._checks.spend(time.thread_time() - began + on_device)

    def _tensors_now(self) -> list[Tensor]:
        """Those that are compared, which are also named."""
        shared = shared_parameters()
        found: list[tuple[tuple[str, str, int, str], Tensor]] = []
        for watched in self._models():
            if any(_is_shard(parameter) for _, parameter in watched.parameters):
                self._facts.is_sharded = True
                continue
            for name, parameter in watched.names.parameters():
                role = "shared" if id(parameter) in shared else "own"
                found.append(((name, role, parameter.numel(), str(parameter.dtype)), parameter))
            found += _buffers(watched)
        chosen = [each for each in found if readable(each[1]) is not None][:_MOST_TENSORS]
        named = [about for about, _ in chosen]
        if named != self._tensors:
            with self._lock:
                self._tensors, self._hashes = named, []
        return [tensor for _, tensor in chosen]

    def _settle(self, *, wait: bool) -> None:
        """Take what has arrived. The sample of a step is over when the next step begins."""
        while self._late_samples and (wait or self._late_samples[0].is_done()):
            row = self._late_samples.pop(0).row()
            with self._lock:
                self._sample_rows.append(row)
                if len(self._sample_rows) > MOST_SAMPLES:
                    self._sample_rows = thinned(self._sample_rows, MOST_SAMPLES)
        while self._late_checks and (
            wait or all(late.is_done() for late in self._late_checks[0].late)
        ):
            self._keep(self._late_checks.pop(0))

    def _keep(self, check: _Check) -> None:
        hashes = check.hashes()
        with self._lock:
            roles = [role for _, role, _, _ in self._tensors]
            kept = zip(hashes, roles, strict=False)
            digest = digest_of(value for value, role in kept if role != "buffer")
            self._check_rows.append([check.number, check.step, check.num_updates, digest])
            if len(self._check_rows) > MOST_CHECKS:
                self._check_rows = thinned(self._check_rows, MOST_CHECKS)
            if len(hashes) == len(self._tensors):
                self._hashes.append((check.number, hashes))
            del self._hashes[: -max(2, _MOST_HASHES // max(1, len(hashes)))]

    def _before_update(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._sample is not None and "gradient_norm" not in self._sample.late:
            self._take_gradients(self._sample, optimizer)

    def _after_update(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._num_updates += 1
        self._facts.num_unsynced += not self._syncs
        self._facts.num_synced_too_early += self._has_synced and not self._syncs
        self._has_synced = False
        self._updated_at = time.perf_counter()

    @guarded
    @torch.no_grad()
    def _take_gradients(self, sample: _Sample, optimizer: Optimizer) -> None:
        """As the step uses them: averaged, unscaled and clipped."""
        began = time.thread_time()
        groups = optimizer.param_groups[:_MOST_RATES]
        sample.rates = [float(group["lr"]) for group in groups if "lr" in group]
        gradients = [
            parameter.grad
            for group in optimizer.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        plain = [g for g in gradients if not _is_shard(g) and readable(g) is not None]
        norm = total_norm(plain) if len(plain) == len(gradients) else None
        if norm is not None:
            sample.late["gradient_norm"] = LateNumbers(norm)
        sample.spent += time.thread_time() - began

    def _on_next(self, iterator: Any) -> None:
        self._asked_at = time.perf_counter()

    def _after_next(self, batch: Any, iterator: Any) -> None:
        self._data_seconds += time.perf_counter() - self._asked_at


def thinned(rows: list[list[Any]], most: int) -> list[list[Any]]:
    """The first half of what is allowed to stay is the start; of the rest, the numbers that more
    ranks have: multiples of ever larger powers of two."""
    keep, divisor = rows, 2
    while len(keep) > most // 2:
        keep = [row for row in rows if row[0] < most // 8 or row[0] % divisor == 0]
        divisor *= 2
    return keep


def digest_of(hashes: Iterable[int]) -> int:
    """Of all tensors, in their order; differs if any of them does."""
    total = 0
    for value in hashes:
        total = (total * 1_000_003 + value) & 0xFFFF_FFFF_FFFF_FFFF
    return total


def _fingerprint(batch: Tensor) -> Tensor:
    flat = batch.reshape(-1)
    stride = max(1, flat.numel() // _HASHED_VALUES)
    return hash_of(flat[::stride].contiguous()) ^ batch.numel()


def _is_shard(tensor: Any) -> bool:
    return hasattr(tensor, "_local_tensor") or hasattr(tensor, "_fsdp_flattened")


def _buffers(watched: WatchedModel) -> list[tuple[tuple[str, str, int, str], Tensor]]:
    """Statistics that SyncBatchNorm keeps equal, and others."""
    found = []
    for path, module in watched.names.modules():
        role = "synced" if isinstance(module, nn.SyncBatchNorm) else "buffer"
        for name, buffer in module.named_buffers(recurse=False):
            if not _is_shard(buffer):
                about = (f"{path}.{name}", role, buffer.numel(), str(buffer.dtype))
                found.append((about, buffer))
    return found


def _finite(value: float | None) -> float | None:
    """JSON has no others."""
    return value if value is not None and math.isfinite(value) else None
