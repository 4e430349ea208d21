"""Tensor data for rules: new steps of a trial as arrays that all rules share."""

import difflib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any, TypeVar

import numpy as np

from trackside.capture.dtypes import Array
from trackside.capture.exceptions import SMDebugError
from trackside.capture.modes import ModeKeys
from trackside.capture.reading.anatomy import read_anatomy
from trackside.capture.reading.cube import Cube
from trackside.capture.reading.tensor_index import TensorRecord
from trackside.capture.trial import Trial
from trackside.errors import TracksideError
from trackside.quick_dataclass import dataclass
from trackside.rules.saved.tensor_values import Stretch, stretches
from trackside.rules.saved.vital_signs import VitalSigns

TRAINING = (ModeKeys.TRAIN, ModeKeys.GLOBAL)
"""Modes in which weights are updated. GLOBAL is the mode of a script that sets none."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Selection:
    """Tensors by collection or by pattern (union). Empty selects all."""

    collections: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [f"collection {name!r}" for name in self.collections]
        parts += [f"pattern {pattern!r}" for pattern in self.patterns]
        return " or ".join(parts) or "any tensor"


class Evidence:
    """A growing trial. Nothing changes between two calls of `advance`, and data read for one rule
    is cached for the next. Steps are global.
    """

    def __init__(self, trial: Trial, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.trial = trial
        self.steps: tuple[int, ...] = ()
        """New since the last check, complete, in order. At some of them nothing but scalars or
        vitals was saved."""
        self.is_all = False
        """The job has ended and nothing is left to read."""
        self.arrived = clock()
        """Monotonic: when something new was last seen."""
        self._clock = clock
        self._worker: str | None = None
        self._last = -1
        self._shared: dict[Any, Any] = {}
        self._selected: dict[Selection, tuple[str, ...]] = {}
        self._known = (0, 0)
        self._vitals: dict[str | None, VitalSigns] = {}
        self._sizes: dict[str, int] = {}
        self._training: set[str] = set()
        self._frozen: frozenset[str] | None = None

    def advance(self) -> bool:
        """Read what was saved meanwhile; returns whether there is anything to check."""
        self._shared.clear()
        self.trial.dynamic_refresh = False
        self.trial.refresh_data()
        table = self.trial.step_table
        self.steps = tuple(table.complete(ModeKeys.GLOBAL, after=self._last))
        was_all, self.is_all = self.is_all, self.trial.loaded_all_steps
        known = len(self._records()), self.trial.collections_revision
        if known != self._known or self.is_all != was_all:
            self._selected.clear()  # patterns are matched again only if the result may differ
            self._known = known
        if self.steps:
            self._last = self.steps[-1]
            self.arrived = self._clock()
        return bool(self.steps) or self.is_all != was_all

    def end(self) -> None:
        """Mark the job as ended: the next `advance` reads the rest."""
        self.trial.end()

    @property
    def quiet_seconds(self) -> float:
        """Seconds since something new arrived."""
        return self._clock() - self.arrived

    @property
    def vitals(self) -> VitalSigns:
        """The whole history, for rules that compare a run with its own past."""
        if self._worker not in self._vitals:
            self._vitals[self._worker] = VitalSigns(self.trial, self._worker)
        vitals = self._vitals[self._worker]
        if "signs" not in self._shared:
            self._shared["signs"] = True
            vitals.refresh(is_all=self.is_all)
        return vitals

    def of(self, worker: str) -> "Evidence":
        """One worker's data, as if it were the only one; valid until the next `advance`."""
        view = copy(self)
        view._worker = worker
        view._shared = self._share(("of", worker), lambda: dict[Any, Any]())
        return view

    def mode(self, step: int) -> ModeKeys:
        return self.trial.mode(step) or ModeKeys.GLOBAL

    def modes(self, steps: Sequence[int] | None = None) -> Array:
        """The mode of each new step, or of the given steps, as numbers of `ModeKeys`."""
        return self._in_modes(steps)[0]

    def mode_steps(self, steps: Sequence[int] | None = None) -> Array:
        """The step numbers within their modes."""
        return self._in_modes(steps)[1]

    def workers(self) -> tuple[str, ...]:
        return self._share("workers", lambda: tuple(self.trial.workers()))

    def names(self, selection: Selection) -> tuple[str, ...]:
        """Tensors saved so far that are selected."""
        if selection not in self._selected:
            self._selected[selection] = self._find(selection)
        return self._selected[selection]

    def figures(self, names: Sequence[str], reduction: str) -> Cube:
        """One reduction of these tensors at the new steps ("abs_mean", "l2", "mean" ...)."""
        cubes = self._share(("figures", reduction), lambda: list[Cube]())
        wanted = tuple(names)
        for known in cubes:
            if known.names == wanted:
                return known
        for known in cubes:
            if len(wanted) and set(wanted) <= set(known.names):
                cubes.append(_part(known, wanted))
                break
        else:
            cubes.append(self._read(wanted, reduction))
        return cubes[-1]

    def values(self, name: str, step: int) -> Array | None:
        """The tensor itself; None if it was not saved, or only its reductions.

        Not cached: the logits of a language model over a whole trial would exhaust any memory.
        """
        try:
            return self.trial.tensor(name).value(step, worker=self._worker)
        except SMDebugError:
            return None

    def stretches(
        self, name: str, *, before: int = 0, in_training: bool = False
    ) -> Iterator[Stretch]:
        """The tensor's values at the new steps in arrays of many steps each, with up to `before`
        earlier saved steps. `in_training` excludes EVAL and PREDICT, unless the tensor is saved
        only there. Empty if only reductions were saved.
        """
        record = self._records()[name]
        workers = record.runs.workers
        chosen = self._worker or next(iter(workers), None)
        if not self.steps or chosen not in workers:
            return iter(())
        keeps = self._is_complete
        if in_training and self._trains(name):
            keeps = self._is_training_step
        return stretches(record, chosen, self.steps[0], before=before, keeps=keeps)

    def has_any(self, names: Sequence[str], step: int) -> bool:
        """Whether anything of one of these tensors was saved at the step."""
        records = self._records()
        return any(records[name].has_step(step) for name in names)

    def scalars(self, names: Sequence[str]) -> tuple[str, ...]:
        """Tensors with one element, such as losses and metrics."""
        return tuple(name for name in names if self._size(name) == 1)

    def frozen(self) -> frozenset[str]:
        """Parameters that did not require gradients when the hook first described the model; empty
        without a description.
        """
        if self._frozen is None:
            try:
                anatomy = read_anatomy(self.trial.path)
            except (OSError, TypeError, ValueError, TracksideError):
                anatomy = None  # incomplete, or of another version: the next check may succeed
            if anatomy is not None:
                trains = {each.name: each.requires_grad for each in anatomy.parameters}
                self._frozen = frozenset(name for name, does in trains.items() if not does)
        return self._frozen or frozenset()

    def missing(self, selection: Selection, reductions: Sequence[str] = ()) -> str:
        """Why a rule had nothing to check; "" when there is something."""
        names = self.names(selection)
        if names and any(self._can_read(name, reductions) for name in names):
            return ""
        if names:
            wanted = ", ".join(reductions) or "their values"
            return (
                f"Of {selection}, {len(names)} tensors are saved, but not {wanted}. "
                "Add it to the collection's reductions, or save the tensors themselves "
                "(save_raw_tensor)."
            )
        return self._not_saved(selection)

    def _not_saved(self, selection: Selection) -> str:
        saved = self.trial.tensor_names()
        wanted = selection.patterns[0] if selection.patterns else selection.collections[0]
        plain = re.sub(r"[^\w/]+", "", wanted)
        near = difflib.get_close_matches(plain, saved, n=3, cutoff=0.3) or saved[:3]
        has = f"Nearest of {len(saved)} saved names: {', '.join(near)}." if saved else "None is."
        name = selection.collections[0] if selection.collections else "custom"
        ways = f"CollectionConfig({name!r}"
        if selection.patterns:
            ways += f", {{'include_regex': {selection.patterns[0]!r}}}"
        return f"No tensor of {selection} is saved. {has} Save them with {ways})."

    def _find(self, selection: Selection) -> tuple[str, ...]:
        trial = self.trial
        if not selection.collections and not selection.patterns:
            return tuple(trial.tensor_names())
        found: dict[str, None] = {}
        for collection in selection.collections:
            found.update(dict.fromkeys(trial.tensor_names(collection=collection)))
        if selection.patterns:
            found.update(dict.fromkeys(trial.tensor_names(regex=list(selection.patterns))))
        return tuple(found)

    def _read(self, names: Sequence[str], reduction: str) -> Cube:
        before = self.steps[0] - 1 if self.steps else self._last
        return self.trial.cube(names, reduction, worker=self._worker, after_step=before)

    def _in_modes(self, steps: Sequence[int] | None) -> tuple[Array, Array]:
        chosen = self.steps if steps is None else tuple(steps)
        return self._share(("in modes", chosen), lambda: self._find_in_modes(chosen))

    def _find_in_modes(self, steps: tuple[int, ...]) -> tuple[Array, Array]:
        known = [self.trial.step_table.get(step) for step in steps]
        modes = [ModeKeys.GLOBAL.value if each is None else each.mode.value for each in known]
        numbers = [
            step if each is None else each.mode_step
            for step, each in zip(steps, known, strict=True)
        ]
        return np.array(modes, int), np.array(numbers, int)

    def _records(self) -> dict[str, TensorRecord]:
        return self._share("records", lambda: dict(self.trial.tensor_records()))

    def _size(self, name: str) -> int:
        """Number of elements; 0 where only reductions were saved."""
        if name not in self._sizes:
            run = next(iter(self._records()[name].runs), None)
            self._sizes[name] = 0 if run is None else int(np.prod(run.block.shape))
        return self._sizes[name]

    def _can_read(self, name: str, reductions: Sequence[str]) -> bool:
        record = self._records()[name]
        if record.runs.workers:
            return True
        stored = {column for cube in record.cubes for column in cube.columns}
        return bool(reductions) and stored.issuperset(reductions)

    def _is_complete(self, step: int) -> bool:
        table = self.trial.step_table
        return step in table and table.is_complete(step)

    def _is_training_step(self, step: int) -> bool:
        return self._is_complete(step) and self.mode(step) in TRAINING

    def _trains(self, name: str) -> bool:
        """Whether the tensor has a step at which weights are updated."""
        if name not in self._training:
            runs = self._records()[name].runs
            if any(self.mode(step) in TRAINING for run in runs for step in run.steps):
                self._training.add(name)
        return name in self._training

    def _share(self, key: Any, read: Callable[[], _T]) -> _T:
        if key not in self._shared:
            self._shared[key] = read()
        shared: _T = self._shared[key]
        return shared


def _part(cube: Cube, names: tuple[str, ...]) -> Cube:
    """Some tensors of a cube, at the steps where any of them was saved."""
    first = cube.names.index(names[0])
    columns: slice | list[int] = slice(first, first + len(names))
    if cube.names[first : first + len(names)] != names:
        places = {name: place for place, name in enumerate(cube.names)}
        columns = [places[name] for name in names]
    values, saved = cube.values[:, columns], cube.saved[:, columns]
    rows = saved.any(axis=1)
    if rows.all():
        return Cube(cube.steps, names, values, saved)
    return Cube(tuple(np.array(cube.steps)[rows].tolist()), names, values[rows], saved[rows])
