"""A job as it is now, for a view that is redrawn: what is wrong, its curves, its use of the machine
and the end of its log. Each refresh reads only what is new.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trackside.curves.curve_choice import Curve, Origin
from trackside.records.status import Status
from trackside.views.job.job_sources import JobSources
from trackside.views.job.job_view import Job, job_view
from trackside.views.job.machine_use import latest_use
from trackside.views.job_setup.repeat_command import own_parameters
from trackside.views.logs.log_tail import LogTail, TailLine
from trackside.views.table.total_steps import (
    counted_steps,
    total_on_bar,
    total_on_own_bar,
    total_steps,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trackside.jobs.job_service import JobReader


@dataclass(frozen=True, slots=True)
class Snapshot:
    view: Job
    curves: Sequence[Curve]
    """The script's and the hook's, most interesting first; equal ones once."""
    use: "Mapping[str, str]"
    """Of the machine: label to value."""
    log: Sequence[TailLine]
    seconds: float | None
    """How long it has trained."""
    step: int | None
    """The last that is known."""
    of: int | None = None
    """How many there will be, if the job was given a number, or its Trainer says so."""
    is_judged: bool = True
    """Whether its rules have read everything, as far as they can."""

    @property
    def is_over(self) -> bool:
        return Status(self.view.status).is_final


class LiveJob:
    """Not thread-safe."""

    def __init__(self, jobs: "JobReader", name: str) -> None:
        self._jobs = jobs
        self._name = name
        self._sources = JobSources(jobs, name)
        self._tail = LogTail(jobs, name)
        self._of: tuple[int | None] | None = None
        """Read once."""

    def refresh(self) -> Snapshot:
        """Raises what the jobs raise: the next call may succeed."""
        view = job_view(self._jobs, self._name, self._sources)
        self._tail.refresh()
        known = self._sources.curves
        own = [
            each
            for each in self._sources.chosen()
            if each.origin is not Origin.MACHINE and not each.same_as
        ]
        step, of = self._progress(_last_step(own, view))
        return Snapshot(
            view=view,
            curves=own,
            use={} if known is None else latest_use(known),
            log=self._tail.lines(),
            seconds=_seconds(view),
            step=step,
            of=of,
            is_judged=all(each.is_over for each in self._jobs.evaluations(self._name)),
        )

    def _progress(self, step: int | None) -> tuple[int | None, int | None]:
        """As the Trainer's bar has it, which may appear later; else as capture has counted; else as
        the job was given it, or as a bar of the script's own says."""
        record = self._jobs.record(self._name)
        if (shown := total_on_bar(record)) is not None:
            return step, shown
        if (counted := counted_steps(record, self._jobs.settings.layout)) is not None:
            return counted
        return step, self._total() or total_on_own_bar(record)

    def _total(self) -> int | None:
        if self._of is None:
            described = self._jobs.describe(self._name)
            arguments = described["Trackside"]["options"].get("Arguments") or ()
            self._of = (total_steps(own_parameters(described), arguments),)
        return self._of[0]


def _seconds(view: Job) -> float | None:
    """Of its phases from training on."""
    trained = [phase for phase in view.phases if phase.name == "Training"]
    if not trained:
        return None
    return sum((phase.end or time.time()) - phase.start for phase in trained)


def _last_step(curves: Sequence[Curve], view: Job) -> int | None:
    """As the script counts; without curves as the rules do, who count evaluation passes too."""
    steps = [int(each.series.steps[-1]) for each in curves if len(each.series)]
    judged = [rule.last_step for rule in view.rules if rule.last_step is not None]
    return max(steps or judged, default=None)
