"""Opens a segment: checks that it is complete, lists its content, returns arrays without copies."""

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np

from trackside.capture.dtypes import NAMES, RAW, Array, as_numpy
from trackside.capture.modes import ModeKeys
from trackside.capture.writing.segments import FORMAT, METADATA_KEY
from trackside.files.json_record import DamagedRecord, parsed
from trackside.quick_dataclass import dataclass

HEADER_LIMIT = 32 << 20
"""A hundred times what a large model needs. Parsed, it may take some twenty times as much memory;
safetensors itself allows 100 MB.
"""
MOST = 1 << 62
"""No step, and no size of an axis, is as large: their sums and products fit into 64 bits."""
_MOST_AXES = 64 if int(np.__version__.partition(".")[0]) > 1 else 32
"""The limit of numpy."""


class TornSegment(ValueError):
    """The file is not a complete segment: cut short, overwritten, or something else altogether."""


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
        try:
            raw: Array = np.ndarray(self.stored_shape, kind, data, self.start - offset)
        except (TypeError, ValueError) as error:  # the file was cut since its header was read
            raise DamagedRecord(f"a file without its data ({error})") from error
        return as_numpy(raw, self.dtype)


class TensorRun(NamedTuple):
    name: str
    entry: Entry
    steps: Sequence[int]
    """Global steps along the entry's first axis, ascending: a range if they are evenly spaced."""


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
    """Bytes before the data, from the first eight; `TornSegment` if invalid."""
    if len(beginning) < 8:
        raise TornSegment(f"only {len(beginning)} bytes")
    (length,) = struct.unpack_from("<Q", beginning)
    if length > HEADER_LIMIT or 8 + length > file_size:
        raise TornSegment(f"a header of {length} bytes in a file of {file_size}")
    return 8 + int(length)


def parse_header(header: bytes, file_size: int) -> SegmentContents:
    """The file's content. `header` are its first `header_size` bytes.

    Everything is validated, since the file is untrusted: each listed array can be read.
    """
    try:
        entries = parsed(header[8:])
        metadata = entries.pop("__metadata__")
        if metadata["format"] != FORMAT:
            raise TornSegment(f"of format {str(metadata['format'])[:40]!r}, not {FORMAT!r}")
        described = parsed(metadata[METADATA_KEY])
        return _contents(_entries(entries, described["pairs"], len(header), file_size), described)
    except TornSegment:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise TornSegment(f"an unreadable header ({str(error)[:200]})") from error


def _entries(
    listed: Mapping[str, Any], pairs: Sequence[str], data_start: int, file_size: int
) -> dict[str, Entry]:
    complex_entries = frozenset(pairs)
    entries, expected = {}, data_start
    items = listed.values()
    _numbers([n for item in items for n in (*item["data_offsets"], *item["shape"])])
    for key, item in listed.items():
        start, end = item["data_offsets"]
        stored, shape = item["dtype"], tuple(item["shape"])
        itemsize = RAW[stored].itemsize
        size = itemsize * math.prod(shape)
        if not size or len(shape) > _MOST_AXES:
            _check_shape(shape, itemsize)
        if data_start + start != expected or end - start != size:
            raise TornSegment(f"entry {key[:80]!r} at bytes {start} to {end}, of size {size}")
        expected = data_start + end
        dtype = "complex128" if key in complex_entries else NAMES[stored]
        if dtype == "complex128" and (stored != "F64" or len(shape) < 2 or shape[-1] != 2):
            raise TornSegment(f"entry {key[:80]!r}, which is not an array of pairs")
        entries[key] = Entry(data_start + start, data_start + end, dtype, stored, shape)
    if expected != file_size:
        raise TornSegment(f"{file_size} bytes where the header promises {expected}")
    return entries


def _check_shape(shape: tuple[int, ...], itemsize: int) -> None:
    """`TornSegment` when numpy cannot have such an array."""
    if len(shape) > _MOST_AXES:
        raise TornSegment(f"an entry of {len(shape)} axes")
    if itemsize * math.prod(filter(None, shape)) > MOST:  # though nothing is in it
        raise TornSegment("an empty entry of impossible shape")


def _contents(entries: Mapping[str, Entry], described: Mapping[str, Any]) -> SegmentContents:
    steps = tuple([_step(*row) for row in described["steps"]])
    numbers = [step for step, *_ in steps]
    if any(first >= second for first, second in pairwise(numbers)):
        raise TornSegment("steps out of order")
    renamed, aliases = described["names"], described.get("aliases", {})
    _texts([*entries, *renamed.values(), *chain.from_iterable(aliases.values())])
    tensors: list[TensorRun] = []
    for group in described["tensors"]:
        at = _steps(numbers, group["rows"])
        for key in group["entries"]:
            names = (renamed.get(key, key), *aliases.get(key, ()))
            tensors += [TensorRun(name, entries[key], at) for name in names]
    if any(run.entry.stored_shape[:1] != (len(run.steps),) for run in tensors):
        raise TornSegment("an entry with more or fewer steps than it declares")
    reductions = [_reductions(entries, numbers, cube) for cube in described["reductions"]]
    shapes = [
        ShapeRun(
            _steps(numbers, group["rows"]),
            {name: tuple(shape) for name, shape in group["shapes"].items()},
        )
        for group in described["shapes"]
    ]
    for run in shapes:
        _texts(run.shapes)
        _numbers([size for shape in run.shapes.values() for size in shape])
    (worker,) = _texts([described["worker"]])
    return SegmentContents(worker, steps, tuple(tensors), tuple(reductions), tuple(shapes))


def _step(step: int, mode: str, mode_step: int, time: float) -> tuple[int, str, int, float]:
    is_numbered = type(step) is type(mode_step) is int and 0 <= step < MOST
    if not is_numbered or abs(mode_step) >= MOST or mode not in ModeKeys.__members__:
        raise TornSegment("a step with impossible values")
    if type(time) not in (int, float) or not -MOST < time < MOST:
        raise TornSegment(f"step {step} without a valid time")
    return step, mode, mode_step, float(time)


def _reductions(
    entries: Mapping[str, Entry], numbers: Sequence[int], cube: Mapping[str, Any]
) -> ReductionRun:
    entry, steps = entries[cube["entry"]], _steps(numbers, cube["rows"])
    tensors, columns = _texts(cube["tensors"]), _texts(cube["columns"])
    if entry.stored_shape != (len(steps), len(tensors), len(columns)):
        raise TornSegment(f"reductions of shape {list(entry.stored_shape)[:4]}")
    if entry.dtype not in ("float32", "float64"):
        raise TornSegment(f"reductions of type {entry.dtype}")
    return ReductionRun(entry, steps, tensors, columns)


def _steps(numbers: Sequence[int], rows: Sequence[int]) -> Sequence[int]:
    _numbers(rows)
    if not rows or any(first >= second for first, second in pairwise(rows)):
        raise TornSegment("rows that are not ascending")
    steps = [numbers[row] for row in rows]
    stride = steps[1] - steps[0] if len(steps) > 1 else 1
    if any(second - first != stride for first, second in pairwise(steps)):
        return tuple(steps)
    return range(steps[0], steps[-1] + 1, stride)


def _numbers(values: Sequence[int]) -> None:
    """`TornSegment` unless all are integers, not negative, and within limits."""
    if values and ({*map(type, values)} != {int} or min(values) < 0 or max(values) >= MOST):
        raise TornSegment("values that are not numbers")


def _texts(values: Iterable[str]) -> tuple[str, ...]:
    """An error unless all are strings."""
    texts = tuple(values)
    "".join(texts)
    return texts
