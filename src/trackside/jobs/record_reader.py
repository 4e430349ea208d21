"""Reads a job's data from its folder or from storage, given its record from this machine or a
server. Each method imports what it needs when called.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trackside.jobs.records import Record, read_rules
from trackside.records.layout import Home
from trackside.records.rule_status import Evaluation

if TYPE_CHECKING:
    from trackside.errors import JobStopped
    from trackside.jobs.artifacts import Artifact
    from trackside.records.finding import Finding
    from trackside.storage.locate import Location


class RecordReader(ABC):
    """The part of `JobReader` that is the same everywhere."""

    _home: Home

    @abstractmethod
    def _record(self, name: str) -> Record:
        """Spec and history as they are now. `JobNotFound` when there is none."""

    def record(self, name: str) -> Record:
        """Spec and history as they are now, without reconciling the job."""
        return self._record(name)

    def findings(self, name: str) -> "list[Finding]":
        from trackside.jobs.rule_updates import RuleUpdates

        updates = RuleUpdates(self._record(name), self._home).new()
        return [finding for item in updates if isinstance(item, tuple) for finding in item]

    def evaluations(self, name: str) -> list[Evaluation]:
        return read_rules(self._record(name), self._home)

    def artifacts(self, name: str) -> "list[Artifact]":
        from trackside.jobs.artifacts import artifacts_of

        return artifacts_of(self._record(name), self._home)

    def curve_places(self, name: str) -> "Sequence[Location]":
        from trackside.jobs.curve_locations import curve_places

        return curve_places(self._record(name), self._home)

    def stop_of(self, name: str) -> "JobStopped | None":
        from trackside.jobs.end_reason import stopped

        record = self._record(name)
        return stopped(name, record.history, record.spec.stopping)
