"""A rule about the job itself: it has stopped, and where each of its processes stands."""

import time
from collections.abc import Iterable
from dataclasses import field, replace

from trackside.capture.reading.hang_files import Standing, read_standings
from trackside.capture.reading.trial_folder import TrialFolder
from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.rules.checkup.hang_text import Hung, advice_for, hung
from trackside.rules.checkup.vitals_rule import Sign, VitalsRule
from trackside.rules.rule_kinds import Kind
from trackside.rules.saved.evidence import Evidence
from trackside.rules.saved.vital_signs import VitalSigns
from trackside.storage.locate import Location


@dataclass
class Hang(VitalsRule):
    """The training hangs: no process makes a step or shows any other sign of life.

    Fires when every process has made no step for 20 times its median step, and at least 10 s, and
    meanwhile used no processor time, moved no data and stood at the same line. Where something
    outside the job may end the wait (a server, a program, a sleep, a disk), and before the first
    steps, the least time is 60 s. A job that was still before, and went on, is given twice as long.
    A process that computes, reads, writes or prints is slow, not hung.
    """

    is_of_worker = False
    kind = Kind.CAUSE
    leaves_training_loss = True
    explains = ("StalledTrainingRule",)
    advice = (
        "Look at the line that is named: what it waits for never comes. Stop the job; it will not "
        "go on by itself."
    )

    _last: tuple[int, str] | None = field(default=None, init=False)

    def judge(self, vitals: VitalSigns) -> Iterable[Sign]:
        return ()

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        if evidence.is_all:
            return []
        return self.check_before_start(evidence.trial.location)

    def check_before_start(self, place: Location) -> Iterable[Finding]:
        """Also when the job has not saved anything yet."""
        return self._found(read_standings(TrialFolder(place)))

    def _found(self, standings: list[Standing]) -> list[Finding]:
        found = hung(standings)
        if found is None or (found.step, found.place) == self._last:
            return []
        self._last = (found.step, found.place)
        return [self._finding(found)]

    def _finding(self, found: Hung) -> Finding:
        return replace(
            Finding(rule=self.name(), message=found.message),
            advice=f"{advice_for(found)} {self.advice}",
            step=max(found.step, 0),
            worker="" if found.rank is None else f"worker_{found.rank}",
            subject=found.place,
            value=round(found.quiet, 1),
            threshold=round(found.limit, 1),
            time=time.time(),
        )
