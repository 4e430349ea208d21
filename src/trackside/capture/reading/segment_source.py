"""Finds new segments of a trial in our own format and adds them to the index."""

import logging
from typing import Any, NamedTuple

from trackside.capture.dtypes import Array
from trackside.capture.modes import ModeKeys
from trackside.capture.reading.segment_reader import (
    Entry,
    SegmentContents,
    TornSegment,
    header_size,
    parse_header,
)
from trackside.capture.reading.step_table import StepTable
from trackside.capture.reading.tensor_index import CubeRun, Run, ShapeRun, TensorIndex
from trackside.capture.reading.trial_folder import FoundFile, TrialFolder
from trackside.capture.trial_layout import SEGMENTS, VITALS, SegmentName, segments_of
from trackside.errors import ObjectNotFound

logger = logging.getLogger(__name__)

_FIRST_READ_BYTES = 64 << 10
"""Enough for nearly every header: one request to an object store instead of two."""


class SegmentBlock(NamedTuple):
    folder: TrialFolder
    file: FoundFile
    entry: Entry

    def read(self) -> Array:
        data, offset = self.folder.part(self.file, self.entry.start, self.entry.end)
        return self.entry.view(data, offset)

    @property
    def dtype(self) -> str:
        return self.entry.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.entry.shape

    @property
    def position(self) -> tuple[str, int]:
        return self.file.name, self.entry.start

    def followed_by(self, other: Any, limit_bytes: int) -> "SegmentBlock | None":
        mine = self.entry
        if not isinstance(other, SegmentBlock) or self.file is not other.file:
            return None
        start, end, dtype, _, (num_steps, *shape) = other.entry
        is_alike = dtype == mine.dtype and shape == list(mine.stored_shape[1:])
        if start != mine.end or not is_alike or end - mine.start > limit_bytes:
            return None
        longer = (mine.stored_shape[0] + num_steps, *shape)
        # Called for each of a million arrays: `_replace` takes several times as long.
        entry = Entry(mine.start, end, mine.dtype, mine.stored_dtype, longer)
        return SegmentBlock(self.folder, self.file, entry)


class SegmentSource:
    """Lists, for each worker, only names after the last segment without a gap before it."""

    def __init__(self, folder: TrialFolder) -> None:
        self.torn: list[str] = []
        """Segments that could not be read, by name; each was named in a warning."""
        self._folder = folder
        self._cursors: dict[str, SegmentName | None] = {}
        self._loaded: dict[str, set[SegmentName]] = {}

    def load_new(self, index: TensorIndex, steps: StepTable, *, everything: bool = False) -> None:
        """`everything` lists all again: for the last refresh, which must not miss a late name."""
        if everything or not self._cursors:
            for file in self._folder.list(SEGMENTS):
                worker, _, name = file.name.removeprefix(SEGMENTS).partition("/")
                self._load(worker, name, file, index, steps)
            return
        for worker, cursor in list(self._cursors.items()):
            prefix = segments_of(worker)
            for file in self._folder.list(prefix, f"{prefix}{cursor}" if cursor else ""):
                self._load(worker, file.name.removeprefix(prefix), file, index, steps)

    def expect(self, worker: str) -> None:
        """A worker is known to write; its segments are listed from now on."""
        self._cursors.setdefault(worker, None)

    def _load(
        self, worker: str, name: str, file: FoundFile, index: TensorIndex, steps: StepTable
    ) -> None:
        parsed = SegmentName.parse(name)
        if parsed is None:
            return
        loaded = self._loaded.setdefault(worker, set())
        if parsed not in loaded:
            loaded.add(parsed)
            try:
                contents = self._contents(file)
            except (TornSegment, FileNotFoundError, ObjectNotFound) as error:
                self.torn.append(file.name)
                logger.warning(
                    "Segment %s of %s is damaged and left out: it has %s.",
                    file.name,
                    self._folder.location,
                    error if isinstance(error, TornSegment) else "gone",
                )
            else:
                _enter(contents, worker, self._folder, file, index, steps)
        cursor = self._cursors.setdefault(worker, None)
        if parsed.follows(cursor):
            self._cursors[worker] = parsed

    def _contents(self, file: FoundFile) -> SegmentContents:
        file_size = file.size_bytes or 0
        beginning = self._folder.read(file.name, 0, _FIRST_READ_BYTES)
        size = header_size(beginning, file_size)
        if size > len(beginning):
            beginning += self._folder.read(file.name, len(beginning), size)
        return parse_header(beginning[:size], file_size)


def _enter(
    contents: SegmentContents,
    worker: str,
    folder: TrialFolder,
    file: FoundFile,
    index: TensorIndex,
    steps: StepTable,
) -> None:
    for run in contents.tensors:
        index.add_run(run.name, Run(worker, run.steps, SegmentBlock(folder, file, run.entry)))
    for cube in contents.reductions:
        block = SegmentBlock(folder, file, cube.entry)
        positions = index.positions(cube.tensors)
        index.add_cube(CubeRun(worker, cube.steps, block, positions, cube.columns))
    for group in contents.shapes:
        for name, shape in group.shapes.items():
            index.add_shape(name, ShapeRun(worker, group.steps, shape))
    aside = _aside(contents)
    for step, mode, mode_step, time in contents.steps:
        steps.add(step, ModeKeys[mode], mode_step, time, worker, is_aside=step in aside)


def _aside(contents: SegmentContents) -> set[int]:
    """Steps with nothing but vitals."""
    vitals = [run for run in contents.tensors if run.name.startswith(VITALS)]
    if not vitals:
        return set()
    # Tensors that are saved together share one sequence of steps: each is checked once.
    shared = {id(r.steps): r.steps for r in contents.tensors if not r.name.startswith(VITALS)}
    others = [each.steps for each in contents.reductions]
    others += [each.steps for each in contents.shapes]
    return {step for run in vitals for step in run.steps}.difference(*shared.values(), *others)
