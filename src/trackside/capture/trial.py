"""A trial: what one job saved, read while the job runs or after, with smdebug's API."""

import logging
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import RLock
from typing import Any, Protocol

from trackside.capture.current_hook import flush_writing
from trackside.capture.dtypes import Array
from trackside.capture.environment import TrialEnvironment
from trackside.capture.exceptions import (
    MissingCollectionFiles,
    NoMoreData,
    SMDebugNotImplementedError,
    StepUnavailable,
    TensorUnavailable,
)
from trackside.capture.modes import ModeKeys
from trackside.capture.reading.collections_file import CollectionsFiles
from trackside.capture.reading.cube import Cube, plot_cube, read_cube
from trackside.capture.reading.extras import import_extra
from trackside.capture.reading.frames import table_columns
from trackside.capture.reading.numpy_reductions import column_name
from trackside.capture.reading.segment_source import SegmentSource
from trackside.capture.reading.smdebug_source import SmdebugSource
from trackside.capture.reading.step_table import StepState, StepTable
from trackside.capture.reading.tensor import Tensor
from trackside.capture.reading.tensor_index import TensorIndex, TensorRecord
from trackside.capture.reading.trial_folder import TrialFolder
from trackside.capture.selection.collection import Collection
from trackside.capture.trial_layout import END_MARKER, SEGMENTS, VITALS
from trackside.settings import Settings
from trackside.storage.locate import Location, locate

POLL_SECONDS = 2.0
"""Between polls of an object store when waiting for a trial to start or for a step."""
LOCAL_POLL_SECONDS = 0.25
"""The same for a folder of this machine, where a poll costs nothing."""
END_DELAY_SECONDS = 1.0
"""After the end marker of several workers: time for the files of the slower ones."""
_SETTLED_SECONDS = 60.0
"""No file arrives so long after the end marker, even if the store's clock differs from ours."""
_SMDEBUG_OPTIONS = frozenset({"cache", "check", "index_mode", "parallel"})


class Source(Protocol):
    """One format's way of finding what is new."""

    torn: list[str]

    def load_new(self, index: TensorIndex, steps: StepTable, *, everything: bool = False) -> None:
        """Add what was written since the last call."""

    def expect(self, worker: str) -> None:
        """A worker is known by its collections file."""


def create_trial(
    path: str | Path,
    name: str | None = None,
    profiler: bool = False,
    output_dir: str = "/opt/ml/processing/outputs/",
    *,
    range_steps: tuple[int | None, int | None] | None = None,
    home: Path | None = None,
    **options: Any,
) -> "Trial":
    """Open a trial in a folder or in object storage, ours or one that smdebug wrote.

    Waits until the job has saved something. `range_steps=(a, b)` keeps global steps a <= s < b.
    smdebug's `check`, `index_mode`, `cache` and `parallel` tune its reader and are accepted without
    effect. `home` contains the embedded buckets.
    """
    if profiler:
        raise SMDebugNotImplementedError(
            f"The profiler's data in {str(path)!r} is not a trial of tensors. "
            "Open it with trackside.rules.saved.profiler_trial.ProfilerTrial."
        )
    unknown = sorted(set(options) - _SMDEBUG_OPTIONS)
    if unknown:
        raise TypeError(
            f"Unknown option {unknown[0]!r} of create_trial. Known: range_steps, home, "
            f"{', '.join(sorted(_SMDEBUG_OPTIONS))}."
        )
    return Trial(path, name, range_steps=range_steps, home=home)


class Trial:
    """Every query reads new data first, until the job has finished. See `no_refresh`."""

    def __init__(
        self,
        path: str | Path,
        name: str | None = None,
        *,
        range_steps: tuple[int | None, int | None] | None = None,
        home: Path | None = None,
        location: Location | None = None,
        folder: TrialFolder | None = None,
    ) -> None:
        """`location`: if it is known already; `folder` reads its files, all unless it is given."""
        self.path = str(path).strip()
        self.name = name or self.path.rstrip("/").rpartition("/")[2]
        self.range_steps = range_steps
        self.dynamic_refresh = True
        self.loaded_all_steps = False
        self.logger = logging.getLogger(__name__)
        self._waiting = TrialEnvironment.load()
        start, end = range_steps or (None, None)
        self.step_table = StepTable(start, end, most_incomplete=self._waiting.most_incomplete_steps)
        self._index = TensorIndex()
        self._tensors: dict[str, Tensor] = {}
        self._lock = RLock()
        self._is_over = False
        if location is None:
            location = locate(self.path, home=home or Settings.load().home)
        self._poll_seconds = LOCAL_POLL_SECONDS if location.local else POLL_SECONDS
        self.location = location
        self._folder = folder or TrialFolder(location)
        self._files = CollectionsFiles(self._folder)
        self._source = self._wait_for_source()
        self.refresh_data()

    def __repr__(self) -> str:
        return f"Trial({self.path!r}, {len(self.step_table)} steps)"

    @property
    def num_workers(self) -> int:
        """How many workers write, as far as known."""
        return self.step_table.num_workers

    @property
    def last_complete_step(self) -> int:
        """-1 when there is none."""
        return max(self.step_table.without_aside(ModeKeys.GLOBAL), default=-1)

    @property
    def is_smdebug(self) -> bool:
        """Whether smdebug wrote it."""
        return self._files.is_smdebug

    @property
    def torn_segments(self) -> list[str]:
        """Damaged files that were left out; each was logged."""
        return list(self._source.torn)

    def tensor_names(
        self,
        show_prefixed_tensors: bool = False,
        *,
        step: int | None = None,
        mode: ModeKeys = ModeKeys.GLOBAL,
        regex: str | Iterable[str] | None = None,
        collection: str | Collection | None = None,
    ) -> list[str]:
        """Names seen so far, or at one step, or in one mode; empty if never saved.

        Vitals are left out, unless the collection or the pattern names them.
        """
        if regex is not None and collection is not None:
            raise ValueError("Give either regex or collection, not both.")
        self.maybe_refresh()
        patterns = [regex] if isinstance(regex, str) else [*(regex or ())]
        names = self._names_at(step, mode)
        if not _selects_vitals(patterns, collection):
            names = [name for name in names if not name.startswith(VITALS)]
        if regex is not None:
            names = _matching(names, patterns)
        if collection is not None:
            group = self._group(collection) if isinstance(collection, str) else collection
            matching = {*_matching(names, group.include_regex)}
            matching -= {*_matching(names, group.exclude_regex)}
            names = [each for each in names if each in matching or each in group.tensor_names]
        return sorted(names)

    def tensor(self, tname: str) -> Tensor:
        if not self.has_tensor(tname):
            raise TensorUnavailable(tname)
        if tname not in self._tensors:
            record = self._index.get(tname)
            assert record is not None
            self._tensors[tname] = Tensor(tname, self, record)
        return self._tensors[tname]

    def has_tensor(self, tname: str) -> bool:
        if tname not in self._index:
            self.maybe_refresh()
        return tname in self._index

    def steps(
        self, mode: ModeKeys = ModeKeys.GLOBAL, show_incomplete_steps: bool = False
    ) -> list[int]:
        """Saved steps of the mode. Incomplete: not all workers have written theirs yet.

        Without steps with vitals only; `tensor(name).steps()` has these.
        """
        self.maybe_refresh()
        return self.step_table.without_aside(mode, with_incomplete=show_incomplete_steps)

    def modes(self) -> list[ModeKeys]:
        """Modes seen; never GLOBAL, which means all."""
        self.maybe_refresh()
        return self.step_table.modes

    def mode(self, global_step: int) -> ModeKeys | None:
        return self.mode_modestep(global_step)[0]

    def mode_step(self, global_step: int) -> int | None:
        return self.mode_modestep(global_step)[1]

    def mode_modestep(self, global_step: int) -> tuple[ModeKeys | None, int | None]:
        self.maybe_refresh()
        saved = self.step_table.get(global_step)
        return (None, None) if saved is None else (saved.mode, saved.mode_step)

    def global_step(self, mode: ModeKeys, mode_step: int) -> int | None:
        self.maybe_refresh()
        return self.step_table.global_step(mode, mode_step)

    def workers(self) -> list[str]:
        self.maybe_refresh()
        return sorted(self._files.workers)

    def collections(self) -> dict[str, Collection]:
        self.maybe_refresh()
        return self._files.collections

    @property
    def collections_revision(self) -> int:
        """Increases whenever collections may have changed."""
        return self._files.num_read

    def collection(self, name: str) -> Collection:
        """An empty one, to be filled by `include`, when the job had none of this name."""
        self.maybe_refresh()
        return self._files.collections.setdefault(name, Collection(name))

    @property
    def _global_to_mode(self) -> Mapping[int, tuple[ModeKeys, int]]:
        """smdebug's own attribute, which rules of AWS's examples read. `mode_modestep` is better:
        this one does not refresh."""
        return self.step_table.by_global_step

    def wait_for_steps(
        self, required_steps: Iterable[int], mode: ModeKeys = ModeKeys.GLOBAL
    ) -> None:
        """Return when each exists; `StepUnavailable` or `NoMoreData` when one never will."""
        for step in required_steps:
            state = self.has_passed_step(step, mode)
            while state is StepState.NOT_YET_AVAILABLE:
                time.sleep(self._poll_seconds)
                self.refresh_data()
                state = self.step_table.state(step, mode)
            if state is StepState.UNAVAILABLE:
                raise self._never(step, mode)

    def has_passed_step(self, step: int, mode: ModeKeys = ModeKeys.GLOBAL) -> StepState:
        self.maybe_refresh()
        return self.step_table.state(step, mode)

    def inputs(self, step: int, mode: ModeKeys = ModeKeys.GLOBAL) -> list[Array]:
        return self._values(step, mode, collection="inputs")

    def labels(self, step: int, mode: ModeKeys = ModeKeys.GLOBAL) -> list[Array]:
        return self._values(step, mode, regex="labels*")

    def predictions(self, step: int, mode: ModeKeys = ModeKeys.GLOBAL) -> list[Array]:
        return self._values(step, mode, regex="predictions*")

    def cube(
        self,
        names: Iterable[str] | None = None,
        reduction: str = "mean",
        *,
        mode: ModeKeys = ModeKeys.GLOBAL,
        worker: str | None = None,
        abs: bool = False,
        after_step: int | None = None,
    ) -> Cube:
        """One figure of several tensors at all their steps, [steps x tensors]; all tensors, in
        the order they were saved, when none is named. Of a tensor of one element, `mean` is the
        element itself.

        `after_step` omits that step of the mode and all before it, and reads no file that has no
        later ones: for repeated reads while the job runs.
        """
        self.maybe_refresh()
        if names is None:
            known = self._names_at(None, ModeKeys.GLOBAL)
            names = [name for name in known if not name.startswith(VITALS)]
        chosen = list(names)
        for name in chosen:
            if name not in self._index:
                raise TensorUnavailable(name)
        column = column_name(reduction, abs)
        return read_cube(
            self._index,
            self.step_table,
            chosen,
            column,
            mode=mode,
            worker=worker,
            after_step=after_step,
        )

    def to_pandas(self) -> Any:
        """Reductions and one-element tensors: a row for each tensor, step and worker."""
        self.maybe_refresh()
        return import_extra("pandas").DataFrame(table_columns(self))

    def to_polars(self) -> Any:
        """The same table as `to_pandas`."""
        self.maybe_refresh()
        return import_extra("polars").DataFrame(table_columns(self))

    def plot(
        self,
        names: Iterable[str] | str | None = None,
        reduction: str = "mean",
        *,
        collection: str | None = None,
        mode: ModeKeys = ModeKeys.GLOBAL,
        ax: Any = None,
    ) -> Any:
        """Draw a figure of some tensors over the steps; losses and scalars when none is named.

        `names` is a list, or one pattern. Returns matplotlib's axes.
        """
        if isinstance(names, str):
            chosen = self.tensor_names(regex=names)
        elif names is not None:
            chosen = list(names)
        elif collection is not None:
            chosen = self.tensor_names(collection=collection)
        else:
            scalars = self.tensor_names(regex="^scalar/")
            chosen = [*self.tensor_names(collection="losses"), *scalars]
        title = self.path.rstrip("/").removesuffix("/debug-output").rpartition("/")[2]
        return plot_cube(self.cube(chosen, reduction, mode=mode), title, reduction, ax)

    def tensor_records(self) -> list[tuple[str, TensorRecord]]:
        """The index's records, for reading in bulk. Does not refresh."""
        return list(self._index.items())

    def maybe_refresh(self, name: str | None = None) -> None:
        """Read new data, unless that is switched off or there can be none."""
        if self.dynamic_refresh and not self.loaded_all_steps:
            self.refresh_data()

    def end(self) -> None:
        """Declare the trial final, for callers that know it without the end marker."""
        self._is_over = True

    def refresh_data(self) -> None:
        """Read new data now; lists only what is new. After the job's end, one last time."""
        with self._lock:
            if self.loaded_all_steps:
                return
            flush_writing(self.location)
            # Checked first: the listing then includes everything before the marker.
            ended = self._is_over or self._folder.exists(END_MARKER)
            if ended:
                time.sleep(self._end_delay())
            if ended or not self._files.is_complete:
                self._files.refresh()
            for worker in self._files.workers:
                self._source.expect(worker)
            self.step_table.num_workers = self._files.num_workers
            num_steps = len(self.step_table)
            self._source.load_new(self._index, self.step_table, everything=ended)
            if not ended and len(self.step_table) != num_steps:
                self._files.refresh()  # names may have joined a collection
            self.step_table.settle()
            self.loaded_all_steps = self.step_table.is_final = ended

    def _end_delay(self) -> float:
        if self._waiting.end_delay_seconds is not None:
            return self._waiting.end_delay_seconds
        if self._files.num_workers == 1:
            return 0.0
        marked = self._folder.modified(END_MARKER)
        is_settled = marked is not None and time.time() - marked > _SETTLED_SECONDS
        return 0.0 if is_settled else END_DELAY_SECONDS

    def _wait_for_source(self) -> Source:
        """Block until the job has saved something: before that its format is unknown."""
        is_logged = False
        flush_writing(self.location)
        while True:
            ended = self._folder.exists(END_MARKER)
            self._files.refresh()
            if self._files.is_smdebug:
                return SmdebugSource(self._folder, self._waiting.num_file_retries)
            if self._files.workers or any(True for _ in self._folder.list(SEGMENTS)):
                return SegmentSource(self._folder)
            if ended:
                raise MissingCollectionFiles(
                    f"The job of {self.path!r} has ended and saved no collections. "
                    "Check that its hook was configured, and the path."
                )
            if not is_logged:
                self.logger.warning("Nothing is saved in %s yet; waiting for it.", self.path)
                is_logged = True
            time.sleep(self._poll_seconds)

    def _group(self, name: str) -> Collection:
        """For reading: a query for an unknown name does not create a collection."""
        return self._files.collections.get(name) or Collection(name)

    def _names_at(self, step: int | None, mode: ModeKeys) -> list[str]:
        if step is None and mode is ModeKeys.GLOBAL and not self.step_table.is_limited:
            return list(self._index)
        if step is not None:
            wanted = self.step_table.global_step(mode, step)
            if wanted is None:
                return []
            return [name for name, record in self._index.items() if record.has_step(wanted)]
        seen = {*self.step_table.columns(mode, with_incomplete=True)[1]}
        return [name for name, each in self._index.items() if not seen.isdisjoint(each.steps())]

    def _values(self, step: int, mode: ModeKeys, **which: str) -> list[Array]:
        names = self.tensor_names(step=step, mode=mode, **which)  # type: ignore[arg-type]
        return [self.tensor(name).value(step, mode) for name in names]

    def _never(self, step: int, mode: ModeKeys) -> Exception:
        last = max(self.step_table.without_aside(mode, with_incomplete=True), default=None)
        if self.loaded_all_steps and (last is None or step > last):
            return NoMoreData(step, mode, last)
        return StepUnavailable(step, mode)


def _selects_vitals(patterns: list[str], collection: str | Collection | None) -> bool:
    wanted = VITALS.rstrip("/")
    name = collection.name if isinstance(collection, Collection) else collection
    return name == wanted or any(wanted in pattern for pattern in patterns)


def _matching(names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    compiled = [re.compile(pattern) for pattern in patterns]
    return [name for name in names if any(pattern.search(name) for pattern in compiled)]
