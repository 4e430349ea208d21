"""Event files of a million points in a second, written by numpy: the bytes that `EventFile` writes.

The values lie beside them, for checks of what is drawn.
"""

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trackside.curves import records, wire
from trackside.curves.event_file import EventFile

BEGAN = 1.7e9
SECONDS = 0.01
"""Between two points."""
TAG = "loss"
NUM_SPIKES = 1000
_WIDTHS = ((1, 1 << 7), (1 << 7, 1 << 14), (1 << 14, 1 << 21))
"""Steps whose numbers have one, two and three bytes."""
Bytes = npt.NDArray[np.uint8]


def values_of(seed: int, num_points: int) -> npt.NDArray[np.float32]:
    """A noisy descent with a thousand spikes of one point each; the first is that of step 1."""
    rng = np.random.default_rng(seed)
    falling = (2 + seed % 7) * np.exp(-np.linspace(0, 4, num_points)) + 0.1 * seed
    values = falling + 0.05 * rng.standard_normal(num_points)
    places = rng.choice(num_points, min(NUM_SPIKES, num_points // 20), replace=False)
    values[places] += rng.uniform(-2, 2, len(places))
    return values.astype(np.float32)


def write_run(folder: Path, values: npt.NDArray[np.float32]) -> Path:
    """One curve, from step 1 on."""
    file = EventFile(folder)
    file.close()
    with file.path.open("ab") as target:
        for first, end in _WIDTHS:
            steps = np.arange(first, min(end, len(values) + 1))
            if len(steps):
                target.write(_records(steps, values[steps[0] - 1 : steps[-1]]).tobytes())
    return file.path


def append_point(folder: Path, value: float) -> None:
    """To the only event file of a folder."""
    [path] = folder.iterdir()
    step = int(time.time())  # later than all there are
    file = EventFile.reopen(path, path.stat().st_size)
    file.add((TAG, value, step, time.time()))
    file.close()


def copy_run(path: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    shutil.copyfile(path, folder / path.name)


def _records(steps: npt.NDArray[np.int64], values: npt.NDArray[np.float32]) -> Bytes:
    """[steps, bytes of a record]; all steps have the same number of bytes."""
    sample = records.frame(wire.event(BEGAN, int(steps[0]), _summary(0.0)))
    rows = np.tile(np.frombuffer(sample, np.uint8), (len(steps), 1))
    content = rows[:, records.HEADER_BYTES : -records.FOOTER_BYTES]
    content[:, 1:9] = _raw(BEGAN + SECONDS * steps, "<f8")
    for byte in range(len(wire.integer(2, int(steps[0]))) - 1):
        is_more = int(steps[0]) >> (7 * (byte + 1)) > 0
        content[:, 10 + byte] = (steps >> (7 * byte) & 0x7F) | (0x80 if is_more else 0)
    content[:, -4:] = _raw(values, "<f4")
    rows[:, -4:] = _raw(_masked(_crc32c(content)), "<u4")
    return rows


def _summary(value: float) -> bytes:
    return wire.summary(wire.simple_value(TAG, value))


def _raw(numbers: npt.NDArray[Any], kind: str) -> Bytes:
    return np.ascontiguousarray(numbers.astype(kind)).view(np.uint8).reshape(len(numbers), -1)


def _crc32c(rows: Bytes) -> npt.NDArray[np.uint32]:
    table = np.array(records.TABLE, np.uint32)
    crc = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    for column in rows.T:
        crc = table[(crc ^ column) & 0xFF] ^ (crc >> 8)
    return crc ^ np.uint32(0xFFFFFFFF)


def _masked(crc: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    return ((crc >> 15) | (crc << 17)) + np.uint32(records.MASK_DELTA)
