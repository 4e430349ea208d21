"""What can be drawn of a job's tensors, and heat maps of tensor against step."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trackside.capture.modes import ModeKeys
from trackside.capture.reading.cube import Cube
from trackside.capture.selection.collection import CollectionKeys
from trackside.capture.trial import Trial
from trackside.capture.trial_layout import VITALS
from trackside.errors import InvalidPattern, NoTensors
from trackside.jobs.records import Record
from trackside.rules.report.heat_cells import (
    SIGNED,
    Scale,
    coded,
    figures_of,
    heat_grid,
    in_model_order,
    spread,
)
from trackside.views.curves.binary_frame import encode
from trackside.views.query.linear_pattern import LinearPattern
from trackside.views.query.pattern_syntax import PatternError
from trackside.views.table.kept_figures import kept_or_made
from trackside.views.tensors.open_trials import OpenTrials

MOST_ROWS = 4_000
MOST_COLUMNS = 4_000
NUM_LEVELS = 250
ZERO, NOT_FINITE, NOT_SAVED = 251, 252, 255
_ACTIVATIONS = f"{VITALS}activation/"
_UPDATE_RATIO = f"{VITALS}update_ratio"
_USUAL_RATIO = -3.0
"""The decimal logarithm of a healthy update, relative to the weights."""
_TITLES = {
    CollectionKeys.GRADIENTS: "Gradients",
    CollectionKeys.WEIGHTS: "Weights",
    CollectionKeys.BIASES: "Biases",
    "activations": "Activations",
    "update_ratio": "Update ratio",
    CollectionKeys.LOSSES: "Losses",
}
"""In the order of the page; other collections follow."""
_NO_KINDS = {CollectionKeys.DEFAULT, CollectionKeys.ALL, VITALS.rstrip("/")}


@dataclass(frozen=True, slots=True)
class HeatRequest:
    kind: str
    figure: str = ""
    """Empty for the usual one of the kind."""
    mode: str = ""
    worker: str = ""
    columns: int = 1000
    first: float = -math.inf
    last: float = math.inf
    """The steps to draw."""
    filter: str = ""
    """A regular expression; only tensors whose name matches."""
    scale: tuple[float, float] | None = None
    """Levels of the darkest and the brightest colour, of a map that this is a part of."""
    draft: bool = False
    """Whether a picture of some files will do, if all would take long to read."""


@dataclass(frozen=True, slots=True)
class _Kind:
    kind: str
    names: tuple[str, ...]
    figures: tuple[str, ...]
    """The one to draw first."""

    def tensors(self, figure: str) -> list[str]:
        """The names of the rows."""
        if self.kind != "activations":
            return list(self.names)
        return [name for name in self.names if name.endswith(f"/{figure}")]

    def reduction(self, figure: str) -> str:
        """What of these tensors is drawn: a vital is a number."""
        return "mean" if self.kind in ("activations", "update_ratio") else figure

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "title": _TITLES.get(self.kind, self.kind),
            "count": len(self.tensors(self.figures[0])),
            "figures": list(self.figures),
            "figure": self.figures[0],
        }


class HeatMaps:
    """All methods may be called from several threads."""

    def __init__(self, trials: OpenTrials) -> None:
        self._trials = trials
        self._kept = trials.kept

    def tensors(self, record: Record, *, draft: bool = False) -> dict[str, Any]:
        """`Tensors` of the page's API. `NoTensors` if the job has saved none. A `draft` is of some
        files, if all would take long to read, and says so."""
        known: dict[str, Any] | None = self._kept.fact(record, _TENSORS)
        if known is not None:
            return known
        if draft and (sample := self._trials.sample(record)) is not None:
            return {**_tensors(sample.trial), "draft": sample.as_json()}
        with self._trials.get(record) as trial:
            made: dict[str, Any] = kept_or_made(self._kept, record, trial, _TENSORS, _tensors)
            return made

    def heat(self, record: Record, request: HeatRequest) -> bytes:
        """A binary frame with one item. `NoTensors` if there is nothing to draw."""
        found = self._kept_cube(record, request)
        if found is None and (draft := self._draft(record, request)) is not None:
            return draft
        if found is None:
            with self._trials.get(record) as trial:
                if self._kept.is_worth_keeping(record, trial):
                    found = self._keep(record, trial, request)
                if found is None:
                    return heat_frame(trial, request)
        cube, figure = found
        return encode([_item_of(cube, request.kind, figure, request)])

    def _draft(self, record: Record, request: HeatRequest) -> bytes | None:
        """Of some files, with how many of all these are; None if the whole is to be drawn, also
        because those files have nothing to draw."""
        sample = self._trials.sample(record) if request.draft else None
        if sample is None:
            return None
        try:
            return heat_frame(sample.trial, request, draft=sample.as_json())
        except NoTensors:
            return None

    def _kept_cube(self, record: Record, request: HeatRequest) -> tuple[Cube, str] | None:
        """With the figure that it is of."""
        known = self._kept.fact(record, _TENSORS) or {"kinds": []}
        for kind in known["kinds"]:
            if kind["kind"] == request.kind:
                figure = request.figure or kind["figure"]
                cube = self._kept.cube(record, _cube_name(request, figure))
                return None if cube is None else (cube, figure)
        return None

    def _keep(self, record: Record, trial: Trial, request: HeatRequest) -> tuple[Cube, str] | None:
        """All rows and steps of the figure that is asked for; None if there is no such figure, or
        there are too many rows."""
        kind = _kind(trial, request.kind)
        figure = request.figure or (kind.figures[0] if kind else "")
        if kind is None or figure not in kind.figures or len(kind.tensors(figure)) > MOST_ROWS:
            return None
        ordered = in_model_order(trial, kind.tensors(figure))
        whole = replace(request, first=-math.inf)
        cube = _cube(trial, ordered, kind.reduction(figure), whole)
        self._kept.keep_cube(record, _cube_name(request, figure), cube)
        self._kept.keep_fact(record, _TENSORS, _tensors(trial))
        return cube, figure


_TENSORS = "tensors"


def _cube_name(request: HeatRequest, figure: str) -> str:
    return json.dumps([request.kind, figure, request.mode, request.worker])


def _tensors(trial: Trial) -> dict[str, Any]:
    kinds = [_kind(trial, name) for name in _kind_names(trial)]
    return {
        "kinds": [kind.as_json() for kind in kinds if kind is not None],
        "workers": trial.workers(),
        "modes": [mode.name for mode in trial.modes()],
        "first_step": trial.step_table.first_step,
        "last_step": trial.step_table.last_step,
    }


def heat_frame(trial: Trial, request: HeatRequest, **members: Any) -> bytes:
    """The same of an open trial, with further members of the item."""
    kind = _kind(trial, request.kind)
    if kind is None:
        known = ", ".join(each for each in _kind_names(trial) if _kind(trial, each))
        raise NoTensors(f"No tensors of kind {request.kind[:80]!r} were saved. There are: {known}.")
    return encode([_item(trial, kind, request) | members])


def _item(trial: Trial, kind: _Kind, request: HeatRequest) -> dict[str, Any]:
    figure = request.figure or kind.figures[0]
    if figure not in kind.figures:
        raise NoTensors(
            f"{figure[:80]!r} of {kind.kind} was not saved. There are: {', '.join(kind.figures)}."
        )
    names = _chosen(kind.tensors(figure), kind.kind, request)
    ordered = in_model_order(trial, names)
    chosen = [ordered[place] for place in spread(len(ordered), MOST_ROWS)]
    cube = _cube(trial, chosen, kind.reduction(figure), request)
    left_out = len(ordered) - len(chosen)
    return {"names": chosen, "figure": figure, "left_out": left_out} | _drawn(
        cube, kind.kind, figure, request
    )


def _item_of(cube: Cube, kind: str, figure: str, request: HeatRequest) -> dict[str, Any]:
    """The same of all rows, which are in the model's order."""
    chosen = _chosen(cube.names, kind, request)
    if len(chosen) < len(cube.names):
        wanted = set(chosen)
        at = [place for place, name in enumerate(cube.names) if name in wanted]
        cube = Cube(cube.steps, tuple(chosen), cube.values[:, at], cube.saved[:, at])
    drawn = _drawn(cube, kind, figure, request)
    return {"names": chosen, "figure": figure, "left_out": 0} | drawn


def _chosen(names: Sequence[str], kind: str, request: HeatRequest) -> list[str]:
    found = _matching(names, request.filter) if request.filter else list(names)
    if not found:
        raise NoTensors(f"No tensor of kind {kind} matches {request.filter[:80]!r}.")
    return found


def _matching(names: Sequence[str], pattern: str) -> list[str]:
    try:
        wanted = LinearPattern(pattern)
        return [name for name in names if wanted.search(name)]
    except PatternError as error:
        raise InvalidPattern(pattern[:200], str(error)) from error


def _cube(trial: Trial, names: Sequence[str], reduction: str, request: HeatRequest) -> Cube:
    mode, worker = mode_called(request.mode), worker_called(trial, request.worker)
    after = None if request.first == -math.inf else int(math.ceil(request.first)) - 1
    return trial.cube(names, reduction, mode=mode, worker=worker, after_step=after)


def _drawn(cube: Cube, kind: str, figure: str, request: HeatRequest) -> dict[str, Any]:
    is_log = figure not in SIGNED and not figure.endswith("_share")
    columns = max(1, min(request.columns, MOST_COLUMNS))
    grid = heat_grid(cube, columns, is_log=is_log, first=request.first, last=request.last)
    if grid is None and request.scale is not None:
        return _no_columns(is_log, request.scale)
    if grid is None:
        raise NoTensors("None of these tensors was saved at these steps, in this mode.")
    around = _USUAL_RATIO if kind == "update_ratio" else None
    if not is_log and (np.nan_to_num(grid.levels, posinf=0.0) < 0).any():
        around = 0.0
    scale = Scale.of(grid.levels, around)
    if request.scale is not None:
        scale = replace(scale, dark=request.scale[0], bright=request.scale[1])
    codes = (ZERO, NOT_FINITE, NOT_SAVED)
    cells = coded(grid.levels, scale.dark, scale.bright, NUM_LEVELS, codes, "u1")
    return {
        "log": is_log,
        "low": scale.low,
        "high": scale.high,
        "dark": scale.dark,
        "bright": scale.bright,
        "diverging": around is not None,
        "arrays": {
            "cells": cells.ravel(),
            "starts": np.asarray(grid.starts, np.float64),
            "steps": np.asarray(grid.steps, np.float64),
        },
    }


def _no_columns(is_log: bool, scale: tuple[float, float]) -> dict[str, Any]:
    """Of a map that has not grown."""
    ends = {"low": scale[0], "high": scale[1], "dark": scale[0], "bright": scale[1]}
    none = np.zeros(0)
    arrays = {"cells": none.astype("u1"), "starts": none, "steps": none}
    return {"log": is_log, **ends, "diverging": False, "arrays": arrays}


def mode_called(name: str) -> ModeKeys:
    """All modes for an empty name. `NoTensors` for an unknown one."""
    if not name:
        return ModeKeys.GLOBAL
    if name not in ModeKeys.__members__:
        raise NoTensors(f"{name[:80]!r} is no mode. There are: {', '.join(ModeKeys.__members__)}.")
    return ModeKeys[name]


def worker_called(trial: Trial, name: str) -> str | None:
    """The first by name for an empty one. `NoTensors` for an unknown one."""
    if name and name not in trial.workers():
        known = ", ".join(trial.workers()[:20])
        raise NoTensors(f"Worker {name[:80]!r} has saved no tensors. There are: {known}.")
    return name or None


def figures_by_kind(trial: Trial) -> dict[str, tuple[str, ...]]:
    """The kinds of tensors that can be drawn, and what of each; the usual figure first."""
    kinds = (_kind(trial, name) for name in _kind_names(trial))
    return {kind.kind: kind.figures for kind in kinds if kind is not None}


def _kind_names(trial: Trial) -> list[str]:
    return list(dict.fromkeys([*_TITLES, *sorted({*trial.collections()} - _NO_KINDS)]))


def _kind(trial: Trial, kind: str) -> _Kind | None:
    """None if nothing of it was saved, or too much to be read."""
    if kind == "activations":
        names = trial.tensor_names(regex=f"^{_ACTIVATIONS}")
        found = {name.rpartition("/")[2] for name in names}
        figures = sorted(found, key=lambda figure: (figure != "std", figure))
    elif kind == "update_ratio":
        names = trial.tensor_names(regex=f"^{_UPDATE_RATIO}$")
        figures = ["update_ratio"]
    else:
        names = trial.tensor_names(collection=kind) if kind in trial.collections() else []
        figures = _figures(trial, kind, names)
    return _Kind(kind, tuple(names), tuple(figures)) if names and figures else None


def _figures(trial: Trial, kind: str, names: Sequence[str]) -> list[str]:
    figures = figures_of(trial, names)
    if kind == CollectionKeys.LOSSES and "mean" in figures:  # of one number: the number
        figures.remove("mean")
        figures.insert(0, "mean")
    return figures
