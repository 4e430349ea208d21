"""The segment: several saved steps of one worker as one safetensors file. docs/formats.md has it.

Writes and describes it; `segment_reader.py` opens it, `writer.py` decides when to write.
"""

import itertools
import json
import math
import os
import struct
import sys
from collections.abc import Sequence
from dataclasses import field, replace
from functools import cache
from typing import Any

import numpy as np

from trackside.capture.dtypes import RAW, STORED, Array
from trackside.quick_dataclass import dataclass

FORMAT = "trackside-segment-1"
METADATA_KEY = "trackside"
"""Key of our description, JSON, among the file's own metadata, whose values must be strings."""
CUBES = "trackside/reductions/"
"""Entries with this prefix are reductions [step, tensor, reduction], not tensors of the user."""

_ALIGNMENT = 64
_PARTS_PER_WRITE = 1024  # IOV_MAX on Linux and macOS


@dataclass(slots=True)
class StepRecord:
    """What one worker saved of one step. A step may come in several records; readers merge them.

    Tensors are on the CPU and owned by the record: they do not change afterwards. One with several
    names (the output of one module is the next one's input) is written once.
    """

    step: int
    """Global step."""
    mode: str
    """`ModeKeys` by name: "TRAIN"."""
    mode_step: int
    time: float
    """Seconds since the epoch."""
    tensors: dict[str, Any] = field(default_factory=dict)
    """Name to torch tensor or numpy array, bfloat16 and float8 included."""
    reduced: tuple[str, ...] = ()
    """Names of the rows of `matrix`."""
    reductions: tuple[str, ...] = ()
    """Its columns, as smdebug stores them: "min", "abs_mean", "l2", "abs_l1"."""
    matrix: Any = None
    """float32 or float64 array [len(reduced), len(reductions)], or None."""
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Tensors of which only the shape was requested."""
    scalars: dict[str, float] = field(default_factory=dict)
    size_bytes: int | None = None
    """Bytes of `tensors`, each counted once, where the maker knows; counted otherwise."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A tensor that could not be stored, and why. The rest of its step is in the segment."""

    name: str
    step: int
    reason: str


@dataclass(frozen=True, slots=True)
class Segment:
    """The file's bytes in order, in pieces that share memory with the records."""

    parts: list[Any]
    size_bytes: int
    skipped: list[Skipped]


def lay_out(records: Sequence[StepRecord], worker: str) -> Segment:
    layout = _Layout(worker)
    for record in _one_per_step(records):
        layout.add(record)
    header, parts = layout.finish()
    return Segment([header, *parts], len(header) + sum(map(len, parts)), layout.skipped)


def write_parts(descriptor: int, parts: Sequence[Any]) -> None:
    """At the descriptor's position, without copying."""
    for start in range(0, len(parts), _PARTS_PER_WRITE):
        batch = list(parts[start : start + _PARTS_PER_WRITE])
        while batch:
            written = os.writev(descriptor, batch)
            while batch and written >= len(batch[0]):
                written -= len(batch.pop(0))
            if written:
                batch[0] = memoryview(batch[0])[written:]


def record_size(record: StepRecord) -> int:
    """Approximate bytes of the record in memory, to bound a queue."""
    size = record.size_bytes
    if size is None:
        distinct = {id(tensor): tensor for tensor in record.tensors.values()}
        size = sum([tensor.nbytes for tensor in distinct.values()])
    if record.matrix is not None:
        size += record.matrix.nbytes
    # The cost of dictionaries and small objects, measured with tracemalloc.
    return size + 1024 + 200 * (len(record.tensors) + len(record.scalars) + len(record.shapes))


@dataclass(slots=True)
class _Column:
    """One entry of the file: one tensor at some steps, equal in type and shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    rows: list[int] = field(default_factory=list)
    parts: list[Any] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)
    """Other tensors that were the very same at the very same steps."""

    def put(self, row: int, part: Any) -> None:
        if self.rows and self.rows[-1] == row:
            self.parts[-1] = part  # the same matrix twice in one step: the last one counts
        else:
            self.rows.append(row)
            self.parts.append(part)

    @property
    def content(self) -> tuple[Any, ...]:
        """Equal for columns that would put the same bytes in the file: they share the parts."""
        return self.dtype, self.shape, tuple(self.rows), tuple(map(id, self.parts))

    @property
    def itemsize(self) -> int:
        return int(RAW[STORED[self.dtype]].itemsize)

    @property
    def stored_shape(self) -> list[int]:
        pair = (2,) if self.dtype == "complex128" else ()
        return [len(self.rows), *self.shape, *pair]


class _Layout:
    """Sorts records into columns, then lays the columns out after a header."""

    def __init__(self, worker: str) -> None:
        self.skipped: list[Skipped] = []
        self._worker = worker
        self._steps: list[tuple[int, str, int, float]] = []
        self._columns: dict[tuple[str, str, tuple[int, ...]], _Column] = {}
        self._cubes: dict[tuple[tuple[str, ...], tuple[str, ...], str], _Column] = {}
        self._shapes: dict[tuple[tuple[str, tuple[int, ...]], ...], list[int]] = {}

    def add(self, merged: "_MergedStep") -> None:
        record, row = merged.record, len(self._steps)
        self._steps.append((record.step, record.mode, record.mode_step, record.time))
        known: dict[int, _Part] = {}
        for name, value in itertools.chain(record.tensors.items(), record.scalars.items()):
            try:
                if id(value) not in known:
                    known[id(value)] = _as_bytes(value)
                dtype, shape, part = known[id(value)]
            except (AttributeError, RuntimeError, TypeError, ValueError) as error:
                self.skipped.append(Skipped(name, record.step, str(error)))
                continue
            key = (name, dtype, shape)
            column = self._columns.get(key)
            if column is None:
                column = self._columns[key] = _Column(name, dtype, shape)
            column.put(row, part)
        for reduced, reductions, matrix in merged.matrices:
            self._add_matrix(row, reduced, reductions, matrix)
        if record.shapes:
            self._shapes.setdefault(tuple(record.shapes.items()), []).append(row)

    def finish(self) -> tuple[bytes, list[Any]]:
        """The header with its length in front, and the bytes that follow it, in order."""
        columns = self._by_entry()
        entries: dict[str, Any] = {"__metadata__": self._metadata(columns)}
        offset = 0
        for key, column in columns.items():
            shape = column.stored_shape
            end = offset + column.itemsize * math.prod(shape)
            entries[key] = {
                "dtype": STORED[column.dtype],
                "shape": shape,
                "data_offsets": [offset, end],
            }
            offset = end
        header = json.dumps(entries, separators=(",", ":")).encode()
        header += b" " * (-(8 + len(header)) % _ALIGNMENT)
        parts = [part for column in columns.values() for part in column.parts if len(part)]
        return struct.pack("<Q", len(header)) + header, parts

    def _add_matrix(
        self, row: int, reduced: tuple[str, ...], reductions: tuple[str, ...], matrix: Any
    ) -> None:
        dtype, shape, part = _as_bytes(matrix)
        if shape != (len(reduced), len(reductions)):
            reason = (
                f"a matrix of {shape} for {len(reduced)} tensors x {len(reductions)} reductions"
            )
            self.skipped.append(Skipped("reductions", self._steps[row][0], reason))
            return
        key = (reduced, reductions, dtype)
        if key not in self._cubes:
            self._cubes[key] = _Column(f"{CUBES}{len(self._cubes)}", dtype, shape)
        self._cubes[key].put(row, part)

    def _by_entry(self) -> dict[str, _Column]:
        """Entry name to column, in file order.

        A tensor's entry has its name; a second one of that name gets a number behind it.
        """
        named = {cube.name: cube for cube in self._cubes.values()}
        written: dict[tuple[Any, ...], _Column] = {}
        for column in self._columns.values():
            first = written.setdefault(column.content, column)
            if first is not column:
                first.aliases.append(column.name)
                continue
            plain = not column.name.startswith((CUBES, "__metadata__"))
            key = name = column.name if plain else f"tensor/{column.name}"
            numbers = itertools.count(2)
            while key in named:
                key = f"{name}@{next(numbers)}"
            named[key] = column
        # Wide elements first: every entry is then aligned though the format allows no padding.
        return dict(sorted(named.items(), key=lambda item: item[1].itemsize, reverse=True))

    def _metadata(self, columns: dict[str, _Column]) -> dict[str, str]:
        by_rows: dict[tuple[int, ...], list[str]] = {}
        for key, column in columns.items():
            if not key.startswith(CUBES):
                by_rows.setdefault(tuple(column.rows), []).append(key)
        described = {
            "worker": self._worker,
            "steps": self._steps,
            "tensors": [{"rows": rows, "entries": keys} for rows, keys in by_rows.items()],
            "names": {key: column.name for key, column in columns.items() if key != column.name},
            "aliases": {key: column.aliases for key, column in columns.items() if column.aliases},
            "pairs": [key for key, column in columns.items() if column.dtype == "complex128"],
            "reductions": [
                {"entry": cube.name, "rows": cube.rows, "tensors": tensors, "columns": reductions}
                for (tensors, reductions, _), cube in self._cubes.items()
            ],
            "shapes": [{"rows": rows, "shapes": dict(k)} for k, rows in self._shapes.items()],
        }
        return {"format": FORMAT, METADATA_KEY: json.dumps(described, separators=(",", ":"))}


@dataclass(frozen=True, slots=True)
class _MergedStep:
    record: StepRecord
    matrices: list[tuple[tuple[str, ...], tuple[str, ...], Any]]


def _one_per_step(records: Sequence[StepRecord]) -> list[_MergedStep]:
    """In the order of the steps; of a value filed twice, the later one counts."""
    steps: dict[int, _MergedStep] = {}
    for record in records:
        earlier = steps.get(record.step)
        matrices = [] if earlier is None else earlier.matrices
        if record.matrix is not None and len(record.reduced) and len(record.reductions):
            matrices.append((tuple(record.reduced), tuple(record.reductions), record.matrix))
        if earlier is not None:
            record = _merged(earlier.record, record)
        steps[record.step] = _MergedStep(record, matrices)
    return [steps[step] for step in sorted(steps)]


def _merged(first: StepRecord, second: StepRecord) -> StepRecord:
    kept = {k: v for k, v in first.tensors.items() if k not in second.scalars}
    scalars = {k: v for k, v in first.scalars.items() if k not in second.tensors}
    return replace(
        second,
        time=first.time,
        tensors=kept | second.tensors,
        scalars=scalars | second.scalars,
        shapes=first.shapes | second.shapes,
    )


_Part = tuple[str, tuple[int, ...], Array]


def _as_bytes(value: Any) -> _Part:
    """Type name, shape and the elements as flat bytes, sharing memory where it is contiguous."""
    if isinstance(value, float | int):
        value = np.array([value], np.float64)  # smdebug, too, gives a number back as shape (1,)
    name = _dtype_name(value.dtype)
    shape = tuple(value.shape)
    if not isinstance(value, np.ndarray):
        value = _from_torch(value, name)
    if not value.dtype.isnative:
        value = value.astype(value.dtype.newbyteorder("="))
    return name, shape, value.ravel().view(np.uint8)


@cache
def _dtype_name(dtype: Any) -> str:
    name = dtype.name if isinstance(dtype, np.dtype) else str(dtype).removeprefix("torch.")
    if name not in STORED:
        raise TypeError(f"elements of type {name!r} have no stored form")
    return str(name)


def _from_torch(value: Any, name: str) -> Array:
    if value.requires_grad:
        value = value.detach()
    if name == "bfloat16" or name.startswith("float8"):
        # Numpy lacks these. The tensor's maker imported torch; this module must not.
        value = value.contiguous().reshape(-1).view(sys.modules["torch"].uint8)
    array: Array = value.numpy()
    return array
