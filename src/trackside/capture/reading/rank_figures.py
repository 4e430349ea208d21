"""Reads what every process of a group recorded about itself: `steps/rank_figures.py` writes it."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from trackside.capture.dtypes import Array
from trackside.capture.reading.rank_times import rank_files, rank_of
from trackside.capture.reading.trial_folder import TrialFolder
from trackside.errors import ObjectNotFound
from trackside.files import damaged_files
from trackside.files.json_record import DamagedRecord, parsed_object, record
from trackside.quick_dataclass import dataclass

_SAMPLE, _MACHINE = 11, 3
"""Members of a sample's row; and those that older files do not have."""


@dataclass(frozen=True, slots=True)
class RankFacts:
    """As `capture/model/replicas.py` explains them."""

    num_steps: int = 0
    num_updates: int = 0
    num_called: int = 0
    num_past: int = 0
    num_unsynced: int = 0
    num_synced_too_early: int = 0
    has_hook: bool = False
    keeps_buffers: bool = False
    joins: bool = False
    is_sharded: bool = False
    group: tuple[int, ...] = ()
    num_collectives: int | None = None
    hardware: str = ""


@dataclass(frozen=True, slots=True)
class Sample:
    """A training step of one rank; `number` counts those from 0."""

    number: int
    step: int
    num_updates: int
    """Before it."""
    clock_seconds: float
    """When it began, by a clock of the process."""
    own_seconds: float
    """Up to it, from the end of each update to the next backward."""
    data_seconds: float
    """Up to it, within data loaders."""
    cpu_seconds: float
    """Of the process, up to it."""
    loss: float | None
    gradient_norm: float | None
    """As the update used it."""
    fingerprint: int | None
    """Of the batch."""
    rates: tuple[float, ...]
    disk_bytes: float = 0.0
    """Up to it, read from and written to disks by the process."""
    network_bytes: float = 0.0
    """Up to it, over the network of the host."""
    queued_seconds: float = 0.0
    """Up to it, in which the main thread was ready to run and had no processor."""


@dataclass(frozen=True, slots=True)
class ComparedTensor:
    name: str
    role: str
    """`shared`: a parameter within DDP; `own`: another one; `synced`: a statistic of SyncBatchNorm;
    `buffer`."""
    numel: int
    dtype: str


@dataclass(frozen=True, slots=True)
class Check:
    """Weights before the training step `number`."""

    number: int
    step: int
    num_updates: int
    digest: int
    """Of all tensors but plain buffers."""


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    worker: str
    host: str = ""
    facts: RankFacts = RankFacts()
    samples: Mapping[int, Sample] = field(default_factory=dict)
    """By number."""
    tensors: tuple[ComparedTensor, ...] = ()
    checks: Mapping[int, Check] = field(default_factory=dict)
    hashes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Of each tensor, of the newest checks."""

    @property
    def rank(self) -> int:
        return int(rank_of(self.worker)[0])

    def curve(self, figure: str) -> tuple[Array, Array]:
        """Steps and values of one figure of the samples, where it is known."""
        known = [
            (sample.step, value)
            for sample in self.samples.values()
            if (value := getattr(sample, figure)) is not None
        ]
        steps, values = np.array(known, np.float64).reshape(len(known), 2).T
        return steps, values


class RankFigureFiles:
    """For repeated reads: a file is parsed only when it has changed."""

    def __init__(self, folder: TrialFolder) -> None:
        self._folder = folder
        self._known: dict[str, tuple[str | None, WorkerFigures | None]] = {}

    def read(self) -> list[WorkerFigures]:
        """Of all workers, by rank. A damaged file is left out."""
        found = []
        for file, worker in rank_files(self._folder):
            known = self._known.get(file.name)
            if known is None or known[0] is None or known[0] != file.etag:
                known = self._known[file.name] = (file.etag, self._parsed(file.name, worker))
            if known[1] is not None:
                found.append(known[1])
        return sorted(found, key=lambda each: each.rank)

    def _parsed(self, name: str, worker: str) -> WorkerFigures | None:
        try:
            content = parsed_object(self._folder.read(name))
            return parse_figures(worker, content) if "samples" in content else None
        except (DamagedRecord, LookupError, TypeError, ValueError) as error:
            damaged_files.say_once(name, f"{error}; its figures are left out")
        except (FileNotFoundError, ObjectNotFound):
            pass
        return None


def parse_figures(worker: str, content: Mapping[str, Any]) -> WorkerFigures:
    samples = [_sample(row) for row in content["samples"]]
    checks = [Check(*map(int, row)) for row in content["checks"]]
    tensors = tuple(
        ComparedTensor(str(name), str(role), int(numel), str(dtype))
        for name, role, numel, dtype in content["tensors"]
    )
    hashes = {int(number): tuple(map(int, row)) for number, row in content["hashes"]}
    return WorkerFigures(
        worker,
        str(content.get("host", ""))[:200],
        record(RankFacts, content["facts"]),
        {sample.number: sample for sample in samples},
        tensors,
        {check.number: check for check in checks},
        {number: row for number, row in hashes.items() if len(row) == len(tensors)},
    )


def _sample(row: Sequence[Any]) -> Sample:
    if len(row) not in (_SAMPLE, _SAMPLE + _MACHINE):
        raise ValueError(f"a sample has {len(row)} members, not {_SAMPLE + _MACHINE}")
    number, step, updates, clock, own, data, cpu, loss, norm, fingerprint, rates = row[:_SAMPLE]
    return Sample(
        *(int(number), int(step), int(updates)),
        *(float(clock), float(own), float(data), float(cpu)),
        None if loss is None else float(loss),
        None if norm is None else float(norm),
        None if fingerprint is None else int(fingerprint),
        tuple(map(float, rates)),
        *map(float, row[_SAMPLE:]),
    )
