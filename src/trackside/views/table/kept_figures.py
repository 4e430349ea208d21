"""What was made of a large trial, kept in the cache folder once its job has ended: opening a trial
with a million saved arrays takes seconds, and so does computing a figure of each.

A cache: it may be removed at any time, and whatever cannot be read is made again.
"""

import hashlib
import json
import logging
import math
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from trackside.capture.reading.cube import Cube
from trackside.capture.trial import Trial
from trackside.files import durable
from trackside.jobs.records import Record
from trackside.records.layout import Home

logger = logging.getLogger(__name__)

LEAST_ARRAYS = 20_000
"""Of a trial that is worth keeping: with fewer, it is opened at once."""
MOST_JOBS = 100
"""The folders of those that were kept first are removed."""
_FORMAT = 1
_ALIGNMENT = 64


class KeptFigures:
    """All methods may be called from several threads and processes."""

    def __init__(self, home: Home, least_arrays: int = LEAST_ARRAYS) -> None:
        self._home = home
        self._least_arrays = least_arrays

    def is_worth_keeping(self, record: Record, trial: Trial) -> bool:
        if not record.history.state.is_final:
            return False
        count = 0
        for _, each in trial.tensor_records():
            count += sum(1 for _ in each.runs)
            if count >= self._least_arrays:
                return True
        return False

    def fact(self, record: Record, name: str) -> Any | None:
        """JSON that was kept under this name; None if there is none."""
        if not record.history.state.is_final:
            return None
        try:
            kept = json.loads(self._path(record, name).read_bytes())
            return kept["fact"] if kept["identity"] == _identity(record, name) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep_fact(self, record: Record, name: str, fact: Any) -> None:
        content = {"identity": _identity(record, name), "fact": fact}
        self._write(self._path(record, name), json.dumps(content).encode())

    def cube(self, record: Record, name: str) -> Cube | None:
        if not record.history.state.is_final:
            return None
        try:
            return _decoded(self._path(record, name), _identity(record, name))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep_cube(self, record: Record, name: str, cube: Cube) -> None:
        self._write(self._path(record, name), _encoded(cube, _identity(record, name)))

    def _path(self, record: Record, name: str) -> Path:
        digest = hashlib.sha256(name.encode()).hexdigest()[:24]
        return self._home.figures_of(record.spec.name) / digest

    def _write(self, path: Path, data: bytes) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            durable.write_bytes(path, data, spends_ballast=False, lasts=False)
            _remove_oldest(path.parent.parent)
        except OSError as error:  # it is only a cache
            logger.warning("figures of tensors were not kept at %s: %s", path, error)


def _identity(record: Record, name: str) -> list[Any]:
    return [_FORMAT, record.spec.name, record.history.created, name]


def _encoded(cube: Cube, identity: Sequence[Any]) -> bytes:
    """A header of JSON, padded, then the values and where there are any."""
    head = {"identity": identity, "names": cube.names, "steps": cube.steps}
    header = json.dumps(head).encode()
    size = _aligned(8 + len(header))
    values, saved = np.ascontiguousarray(cube.values), np.ascontiguousarray(cube.saved)
    start = len(header).to_bytes(8, "little") + header
    return b"".join([start.ljust(size, b" "), values.tobytes(), saved.tobytes()])


def _decoded(path: Path, identity: Sequence[Any]) -> Cube | None:
    data = np.memmap(path, np.uint8, "r")
    length = int.from_bytes(data[:8].tobytes(), "little")
    head = json.loads(data[8 : 8 + length].tobytes())
    if head["identity"] != identity:
        return None
    steps, names = tuple(head["steps"]), tuple(head["names"])
    shape = (len(steps), len(names))
    start, count = _aligned(8 + length), math.prod(shape)
    if len(data) != start + 9 * count:
        return None
    values = data[start : start + 8 * count].view(np.float64).reshape(shape)
    saved = data[start + 8 * count :].view(bool).reshape(shape)
    return Cube(steps, names, values, saved)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _remove_oldest(folder: Path) -> None:
    paths = list(folder.iterdir())
    if len(paths) > MOST_JOBS:
        with suppress(OSError):
            paths.sort(key=lambda path: path.stat().st_mtime)
            for path in paths[:-MOST_JOBS]:
                shutil.rmtree(path, ignore_errors=True)


def kept_or_made(
    kept: KeptFigures, record: Record, trial: Trial, name: str, make: Callable[[Trial], Any]
) -> Any:
    """JSON about an open trial, which is kept if that is worth it."""
    fact = make(trial)
    if kept.is_worth_keeping(record, trial):
        kept.keep_fact(record, name, fact)
    return fact
