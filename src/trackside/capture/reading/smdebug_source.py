"""Finds what is new in a trial written by smdebug: index files that point into event files."""

import logging
import re
import time
from typing import Any

from trackside.capture.dtypes import Array
from trackside.capture.modes import ModeKeys
from trackside.capture.reading.segment_reader import MOST
from trackside.capture.reading.smdebug_record import MissingEventFile, read_tensor
from trackside.capture.reading.step_table import StepTable
from trackside.capture.reading.tensor_index import CubeRun, Run, ShapeRun, TensorIndex
from trackside.capture.reading.trial_folder import FoundFile, TrialFolder
from trackside.capture.trial_layout import END_MARKER
from trackside.errors import ObjectNotFound
from trackside.files.json_record import DamagedRecord, parsed, record
from trackside.quick_dataclass import dataclass

logger = logging.getLogger(__name__)

INDEX = "index/"
RETRY_SECONDS = 2.0
"""Between two checks for an event file that is not there yet."""
_INDEX_FILE = re.compile(r"index/\d{9}/(\d{12})_(.+)\.json")
_EVENT_FILE = re.compile(r"events/\d{12}/[^/]+\.tfevents")
_REDUCTION = re.compile(r"smdebug/reductions/([^/]+)/(.+)")


@dataclass(frozen=True, slots=True)
class EventBlock:
    """One record of an event file, as a block of one step."""

    folder: TrialFolder
    file: FoundFile
    start: int
    end: int
    is_reduction: bool = False
    num_retries: int = 0

    def read(self) -> Array:
        _, value = self._tensor()
        if not self.is_reduction:
            return value[None]
        if value.size != 1:
            raise DamagedRecord(f"a reduction of {value.size} elements")
        return value.reshape(1, 1, 1)

    @property
    def dtype(self) -> str:
        return self._tensor()[0]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._tensor()[1].shape)

    @property
    def position(self) -> tuple[str, int]:
        return self.file.name, self.start

    def followed_by(self, other: Any, limit_bytes: int) -> None:
        """Each record is decoded separately."""

    def _tensor(self) -> tuple[str, Array]:
        data, offset = self._part()
        return read_tensor(bytes(data[self.start - offset : self.end - offset]))

    def _part(self) -> tuple[Any, int]:
        """Waits while the job runs: the index may have been uploaded first."""
        tries_left = self.num_retries
        while True:
            try:
                return self.folder.part(self.file, self.start, self.end)
            except (FileNotFoundError, ObjectNotFound) as error:
                if tries_left <= 0:
                    problem = f"{self.file.name} is not there, though its index is"
                    raise MissingEventFile(problem) from error
            if self.folder.exists(END_MARKER):
                tries_left = 0  # everything that will come is there by now
            else:
                time.sleep(RETRY_SECONDS)
                tries_left -= 1


class SmdebugSource:
    """An index file appears after its event file, per step and worker, and never changes."""

    def __init__(self, folder: TrialFolder, num_retries: int = 0) -> None:
        self.torn: list[str] = []
        self._folder = folder
        self._num_retries = num_retries
        self._loaded: set[str] = set()
        self._cursor = ""

    def load_new(self, index: TensorIndex, steps: StepTable, *, everything: bool = False) -> None:
        for file in self._folder.list(INDEX, "" if everything else self._cursor):
            matched = _INDEX_FILE.fullmatch(file.name)
            if matched is None or file.name in self._loaded:
                continue
            self._loaded.add(file.name)
            try:
                content = record(_IndexFile, parsed(self._folder.read(file.name)))
                event_file = _checked_event_file(content.meta.event_file_name)
            except (FileNotFoundError, ObjectNotFound, ValueError) as error:
                self.torn.append(file.name)
                logger.warning("Index file %s is damaged and left out: %s", file.name, error)
                continue
            at = int(matched[1]), matched[2]
            self._enter(content, FoundFile(event_file, None), *at, index, steps)
        steps.settle()
        done = steps.last_complete_step
        if done >= 0:  # a slower worker's file for a later step may sort before files already seen
            self._cursor = f"{INDEX}{done // 1000:09d}/{done:012d}"

    def expect(self, worker: str) -> None:
        """Workers are found by their index files."""

    def _enter(
        self,
        content: "_IndexFile",
        events: FoundFile,
        step: int,
        worker: str,
        index: TensorIndex,
        steps: StepTable,
    ) -> None:
        at = (step,)
        steps.add(step, ModeKeys[content.meta.mode], content.meta.mode_step, 0.0, worker)
        for item in content.tensor_payload or ():
            end = item.start_idx + item.length
            reduction = _REDUCTION.fullmatch(item.tensorname)
            block = EventBlock(
                self._folder, events, item.start_idx, end, reduction is not None, self._num_retries
            )
            if reduction is None:
                index.add_run(item.tensorname, Run(worker, at, block))
            else:
                positions = index.positions((reduction[2],))
                index.add_cube(CubeRun(worker, at, block, positions, (reduction[1],)))
        for shape in content.shape_payload or ():
            index.add_shape(shape.tensorname, ShapeRun(worker, at, shape.shape))


@dataclass(frozen=True, slots=True)
class _Meta:
    mode: str
    mode_step: int
    event_file_name: str

    def __post_init__(self) -> None:
        if self.mode not in ModeKeys.__members__:
            raise DamagedRecord(f"{self.mode!r} is not a mode")


@dataclass(frozen=True, slots=True)
class _Payload:
    tensorname: str
    start_idx: int
    length: int

    def __post_init__(self) -> None:
        if not (0 <= self.start_idx < MOST and 0 <= self.length < MOST):
            raise DamagedRecord(f"bytes {self.start_idx} and {self.length} more")


@dataclass(frozen=True, slots=True)
class _Shape:
    tensorname: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _IndexFile:
    """As smdebug writes it."""

    meta: _Meta
    tensor_payload: tuple[_Payload, ...] | None = None
    shape_payload: tuple[_Shape, ...] | None = None


def _checked_event_file(name: str) -> str:
    """A job's data must never lead out of the trial's folder."""
    if _EVENT_FILE.fullmatch(name) is None:
        raise ValueError(f"{name!r} is not the name of an event file")
    return name
