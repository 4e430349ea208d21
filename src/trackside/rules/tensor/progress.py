"""A rule about the job itself: whether it still does anything."""

from collections.abc import Iterable
from dataclasses import field

from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.rules.builtin import TensorRule
from trackside.rules.onsets import Onsets
from trackside.rules.parameters import parameter
from trackside.rules.saved.evidence import Evidence


@dataclass
class StalledTrainingRule(TensorRule):
    """The job runs but no longer saves anything.

    Fires when nothing new has been saved for `threshold` seconds while the job runs. The time
    counts from the first tensor, or from the start of the rule if that is later.
    """

    is_of_worker = False

    advice = (
        "Check the job's log and its processes: a data loader that hangs, a collective that one "
        "rank never reached, a full disk. If steps are always slow, save more often or raise the "
        "threshold."
    )

    threshold: float = parameter(1800.0, "Seconds without anything new.", at_least=0)
    stop_training_on_fire: bool = parameter(False, "Stop the job when the rule fires.")
    training_job_name_prefix: str | None = parameter(
        None, "Accepted for compatibility: the rule knows its job."
    )
    _onsets: Onsets = field(default_factory=lambda: Onsets(healthy_checks=1), init=False)
    _last_step: int = field(default=0, init=False)

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        if evidence.steps:
            self._last_step = evidence.steps[-1]
        quiet = evidence.quiet_seconds
        if self._onsets.begins("", quiet > self.threshold and not evidence.is_all):
            yield self.found(
                evidence,
                self._last_step,
                f"Nothing has been saved for {quiet:.0f} s since step {self._last_step}, longer "
                f"than {self.threshold:g} s.",
                value=quiet,
                threshold=self.threshold,
            )
