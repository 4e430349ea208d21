"""New results of the rules of a job at a server since the last poll: its evaluator publishes them
to storage within a second."""

import time
from collections.abc import Iterator
from pathlib import Path

from trackside.errors import ObjectNotFound, StoreUnreachable
from trackside.jobs.records import Record
from trackside.jobs.rule_updates import AFTER_END_SECONDS, Findings
from trackside.records import evaluator_process
from trackside.records.finding import RuleKey, parse_findings
from trackside.records.rule_status import Evaluation, RuleStatus, parse_evaluations
from trackside.storage.locate import locate

_POLL_SECONDS = 1.0
_QUIET_SECONDS = 20.0
"""Rules without an update for so long after the job's end have no evaluator."""


class PublishedUpdates:
    """Each call of `new` continues where the last stopped."""

    def __init__(self, record: Record, home: Path) -> None:
        self._has_rules = evaluator_process.has_rules(record.spec)
        self._uri = record.keys.rules
        self._home = home
        self._offset = 0
        self._reported: dict[RuleKey, RuleStatus] = {}
        self._seen: list[Evaluation] = []
        self._polled_at = self._moved_at = -AFTER_END_SECONDS
        self._ended_at: float | None = None

    def new(self, *, at_rest: bool = False) -> Iterator[Findings | Evaluation]:
        """Findings in the order they were written, then each rule whose status has changed.

        `at_rest` makes no difference: what is published together is read together.
        """
        now = time.monotonic()
        if not self._has_rules or now - self._polled_at < _POLL_SECONDS:
            return
        self._polled_at = now
        try:
            # Published in the other order: a status comes with the findings that caused it.
            evaluations = parse_evaluations(self._get("statuses.json") or b"[]")
            found = self._new_findings()
        except StoreUnreachable:
            return  # read again in a moment
        if found or evaluations != self._seen:
            self._moved_at, self._seen = now, evaluations
        if found:
            yield found
        for evaluation in evaluations:
            if self._reported.get(evaluation.key) is not evaluation.status:
                self._reported[evaluation.key] = evaluation.status
                yield evaluation

    @property
    def is_held_back(self) -> bool:
        return False

    def is_over(self) -> bool:
        """Whether to stop waiting for more, once the job itself has ended."""
        now = time.monotonic()
        self._ended_at = self._ended_at or now
        if not self._has_rules or (self._seen and all(each.is_over for each in self._seen)):
            return True
        waited = now - self._ended_at
        return waited > AFTER_END_SECONDS or min(waited, now - self._moved_at) > _QUIET_SECONDS

    def _new_findings(self) -> Findings:
        data = self._get("findings.jsonl", self._offset)
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return tuple(parse_findings(whole))

    def _get(self, file: str, start: int = 0) -> bytes:
        location = locate(self._uri, home=self._home, hurried=True).child(file)
        try:
            return location.store.get(location.key, start)
        except ObjectNotFound:
            return b""
