"""Rank against step, for a job of several workers: step time, split into compute and wait where
waiting was measured; loss and gradient norm of each. Only what was recorded is given.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trackside.capture.dtypes import Array
from trackside.capture.modes import ModeKeys
from trackside.capture.reading.rank_figures import RankFigureFiles, WorkerFigures
from trackside.capture.reading.rank_times import WorkerTimes, rank_of, read_rank_times
from trackside.capture.reading.trial_folder import TrialFolder
from trackside.capture.trial import Trial
from trackside.capture.trial_layout import VITALS
from trackside.errors import NoTensors, TracksideError
from trackside.jobs.records import Record
from trackside.records.layout import Home, profile_of
from trackside.rules.saved.profile import STEP, Profile
from trackside.rules.saved.profile_tables import Events
from trackside.storage.locate import entries_below, locate_to_read
from trackside.views.curves.binary_frame import encode
from trackside.views.tensors.open_trials import OpenTrials

MOST_COLUMNS = 2_000
_MOST_LOSSES = 8
_MOST_PROFILE_BYTES = 256 << 20
_TRAINING = (ModeKeys.TRAIN.value, ModeKeys.GLOBAL.value)
_TRAIN = (f"{STEP}TRAIN", f"{STEP}GLOBAL")
_EVERY_RANK = (
    "Start the job with include_workers=all in the hook's parameters to have every rank's."
)


@dataclass(frozen=True, slots=True)
class Points:
    """Some figure of one rank: each value holds from its first to its last step."""

    first: Array
    last: Array
    values: Array
    weights: Array
    """How many steps each is the mean of."""


class Ranks:
    """All methods may be called from several threads."""

    def __init__(self, trials: OpenTrials, home: Home) -> None:
        self._trials = trials
        self._home = home

    def frame(self, record: Record) -> bytes:
        """A binary frame, an item for each quantity."""
        return encode(self.items(record))

    def items(self, record: Record) -> list[dict[str, Any]]:
        found: dict[str, Mapping[str, Points]] = {}
        times: list[WorkerTimes] = []
        try:
            with self._trials.get(record) as trial:
                folder = TrialFolder(trial.location)
                times = read_rank_times(folder)
                of_ranks = RankFigureFiles(folder).read()
                found = {
                    "loss": _of_most_ranks(_losses(trial), _figures(of_ranks, "loss")),
                    "gradient_norm": _of_most_ranks(
                        _gradient_norms(trial), _figures(of_ranks, "gradient_norm")
                    ),
                }
                sampled = _scalar(trial, f"{VITALS}step_seconds")
        except NoTensors:
            sampled = {}
        steps, source = self._steps(record, times, sampled)
        found["step"] = steps
        found["slowest"] = _of_times(times, lambda each: each.longest)
        found["wait"] = _waits(times)
        return _items(found, source, num_ranks=max(map(len, found.values())))

    def _steps(
        self, record: Record, times: Sequence[WorkerTimes], sampled: Mapping[str, Points]
    ) -> tuple[dict[str, Points], str]:
        """The best record of step times, and which it is."""
        if times:
            means = _of_times(times, lambda each: each.seconds / each.count)
            return means, "Measured by the hook in every process."
        if events := self._events(record):
            return events, "From the profiler's timeline."
        return dict(sampled), "From vitals, which are sampled."

    def _events(self, record: Record) -> dict[str, Points]:
        where = profile_of(record.spec)
        if where is None:
            return {}
        place = locate_to_read(where, home=self._home.root)
        profile = Profile(place, home=self._home.root)
        profile.end()
        try:
            if sum(entry.size_bytes for _, entry in entries_below(place)) > _MOST_PROFILE_BYTES:
                return {}
            profile.advance()
        except TracksideError:
            return {}
        found = {}
        for worker, phases in profile.events.items():
            for phase in _TRAIN:
                if phase in phases:
                    found[f"worker_{worker.partition('-')[0]}"] = _of_events(phases[phase])
        return found


def _items(
    found: Mapping[str, Mapping[str, Points]], source: str, *, num_ranks: int
) -> list[dict[str, Any]]:
    items = []
    steps, wait = found["step"], found["wait"]
    for quantity, unit in _UNITS.items():
        of_ranks = found.get(quantity, {})
        item: dict[str, Any] = {"quantity": quantity, "unit": unit, "note": ""}
        if quantity == "compute":
            of_ranks = _computes(steps, wait)
        item |= _grid(of_ranks)
        if quantity in ("step", "slowest") and of_ranks:
            item["note"] = source
        elif not of_ranks:
            item["note"] = _MISSING[quantity]
        elif len(of_ranks) < num_ranks:
            item["note"] = f"Of {len(of_ranks)} of {num_ranks} ranks. {_EVERY_RANK}"
        items.append(item)
    return items


_UNITS = {
    "step": "s",
    "compute": "s",
    "wait": "s",
    "slowest": "s",
    "loss": "",
    "gradient_norm": "",
}
_WAIT_MISSING = (
    "Waiting was not measured. It is for models in DistributedDataParallel that the hook watches."
)
_MISSING = {
    "step": "No step times were recorded: the job was not captured, or by an older version.",
    "compute": _WAIT_MISSING,
    "wait": _WAIT_MISSING,
    "slowest": "The longest steps are known only from the hook's own records.",
    "loss": "No losses were saved: no backward was seen, or the job ran under an older version.",
    "gradient_norm": "No gradient norms were saved: no optimizer step was seen, weights are "
    "sharded, or the job ran under an older version.",
}


def _grid(of_ranks: Mapping[str, Points]) -> dict[str, Any]:
    """A row for each rank and a column for each group of steps; NaN where nothing was recorded."""
    ranks = sorted(of_ranks, key=rank_of)
    steps = _columns([of_ranks[rank] for rank in ranks])
    cells = [_row(of_ranks[rank], steps) for rank in ranks]
    flat = np.concatenate(cells) if cells else np.empty(0)
    return {"ranks": ranks, "arrays": {"steps": steps, "cells": flat.astype(np.float32)}}


def _columns(of_ranks: Sequence[Points]) -> Array:
    """First steps of the columns: those that were recorded, or evenly many of them."""
    if not of_ranks:
        return np.empty(0)
    steps: Array = np.unique(np.concatenate([points.first for points in of_ranks]))
    steps = steps.astype(np.float64)
    if len(steps) <= MOST_COLUMNS:
        return steps
    low, high = steps[0], max(float(points.last[-1]) for points in of_ranks) + 1
    columns: Array = low + (high - low) * np.arange(MOST_COLUMNS) / MOST_COLUMNS
    return columns


def _row(points: Points, steps: Array) -> Array:
    """The mean of the values that begin in each column; one that covers several is in all."""
    cells = np.full(len(steps), np.nan)
    known = np.isfinite(points.values)
    first, last = points.first[known], points.last[known]
    values, weights = points.values[known], points.weights[known]
    begin = np.searchsorted(steps, first, side="right") - 1
    end = np.searchsorted(steps, last, side="right") - 1
    totals = np.bincount(begin, values * weights, len(steps))
    counts = np.bincount(begin, weights, len(steps))
    cells[counts > 0] = totals[counts > 0] / counts[counts > 0]
    for place in np.flatnonzero(end > begin):
        covered = cells[begin[place] + 1 : end[place] + 1]
        covered[np.isnan(covered)] = values[place]
    return cells


def _of_times(
    times: Sequence[WorkerTimes], value: Callable[[WorkerTimes], Array]
) -> dict[str, Points]:
    return {
        each.worker: Points(each.first, each.last, value(each), each.count)
        for each in times
        if len(each.first)
    }


def _waits(times: Sequence[WorkerTimes]) -> dict[str, Points]:
    found = _of_times(times, lambda each: each.wait)
    return {rank: points for rank, points in found.items() if np.isfinite(points.values).any()}


def _computes(steps: Mapping[str, Points], wait: Mapping[str, Points]) -> dict[str, Points]:
    """What is left of a step where waiting was measured in it."""
    return {
        rank: Points(
            points.first,
            points.last,
            np.maximum(points.values - wait[rank].values, 0.0),
            points.weights,
        )
        for rank, points in steps.items()
        if rank in wait and len(wait[rank].values) == len(points.values)
    }


def _of_events(events: Events) -> Points:
    order = np.argsort(events.steps, kind="stable")
    steps = events.steps[order].astype(np.float64)
    return Points(steps, steps, events.durations[order], np.ones(len(steps)))


def _figures(of_ranks: Sequence[WorkerFigures], figure: str) -> dict[str, Points]:
    """What every rank sampled, whether it saves tensors or not."""
    found = {}
    for each in of_ranks:
        steps, values = each.curve(figure)
        if len(steps):
            found[each.worker] = Points(steps, steps, values, np.ones(len(steps)))
    return found


def _of_most_ranks(
    saved: Mapping[str, Points], sampled: Mapping[str, Points]
) -> Mapping[str, Points]:
    """From one source, so that ranks can be compared: what was saved, if that is of all of them."""
    return saved if len(saved) >= len(sampled) else sampled


def _losses(trial: Trial) -> dict[str, Points]:
    """Of several, the one saved most often in training."""
    names = trial.tensor_names(collection="losses")[:_MOST_LOSSES]
    found = [_scalar(trial, name) for name in names]
    return max(
        found, key=lambda each: sum(len(points.first) for points in each.values()), default={}
    )


def _gradient_norms(trial: Trial) -> dict[str, Points]:
    return _scalar(trial, f"{VITALS}gradient_norm")


def _scalar(trial: Trial, name: str) -> dict[str, Points]:
    """A tensor of one number, of each worker that saved it, at training steps."""
    if not trial.has_tensor(name):
        return {}
    found = {}
    for worker in trial.workers():
        cube = trial.cube([name], "mean", worker=worker)
        all_steps = np.array(cube.steps, np.int64)
        saved = cube.saved[:, 0] & np.isin(trial.step_table.modes_at(all_steps), _TRAINING)
        steps = all_steps[saved].astype(np.float64)
        if len(steps):
            found[worker] = Points(steps, steps, cube.values[saved, 0], np.ones(len(steps)))
    return found
