"""One tensor of a job: its figures over the steps, histograms, and values of one step."""

import math
from bisect import bisect_right
from typing import Any

import numpy as np

from trackside.capture.dtypes import Array
from trackside.capture.exceptions import SMDebugError
from trackside.capture.modes import ModeKeys
from trackside.capture.reading.numpy_reductions import reduce_rows
from trackside.capture.reading.tensor import Tensor
from trackside.capture.reading.tensor_index import TensorRecord
from trackside.capture.trial import Trial
from trackside.errors import NoTensors
from trackside.jobs.records import Record
from trackside.rules.report.heat_cells import COMPUTED, figures_of, spread
from trackside.views.curves.binary_frame import as_json
from trackside.views.tensors.heat_map import mode_called, worker_called
from trackside.views.tensors.open_trials import OpenTrials

MOST_VALUES = 4_096
MOST_STEPS = 1_000
"""Columns in which the steps are joined; of each, the extremes of all figures are kept."""
NUM_HISTOGRAMS = 60
NUM_BINS = 40
_READ_BYTES = 256 << 20
"""Of values, for one answer."""
_SAMPLED = 1 << 20
"""Elements of a histogram."""
_WIDEST = 1e307
"""Half of the widest range that is divided into bins."""


class TensorView:
    """All methods may be called from several threads."""

    def __init__(self, trials: OpenTrials) -> None:
        self._trials = trials

    def tensor(
        self,
        record: Record,
        name: str,
        *,
        worker: str = "",
        mode: str = "",
        after: int | None = None,
    ) -> dict[str, Any]:
        """Shape, type, figures and histograms over the steps of the mode; with `after` over those
        behind that step."""
        with self._trials.get(record) as trial:
            tensor = _tensor(trial, name)
            who, how = worker_called(trial, worker), mode_called(mode)
            values = _values(trial, tensor, how, who, after)
            steps, figures = _figures(trial, name, values, how, who, after)
            found = {
                "name": name,
                **_kind_of(tensor, how, who),
                "steps": steps,
                "figures": figures,
                "histogram": _histogram(values),
            }
            answer: dict[str, Any] = as_json(found)
            return answer

    def values(
        self, record: Record, name: str, step: int, *, worker: str = "", mode: str = ""
    ) -> dict[str, Any]:
        """The elements at this step, or at the last one before at which values were saved."""
        with self._trials.get(record) as trial:
            tensor = _tensor(trial, name)
            who, how = worker_called(trial, worker), mode_called(mode)
            saved = _value_steps(trial, name, how, who)
            if not saved:
                raise NoTensors(
                    f"Of {name!r} no values were saved, only figures. Save its collection without "
                    "reductions to see them."
                )
            shown = saved[max(0, bisect_right(saved, step) - 1)]
            value = _value(tensor, shown, how, who)
            part = _corner(value)
            found = {
                "shape": list(value.shape),
                "values": part.tolist() if part.dtype.kind in "biuf" else _texts(part),
                "whole": part.size == value.size,
                "step": shown,
            }
            answer: dict[str, Any] = as_json(found)
            return answer


def _tensor(trial: Trial, name: str) -> Tensor:
    try:
        return trial.tensor(name)
    except SMDebugError as error:
        raise NoTensors(f"No tensor {name[:200]!r} was saved.") from error


def _record(trial: Trial, name: str) -> TensorRecord:
    return next(record for each, record in trial.tensor_records() if each == name)


def _value_steps(trial: Trial, name: str, mode: ModeKeys, worker: str | None) -> list[int]:
    """Steps of the mode at which values were saved, not only figures."""
    runs = _record(trial, name).runs
    of_workers = [runs.of(each) for each in ([worker] if worker else runs.workers)]
    saved = {step for of_worker in of_workers for run in of_worker for step in run.steps}
    own, whole = trial.step_table.columns(mode, with_incomplete=True)
    return [step for step, number in zip(own, whole, strict=True) if number in saved]


def _value(tensor: Tensor, step: int, mode: ModeKeys, worker: str | None) -> Array:
    try:
        return tensor.value(step, mode, worker)
    except SMDebugError as error:
        raise NoTensors(f"{tensor.name!r} at step {step} cannot be read: {error}") from error


def _values(
    trial: Trial, tensor: Tensor, mode: ModeKeys, worker: str | None, after: int | None
) -> dict[int, Array]:
    """Of a few steps, evenly; none where none were saved, or they are numbers alone."""
    steps = _value_steps(trial, tensor.name, mode, worker)
    if after is not None:
        steps = steps[bisect_right(steps, after) :]
    if not steps:
        return {}
    last = _value(tensor, steps[-1], mode, worker)
    if last.size < 2 or last.dtype.kind not in "biuf":
        return {}
    most = max(1, min(NUM_HISTOGRAMS, _READ_BYTES // max(1, last.nbytes)))
    chosen = [steps[place] for place in spread(len(steps), most)]
    return {step: _value(tensor, step, mode, worker) for step in chosen}


def _kind_of(tensor: Tensor, mode: ModeKeys, worker: str | None) -> dict[str, Any]:
    steps = tensor.steps(mode)
    shape: tuple[int, ...] | None = None
    dtype = ""
    for step in steps[-1:]:
        try:
            shape = tensor.shape(step, mode, worker)
            dtype = tensor.dtype(step, mode, worker)
        except SMDebugError:  # only figures were saved
            continue
    return {"shape": None if shape is None else list(shape), "dtype": dtype}


def _figures(
    trial: Trial,
    name: str,
    values: dict[int, Array],
    mode: ModeKeys,
    worker: str | None,
    after: int | None,
) -> tuple[list[int], dict[str, list[float]]]:
    """As stored, at all steps; without, those of the values."""
    record = _record(trial, name)
    if values and not any(True for _ in record.cubes):
        rows = [
            np.concatenate([reduce_rows(each[None], figure) for each in values.values()])
            for figure in COMPUTED
        ]
        return list(values), {
            figure: row.tolist() for figure, row in zip(COMPUTED, rows, strict=True)
        }
    is_number = all(math.prod(run.block.shape) == 1 for run in record.runs)
    names = (
        {"value": "mean"}
        if any(True for _ in record.runs) and is_number
        else {figure: figure for figure in figures_of(trial, [name])}
    )
    cubes = [
        trial.cube([name], each, mode=mode, worker=worker, after_step=after)
        for each in names.values()
    ]
    if not cubes:
        return [], {}
    matrix = np.array([cube.values[:, 0] for cube in cubes])
    kept = extremes(matrix, MOST_STEPS)
    shown = {figure: row[kept].tolist() for figure, row in zip(names, matrix, strict=True)}
    return [cubes[0].steps[place] for place in kept], shown


def extremes(rows: Array, most: int) -> list[int]:
    """Places of the smallest and the largest of each row in each of `most` groups of columns, of
    the first column of each group, and of the first that is not a number."""
    count = rows.shape[1]
    if count <= 2 * most:
        return list(range(count))
    kept: set[int] = set()
    bounds = np.linspace(0, count, most + 1).astype(int)
    for start, end in zip(bounds[:-1], bounds[1:], strict=True):
        part = rows[:, start:end]
        is_bad = np.isnan(part)
        kept |= {start, end - 1}
        kept |= {*(start + np.where(is_bad, np.inf, part).argmin(axis=1))}
        kept |= {*(start + np.where(is_bad, -np.inf, part).argmax(axis=1))}
        kept |= {*(start + is_bad.argmax(axis=1))}
    return sorted(int(place) for place in kept)


def _histogram(values: dict[int, Array]) -> dict[str, Any] | None:
    if not values:
        return None
    edges, counts = [], []
    for value in values.values():
        flat = value.ravel()
        flat = flat[:: max(1, flat.size // _SAMPLED)].astype(np.float64)
        found, bounds = _binned(flat[np.isfinite(flat)])
        edges.append(bounds.tolist())
        counts.append(found.tolist())
    return {"steps": list(values), "edges": edges, "counts": counts}


def _binned(flat: Array) -> tuple[Array, Array]:
    low, high = (flat.min(), flat.max()) if flat.size else (0.0, 1.0)
    if high / 2 - low / 2 < _WIDEST:
        try:
            return np.histogram(flat, NUM_BINS)
        except ValueError:  # they differ by too little
            pass
    return np.array([flat.size]), np.array([low, high])


def _corner(value: Array) -> Array:
    """The first elements along every axis, as many as are shown."""
    shape = list(value.shape)
    while math.prod(shape) > MOST_VALUES:
        longest = shape.index(max(shape))
        rest = math.prod(shape) // shape[longest]
        shape[longest] = max(shape[longest] // 2, MOST_VALUES // rest)
    return value[tuple(slice(size) for size in shape)]


def _texts(part: Array) -> Any:
    if part.ndim == 0:
        return str(part)[:200]
    return [_texts(each) for each in part]
