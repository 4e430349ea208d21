"""Collects what is saved of one step, and turns it into records when the step is over."""

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from torch import Tensor

from trackside.capture.copying.compiled_reductions import library, reduce_ordinary
from trackside.capture.copying.device_copy import DeviceCopies
from trackside.capture.copying.host_copy import HostCopies
from trackside.capture.copying.reductions import reduce_on_device, reduce_on_host
from trackside.capture.model.values import readable
from trackside.capture.selection.plan import Treatment
from trackside.capture.writing.segments import StepRecord

Columns = tuple[str, ...]
Names = tuple[str, ...]


@dataclass(slots=True)
class OpenStep:
    """Between the start of a saved step and the start of the next."""

    step: int
    mode: str
    mode_step: int
    time: float
    mask: int
    """Collections due, as the plan numbers them."""
    copies: HostCopies
    tensors: dict[str, Tensor] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    treatments: dict[str, Treatment] = field(default_factory=dict)
    _matrices: dict[Columns, tuple[list[Names], list[Any]]] = field(default_factory=dict)
    _seen: dict[int, tuple[weakref.ref[Tensor], int, Tensor]] = field(default_factory=dict)
    _indices: dict[str, int] = field(default_factory=dict)
    _device_copies: DeviceCopies | None = None
    _num_bytes: int = 0
    _is_rest: bool = False

    def next_index(self, stem: str) -> int:
        """Continues when a module runs again within the step."""
        index = self._indices.get(stem, 0)
        self._indices[stem] = index + 1
        return index

    def rest(self) -> "OpenStep":
        """For data of this step after it was handed on early."""
        return OpenStep(
            *(self.step, self.mode, self.mode_step, self.time, self.mask, self.copies),
            _indices=self._indices,
            _is_rest=True,
        )

    @property
    def is_spent(self) -> bool:
        """Whether it was handed on early and nothing was added since."""
        return self._is_rest and not (self.tensors or self.shapes or self._matrices)

    def take(self, name: str, tensor: Tensor, treatment: Treatment) -> None:
        """Copy or reduce at once: the tensor may change as soon as we return."""
        self.treatments[name] = treatment
        self.copy(name, tensor, treatment)
        if treatment.columns:
            self.reduce((name,), [tensor], treatment.columns)

    def copy(self, name: str, tensor: Tensor, treatment: Treatment) -> None:
        if not (treatment.raw or treatment.shape):
            return
        source = readable(tensor)
        if treatment.shape or source is None or source.numel() == 0:
            self.shapes[name] = tuple(tensor.shape)
        if treatment.raw and source is not None and source.numel():
            self.tensors[name] = self._copied(source)

    def reduce(self, names: Names, tensors: Sequence[Tensor], columns: Columns) -> None:
        matrix = reduce_ordinary(library, tensors, columns)
        if matrix is not None:
            self._add_rows(names, columns, matrix)
        else:
            self._reduce_any(names, tensors, columns)

    def keep(self, tensor: Tensor) -> Tensor:
        """A copy of something temporary, to be taken later in the step."""
        source = readable(tensor)
        if source is None or not source.is_cpu:
            return tensor.detach().clone()
        copy = self._fresh_copy(source)
        self._seen[id(copy)] = (weakref.ref(copy), copy._version, copy)  # once is enough
        return copy

    def is_transferred(self) -> bool:
        """Whether all copies have arrived; always true on a CPU."""
        return self._device_copies is None or self._device_copies.is_done()

    def wait(self) -> None:
        if self._device_copies is not None:
            self._device_copies.wait()

    def records(self) -> list[StepRecord]:
        """One record, and one more for every further set of reductions."""
        records = [
            StepRecord(self.step, self.mode, self.mode_step, self.time, size_bytes=0)
            for _ in range(max(1, len(self._matrices)))
        ]
        records[0].tensors = dict(self.tensors)
        records[0].shapes = self.shapes
        records[0].size_bytes = self._num_bytes
        for record, (columns, (names, blocks)) in zip(
            records, self._matrices.items(), strict=False
        ):
            rows = _rows(tuple(names))
            matrix = np.concatenate([np.asarray(block) for block in blocks])
            record.reductions, record.reduced = columns, rows.names
            record.matrix = matrix if rows.latest is None else matrix[rows.latest]
        return records

    def _reduce_any(self, names: Names, tensors: Sequence[Tensor], columns: Columns) -> None:
        host: list[tuple[str, Tensor]] = []
        device: list[tuple[str, Tensor]] = []
        for name, tensor in zip(names, tensors, strict=True):
            source = readable(tensor)
            if source is None or source.numel() == 0 or source.is_complex():
                self.shapes[name] = tuple(tensor.shape)
            else:
                (host if source.is_cpu else device).append((name, source))
        if host:
            matrix = reduce_on_host([tensor for _, tensor in host], columns)
            self._add_rows(tuple(name for name, _ in host), columns, matrix)
        if device:
            packed = reduce_on_device([tensor for _, tensor in device], columns)
            self._add_rows(tuple(name for name, _ in device), columns, self._copied(packed))

    def _add_rows(self, names: Names, columns: Columns, matrix: Any) -> None:
        known, blocks = self._matrices.setdefault(columns, ([], []))
        known.append(names)
        blocks.append(matrix)

    def _copied(self, source: Tensor) -> Tensor:
        """One copy for a tensor that is the output of one module and the input of the next."""
        if source.is_inference():
            return self._fresh_copy(source)
        known = self._seen.get(id(source))
        if known is not None and known[0]() is source and known[1] == source._version:
            return known[2]
        copy = self._fresh_copy(source)
        self._seen[id(source)] = (weakref.ref(source), source._version, copy)
        return copy

    def _fresh_copy(self, source: Tensor) -> Tensor:
        self._num_bytes += source.nbytes
        if source.is_cpu:
            return self.copies.copy(source)
        if not source.is_cuda:
            return source.detach().to("cpu", copy=True)
        if self._device_copies is None:
            self._device_copies = DeviceCopies(source.device)
        return self._device_copies.copy(source)


@dataclass(frozen=True, slots=True)
class _Rows:
    names: Names
    latest: list[int] | None
    """Rows of the blocks that count; None when all of them do."""


@lru_cache(maxsize=64)
def _rows(blocks: tuple[Names, ...]) -> _Rows:
    """A second backward in one step has its gradients again; the later ones count.

    Cached, as most steps have the same blocks, so that all their records share the names.
    """
    names = [name for block in blocks for name in block]
    latest = {name: row for row, name in enumerate(names)}
    return _Rows(tuple(latest), None if len(latest) == len(names) else [*latest.values()])
