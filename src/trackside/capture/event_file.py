"""Writes TensorBoard event files: scalars and histograms, with real checksums, no protobuf needed.

The format is TFRecord around `tensorflow.Event`; field numbers are those of event.proto and
summary.proto.
"""

import os
import re
import socket
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np

from trackside.capture.crc32c import masked_crc32c

_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5


def _edges() -> Any:
    """TensorFlow's default buckets: 0 and powers of 1.1 from 1e-12 to 1e20, both signs."""
    positive = 1e-12 * 1.1 ** np.arange(775)
    positive = positive[positive < 1e20]
    return np.concatenate([-positive[::-1], [0.0], positive])


EDGES = _edges()


class EventFile:
    """One append-only file. `flush` after each batch, so that TensorBoard sees it live."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}"
        self._file = open(folder / name, "ab")  # noqa: SIM115 closed by close()
        if self._file.tell() == 0:
            self._write(_field(3, _BYTES, b"brain.Event:2"), 0, time.time())

    def add_scalar(self, tag: str, value: float, step: int, at: float) -> None:
        self._write(_summary(tag, _field(2, _FLOAT, value)), step, at)

    def add_histogram(self, tag: str, values: Any, step: int, at: float) -> None:
        """`values` is a flat float64 array; what is not finite has no place in a histogram."""
        finite = values[np.isfinite(values)]
        if finite.size:
            self._write(_summary(tag, _field(5, _BYTES, _histogram(finite))), step, at)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _write(self, content: bytes, step: int, at: float) -> None:
        event = _field(1, _DOUBLE, at) + _field(2, _VARINT, step) + content
        length = struct.pack("<Q", len(event))
        self._file.write(
            length
            + struct.pack("<I", masked_crc32c(length))
            + event
            + struct.pack("<I", masked_crc32c(event))
        )


def clean_tag(name: str) -> str:
    return re.sub(r"[^-/\w.]", "_", name).lstrip("/")


def _summary(tag: str, value: bytes) -> bytes:
    labelled = _field(1, _BYTES, clean_tag(tag).encode()) + value
    return _field(5, _BYTES, _field(1, _BYTES, labelled))


def _histogram(values: Any) -> bytes:
    counts, _ = np.histogram(values, bins=np.concatenate([EDGES, [np.inf]]))
    limits = np.concatenate([EDGES[1:], [np.finfo(np.float64).max]])
    below = int((values < EDGES[0]).sum())
    counts[0] += below
    used = np.flatnonzero(counts)
    # TensorBoard wants the empty bucket in front of the first full one, as the left edge.
    window = slice(max(0, used[0] - 1), used[-1] + 1)
    numbers = (values.min(), values.max(), values.size, values.sum(), np.dot(values, values))
    return (
        b"".join(_field(place, _DOUBLE, float(n)) for place, n in enumerate(numbers, start=1))
        + _field(6, _BYTES, limits[window].astype("<f8").tobytes())
        + _field(7, _BYTES, counts[window].astype("<f8").tobytes())
    )


def _field(number: int, kind: int, value: Any) -> bytes:
    key = _varint(number << 3 | kind)
    match kind:
        case 0:
            return key + _varint(value)
        case 1:
            return key + struct.pack("<d", value)
        case 5:
            return key + struct.pack("<f", value)
    return b"".join((key, _varint(len(value)), value))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
