"""What the view of a job needs, from readers that a server shares among all views: curves are read
once, and few of their points are in memory.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trackside.capture.exceptions import SMDebugError
from trackside.capture.reading.rank_times import ranks_of
from trackside.capture.trial import Trial
from trackside.capture.trial_layout import VITALS
from trackside.errors import NoTensors, TracksideError
from trackside.jobs.job_service import JobReader
from trackside.views.curves.curve_list import CurveInfo
from trackside.views.curves.series import CurveReader, CurveRef
from trackside.views.job.evidence import KnownCurve
from trackside.views.table.kept_figures import kept_or_made
from trackside.views.tensors.heat_map import figures_by_kind
from trackside.views.tensors.open_trials import OpenTrials

_FACTS = "sources"


class SharedSources:
    """Of one job. Not thread-safe."""

    def __init__(self, jobs: JobReader, name: str, reader: CurveReader, trials: OpenTrials) -> None:
        self._jobs = jobs
        self._name = name
        self._reader = reader
        self._trials = trials
        self._curves: list[CurveInfo] = []
        self._figures: dict[str, tuple[str, ...]] = {}
        self._workers: list[str] = []
        self.troubles: list[str] = []

    def refresh(self, described: Mapping[str, Any]) -> None:
        self.troubles = []
        try:
            self._curves = self._reader.curves(self._name)
        except (TracksideError, OSError, SMDebugError) as error:
            self.troubles.append(f"The curves cannot be read: {error}")
        try:
            record = self._jobs.record(self._name)
            facts = self._trials.kept.fact(record, _FACTS)
            if facts is None and (sample := self._trials.sample(record)) is not None:
                facts = _facts(sample.trial)  # until somebody looks at all of them
            if facts is None:
                with self._trials.get(record) as trial:
                    facts = kept_or_made(self._trials.kept, record, trial, _FACTS, _facts)
            self._figures = {kind: tuple(figures) for kind, figures in facts["figures"].items()}
            self._workers = facts["workers"]
        except NoTensors:
            self._figures, self._workers = {}, []
        except (TracksideError, OSError, SMDebugError) as error:
            self.troubles.append(f"The saved tensors cannot be read: {error}")

    def known(self) -> list[KnownCurve]:
        return [_known(each) for each in self._curves if not each.same_as]

    def time_of_step(self, step: int) -> float | None:
        for curve in self._curves:
            if curve.kind != "machine" and curve.last_step >= step:
                points = self._reader.points(CurveRef(self._name, curve.id))
                at = int(points.num_steps_below(np.array([step]))[0])
                moment = float(points.times_at(np.array([at]))[0])
                return moment if np.isfinite(moment) else None
        return None

    def figures(self) -> Mapping[str, Sequence[str]]:
        return self._figures

    def workers(self) -> Sequence[str]:
        return self._workers


def _facts(trial: Trial) -> dict[str, Any]:
    return {"figures": figures_by_kind(trial), "workers": ranks_of(trial)}


def _known(curve: CurveInfo) -> KnownCurve:
    """A vital's name has its mode first: `TRAIN/vitals/update_ratio`."""
    mode, is_vital, name = curve.name.partition(f"/{VITALS}")
    is_loss = "loss" in curve.chart.lower()
    if curve.kind != "vital" or not is_vital:
        return KnownCurve(curve.id, curve.name, curve.kind, curve.phase, is_loss)
    return KnownCurve(curve.id, name, curve.kind, curve.phase, mode=mode)
