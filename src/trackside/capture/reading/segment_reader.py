"""Opens a segment: checks that it is whole, says what it holds, gives arrays without copying."""

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from trackside.capture.dtypes import NAMES, RAW, Array, as_numpy
from trackside.capture.writing.segments import FORMAT, METADATA_KEY

HEADER_LIMIT = 100 << 20
"""What safetensors itself allows."""


class TornSegment(ValueError):
    """The file is not a whole segment: cut short, overwritten, or something else altogether."""


class Entry(NamedTuple):  # a tuple because a long trial has a hundred thousand of them
    """One array of the file; its first axis is the step."""

    start: int
    end: int
    """Bytes from the beginning of the file."""
    dtype: str
    """The usual name: "bfloat16"."""
    stored_dtype: str
    stored_shape: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one step's tensor."""
        return self.stored_shape[1:-1] if self.dtype == "complex128" else self.stored_shape[1:]

    def view(self, data: Any, offset: int = 0) -> Array:
        """Users' form of the entry, from the file's bytes starting at `offset`."""
        kind = RAW[self.stored_dtype]
        raw: Array = np.ndarray(self.stored_shape, kind, data, self.start - offset)
        return as_numpy(raw, self.dtype)


class TensorRun(NamedTuple):
    name: str
    entry: Entry
    steps: Sequence[int]
    """Global steps along the entry's first axis, ascending: a range where that says it all."""


@dataclass(frozen=True, slots=True)
class ReductionRun:
    """Reductions [step, tensor, column] of many tensors at once."""

    entry: Entry
    steps: Sequence[int]
    tensors: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShapeRun:
    steps: Sequence[int]
    shapes: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class SegmentContents:
    worker: str
    steps: tuple[tuple[int, str, int, float], ...]
    """Global step, mode, mode step, time."""
    tensors: tuple[TensorRun, ...]
    reductions: tuple[ReductionRun, ...]
    shapes: tuple[ShapeRun, ...]


def header_size(beginning: bytes, file_size: int) -> int:
    """Bytes in front of the data, from the first eight; `TornSegment` when that cannot be."""
    if len(beginning) < 8:
        raise TornSegment(f"only {len(beginning)} bytes")
    (length,) = struct.unpack_from("<Q", beginning)
    if length > HEADER_LIMIT or 8 + length > file_size:
        raise TornSegment(f"a header of {length} bytes in a file of {file_size}")
    return 8 + int(length)


def parse_header(header: bytes, file_size: int) -> SegmentContents:
    """What the file holds. `header` are its first `header_size` bytes."""
    try:
        entries = json.loads(header[8:])
        metadata = entries.pop("__metadata__")
        if metadata["format"] != FORMAT:
            raise TornSegment(f"of format {metadata['format']!r}, not {FORMAT!r}")
        described = json.loads(metadata[METADATA_KEY])
        return _contents(_entries(entries, described["pairs"], len(header), file_size), described)
    except (AttributeError, KeyError, IndexError, TypeError, UnicodeError) as error:
        raise TornSegment(f"an unreadable header ({error})") from error
    except json.JSONDecodeError as error:
        raise TornSegment(f"an unreadable header ({error})") from error


def _entries(
    listed: Mapping[str, Any], pairs: Sequence[str], data_start: int, file_size: int
) -> dict[str, Entry]:
    complex_entries = frozenset(pairs)
    entries, expected = {}, data_start
    for key, item in listed.items():
        start, end = item["data_offsets"]
        stored, shape = item["dtype"], tuple(item["shape"])
        size = RAW[stored].itemsize * math.prod(shape)
        if data_start + start != expected or end - start != size:
            raise TornSegment(f"entry {key!r} at bytes {start} to {end}, with shape {list(shape)}")
        expected = data_start + end
        dtype = "complex128" if key in complex_entries else NAMES[stored]
        entries[key] = Entry(data_start + start, data_start + end, dtype, stored, shape)
    if expected != file_size:
        raise TornSegment(f"{file_size} bytes where the header promises {expected}")
    return entries


def _contents(entries: Mapping[str, Entry], described: Mapping[str, Any]) -> SegmentContents:
    steps = tuple([(int(s), str(m), int(ms), float(t)) for s, m, ms, t in described["steps"]])
    numbers = [step for step, *_ in steps]
    if any(first >= second for first, second in pairwise(numbers)):
        raise TornSegment(f"steps out of order, {numbers}")
    renamed, aliases = described["names"], described.get("aliases", {})
    tensors = []
    for group in described["tensors"]:
        at = _steps(numbers, group["rows"])
        for key in group["entries"]:
            names = (renamed.get(key, key), *aliases.get(key, ()))
            tensors += [TensorRun(name, entries[key], at) for name in names]
    if any(run.entry.stored_shape[:1] != (len(run.steps),) for run in tensors):
        raise TornSegment("an entry with more or fewer steps than it says")
    reductions = [
        ReductionRun(
            entries[cube["entry"]],
            _steps(numbers, cube["rows"]),
            tuple(cube["tensors"]),
            tuple(cube["columns"]),
        )
        for cube in described["reductions"]
    ]
    shapes = [
        ShapeRun(
            _steps(numbers, group["rows"]),
            {name: tuple(shape) for name, shape in group["shapes"].items()},
        )
        for group in described["shapes"]
    ]
    return SegmentContents(
        str(described["worker"]), steps, tuple(tensors), tuple(reductions), tuple(shapes)
    )


def _steps(numbers: Sequence[int], rows: Sequence[int]) -> Sequence[int]:
    if not rows or any(first >= second for first, second in pairwise(rows)) or rows[0] < 0:
        raise TornSegment(f"rows {rows}, which are not ascending")
    steps = [numbers[row] for row in rows]
    stride = steps[1] - steps[0] if len(steps) > 1 else 1
    evenly = range(steps[0], steps[-1] + 1, stride)
    return evenly if steps == [*evenly] else tuple(steps)
