"""The binary frame of the page: a JSON header and arrays behind it, each at a multiple of 8 bytes.

    "TSB1", u32 little-endian length n of the header, n bytes of JSON, zeros up to 8 bytes,
    then the arrays, each followed by zeros up to 8 bytes

The header is `{"items": [{..., "arrays": {name: [offset, count, type]}}]}`; offsets are from the
first array's byte, and the type is numpy's: f8, f4, i8, i4, u1. A stream has several frames, one
after the other.
"""

import json
import math
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy
from numpy.typing import NDArray

MAGIC = b"TSB1"
CONTENT_TYPE = "application/vnd.trackside.frame"
_HEAD = struct.Struct("<4sI")
_ALIGNMENT = 8
_TYPES = {"f8": "<f8", "f4": "<f4", "i8": "<i8", "i4": "<i4", "u1": "u1"}
"""What the header calls them, and what they are."""

Item = dict[str, Any]
"""Values that JSON has, and under `arrays` one-dimensional arrays by name."""


class NotAFrame(ValueError):
    """The bytes are no frame, or not a whole one."""


def encode(items: Iterable[Mapping[str, Any]]) -> bytes:
    """One frame with all items. Numbers that JSON lacks become their names."""
    described: list[Item] = []
    parts: list[bytes] = []
    at = 0
    for item in items:
        arrays = {}
        for name, array in item["arrays"].items():
            kind, data = _packed(array)
            arrays[name] = [at, len(array), kind]
            parts.append(data)
            at += len(data)
        described.append({**as_json(item, leave="arrays"), "arrays": arrays})
    header = json.dumps({"items": described}, separators=(",", ":"), allow_nan=False).encode()
    head = _HEAD.pack(MAGIC, len(header)) + header
    return b"".join([head, _padding(len(head)), *parts])


def decode(data: bytes) -> list[Item]:
    """The items of every frame in the bytes, with their arrays."""
    return [item for frame in _frames(data) for item in frame]


def as_json(value: Any, leave: str = "") -> Any:
    """The same with "NaN", "Infinity" and "-Infinity" for the numbers that JSON lacks."""
    if isinstance(value, float) and not math.isfinite(value):
        return number_name(value)
    if isinstance(value, Mapping):
        return {key: as_json(each) for key, each in value.items() if key != leave}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    return value


def number_name(value: float) -> float | str:
    """A number of the contract (`Num`)."""
    if math.isfinite(value):
        return float(value)
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _packed(array: NDArray[Any]) -> tuple[str, bytes]:
    kind = f"{array.dtype.kind}{array.dtype.itemsize}"
    if kind not in _TYPES or array.ndim != 1:
        raise TypeError(f"A frame has no arrays of {array.dtype} with {array.ndim} dimensions.")
    data = numpy.ascontiguousarray(array, dtype=_TYPES[kind]).tobytes()
    return kind, data + _padding(len(data))


def _padding(size: int) -> bytes:
    return bytes(-size % _ALIGNMENT)


def _frames(data: bytes) -> Iterator[list[Item]]:
    at = 0
    while at < len(data):
        items, size = _frame(data[at:])
        yield items
        at += size


def _frame(data: bytes) -> tuple[list[Item], int]:
    """Items, and how many bytes the frame has."""
    if len(data) < _HEAD.size or data[:4] != MAGIC:
        raise NotAFrame(f"no frame starts with {data[:4]!r}")
    (_, size) = _HEAD.unpack_from(data)
    end = _HEAD.size + size
    items: list[Item] = json.loads(data[_HEAD.size : end])["items"]
    first = last = end + -end % _ALIGNMENT
    for item in items:
        for name, (offset, count, kind) in item["arrays"].items():
            array = numpy.frombuffer(data, _TYPES[kind], count, first + offset)
            item["arrays"][name] = array
            stop = first + offset + array.nbytes
            last = max(last, stop + -stop % _ALIGNMENT)
    return items, last
