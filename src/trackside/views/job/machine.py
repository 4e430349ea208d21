"""What the machine tab shows: which curves share one axis of time, bands for the phases of the job,
for evaluation and for checkpoints, and where findings begin.
"""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trackside.curves.machine_curves import FIGURES, figure_of
from trackside.errors import TracksideError
from trackside.jobs.records import Record
from trackside.records.finding import Finding
from trackside.records.placed import LOCAL
from trackside.texts.truncation import shortened
from trackside.views.curves.curve_list import CurveInfo
from trackside.views.curves.series import CurveReader, CurveRef
from trackside.views.job.machine_bands import recorded_bands

if TYPE_CHECKING:
    from trackside.jobs.jobs import Jobs

MOST_LINES = 64
"""Of one chart."""
MOST_MARKS = 50
_MOST_TEXT = 200
_STEP_SECONDS = "step_seconds"
_CHARTS = list(dict.fromkeys(figure.chart for figure in FIGURES if figure.chart))

Chart = dict[str, Any]


class MachineView:
    """All methods may be called from several threads."""

    def __init__(self, jobs: "Jobs", reader: CurveReader) -> None:
        self._jobs = jobs
        self._reader = reader

    def view(self, name: str) -> dict[str, Any]:
        """In the form of the page's API. `JobNotFound` for an unknown name."""
        record = self._jobs.record(name)
        curves = self._reader.curves(name)
        phases = phases_of(record)
        start = phases[0]["start"] if phases else record.history.created
        ended = record.history.ended
        end = time.time() if ended is None else ended
        return {
            "start": start,
            "end": end,
            "phases": phases,
            "bands": recorded_bands(record, self._jobs.settings.home, end - start),
            "marks": self._marks(name, curves),
            "charts": charts_of(curves, is_one_machine=_is_one_machine(record)),
        }

    def _marks(self, name: str, curves: Sequence[CurveInfo]) -> list[dict[str, Any]]:
        """The first finding of each rule and tensor, at the time of its step where that is known;
        else when it was found."""
        marks = []
        for finding in first_findings(self._jobs.findings(name)):
            step = finding.step
            known = None if step is None else time_of_step(self._reader, name, step, curves)
            at = finding.time if known is None else known
            marks.append({"time": at, "step": step, "text": _text(finding)})
        return sorted(marks, key=lambda mark: mark["time"])


def time_of_step(
    reader: CurveReader, job: str, step: int, curves: Sequence[CurveInfo] | None = None
) -> float | None:
    """When the job reached a step, by the first curve that has it or a later one; None if none has.

    What the hook saved counts steps as findings do; a metric may count epochs. The machine's
    figures have no steps."""
    listed = reader.curves(job) if curves is None else curves
    over_steps = [each for each in listed if each.kind != "machine" and each.last_step >= step]
    for curve in sorted(over_steps, key=lambda each: each.kind != "vital"):
        try:
            points = reader.points(CurveRef(job, curve.id))
        except TracksideError:
            continue
        at = int(points.num_steps_below(np.array([step]))[0])
        moment = float(points.times_at(np.array([at]))[0]) if at < len(points) else math.nan
        if math.isfinite(moment):
            return moment
    return None


def phases_of(record: Record) -> list[dict[str, Any]]:
    """From the journal; without the final status, which lasts."""
    return [
        {"name": str(each.secondary), "start": each.start, "end": each.end}
        for each in record.history.transitions
        if not each.secondary.is_final
    ]


def charts_of(curves: Sequence[CurveInfo], *, is_one_machine: bool) -> list[Chart]:
    """Loss, step time, and what the machine did; those without a curve are left out."""
    metrics = [curve for curve in curves if curve.kind == "metric" and not curve.same_as]
    vitals = [curve for curve in curves if curve.kind == "vital"]
    losses = [curve for curve in metrics if _is_loss(curve)]
    losses = losses or [curve for curve in vitals if _is_loss(curve)]
    steps = [curve for curve in vitals if curve.name.endswith(_STEP_SECONDS)]
    found = [_chart("Loss", "", losses), _chart("Step time", "s", steps[:1])]
    of_machine = [curve for curve in curves if curve.kind == "machine"]
    hosts = sorted({curve.host for curve in of_machine}, key=lambda host: (len(host), host))
    for title in _CHARTS:
        chosen = _of_chart(of_machine, title, hosts[:1] if is_one_machine else hosts)
        found.append(_chart(title, chosen[0].unit if chosen else "", chosen))
    return [chart for chart in found if chart["lines"]]


def first_findings(findings: Iterable[Finding]) -> Iterator[Finding]:
    seen: set[tuple[str, str]] = set()
    for finding in sorted(findings, key=lambda each: each.time):
        key = (finding.rule, finding.tensor)
        if key not in seen and len(seen) < MOST_MARKS:
            seen.add(key)
            yield finding


def _of_chart(curves: Sequence[CurveInfo], title: str, shared: Sequence[str]) -> list[CurveInfo]:
    """Hosts on one machine have the same figures of it, but each its script's own."""
    chosen = []
    for curve in curves:
        figure = figure_of(curve.name)
        if figure is None or figure.chart != title:
            continue
        if figure.is_of_script or curve.host in shared:
            chosen.append((FIGURES.index(figure), curve))
    return [curve for _, curve in sorted(chosen, key=lambda each: each[0])]


def _chart(title: str, unit: str, curves: Sequence[CurveInfo]) -> Chart:
    lines = [
        {"name": curve.name, "host": curve.host, "curve": curve.id} for curve in curves[:MOST_LINES]
    ]
    return {"title": title, "unit": unit, "lines": lines}


def _is_loss(curve: CurveInfo) -> bool:
    return "loss" in curve.name.lower()


def _is_one_machine(record: Record) -> bool:
    return record.spec.options.placement == LOCAL


def _text(finding: Finding) -> str:
    where = f" ({finding.tensor})" if finding.tensor else ""
    return shortened(f"{finding.rule}{where}: {finding.message}", _MOST_TEXT)
