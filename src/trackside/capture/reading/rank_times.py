"""Reads how long the training steps of each process took: `steps/rank_times.py` writes it."""

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from trackside.capture.dtypes import Array
from trackside.capture.reading.trial_folder import FoundFile, TrialFolder
from trackside.capture.trial_layout import RANKS, is_worker_name
from trackside.errors import ObjectNotFound
from trackside.files import damaged_files
from trackside.files.json_record import DamagedRecord, parsed_object
from trackside.quick_dataclass import dataclass

if TYPE_CHECKING:
    from trackside.capture.trial import Trial

_FILE = re.compile(re.escape(RANKS) + r"([^/]+)\.json")
_MOST_WORKERS = 4096


@dataclass(frozen=True, slots=True)
class WorkerTimes:
    """Rows in the order of steps; each covers some."""

    worker: str
    host: str
    first: Array
    last: Array
    count: Array
    """Of steps."""
    seconds: Array
    """Of all of them."""
    longest: Array
    """Seconds of the longest one."""
    wait: Array
    """Seconds of waiting in a step; NaN where that was not measured."""


def read_rank_times(folder: TrialFolder) -> list[WorkerTimes]:
    """Of all workers, by rank. A damaged file is left out."""
    found: list[WorkerTimes] = []
    for file, worker in rank_files(folder):
        try:
            content = parsed_object(folder.read(file.name))
            found.append(_parsed(worker, str(content.get("host", "")), content["rows"]))
        except (DamagedRecord, LookupError, TypeError, ValueError) as error:
            damaged_files.say_once(file.name, f"{error}; it is left out")
        except (FileNotFoundError, ObjectNotFound):
            continue
    return sorted(found, key=lambda times: rank_of(times.worker))


def rank_files(folder: TrialFolder) -> list[tuple[FoundFile, str]]:
    """Each with the name of its worker."""
    found = [(file, _FILE.fullmatch(file.name)) for file in folder.list(RANKS)]
    named = [(file, matched[1]) for file, matched in found if matched is not None]
    return [each for each in named if is_worker_name(each[1])][:_MOST_WORKERS]


def ranks_of(trial: "Trial") -> list[str]:
    """All processes of the group that are known: also those that have saved no tensors."""
    files = TrialFolder(trial.location).list(RANKS)
    named = {found[1] for file in files if (found := _FILE.fullmatch(file.name))}
    return sorted({*trial.workers(), *filter(is_worker_name, named)}, key=rank_of)


def rank_of(worker: str) -> tuple[float, str]:
    """`worker_10` after `worker_9`."""
    digits = re.search(r"\d+", worker)
    return (int(digits[0]) if digits else math.inf, worker)


def _parsed(worker: str, host: str, rows: Sequence[Sequence[float]]) -> WorkerTimes:
    table = np.array(rows, np.float64).reshape(len(rows), 7)
    if not np.isfinite(table).all():
        raise ValueError("it has rows that are not finite")
    first, last, count, seconds, longest, wait, num_waits = table.T
    with np.errstate(divide="ignore", invalid="ignore"):
        waits = np.where(num_waits > 0, wait / num_waits, np.nan)
    return WorkerTimes(
        worker, host[:200], first, last, np.maximum(count, 1), seconds, longest, waits
    )
