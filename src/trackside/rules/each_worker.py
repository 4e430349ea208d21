"""A tensor rule on a job with several workers: it judges each, and says which.

What is so at all of them is reported once; so is what one worker has and another gets later.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from trackside.records.finding import Finding
from trackside.rules.builtin import BuiltInRule, Need, TensorRule
from trackside.rules.saved.evidence import Evidence
from trackside.storage.locate import Location

_MOST_NAMED = 4

Place = tuple[str, str, str, str]
"""Rule, mode, tensor and subject of a finding."""


def for_each_worker(rule: BuiltInRule[Any]) -> BuiltInRule[Any]:
    """One that has not checked anything yet."""
    return EachWorker(rule) if isinstance(rule, TensorRule) and rule.is_of_worker else rule


class EachWorker(TensorRule):
    def __init__(self, rule: TensorRule) -> None:
        self._unused = rule
        self._rules: dict[str, TensorRule] = {}
        self._reporter: dict[Place, str] = {}
        """The worker that each thing was first found at."""

    def needs(self) -> tuple[Need, ...]:
        return self._unused.needs()

    def judges_losses(self) -> bool:
        return self._unused.judges_losses()

    def missing(self, evidence: Evidence) -> str:
        return self._unused.missing(evidence)

    def files(self, evidence: Evidence) -> Mapping[str, bytes]:
        return next(iter(self._rules.values()), self._unused).files(evidence)

    def check_before_start(self, place: Location) -> Iterable[Finding]:
        return self._unused.check_before_start(place)

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        workers = evidence.workers()
        if len(workers) < 2:
            return self._rule(workers[0] if workers else "").check(evidence)
        found: dict[tuple[Place, int | None], dict[str, Finding]] = {}
        for worker in workers:
            for each in self._rule(worker).check(evidence.of(worker)):
                found.setdefault((_place(each), each.step), {}).setdefault(worker, each)
        return list(self._news(found, len(workers)))

    def _news(
        self, found: Mapping[tuple[Place, int | None], Mapping[str, Finding]], num_workers: int
    ) -> Iterator[Finding]:
        for (place, _), by_worker in sorted(found.items(), key=lambda each: each[0][1] or 0):
            reporter = self._reporter.setdefault(place, next(iter(by_worker)))
            if reporter in by_worker:
                yield _with_workers(by_worker[reporter], reporter, list(by_worker), num_workers)

    def _rule(self, worker: str) -> TensorRule:
        if worker not in self._rules:
            self._rules[worker] = deepcopy(self._unused)
        return self._rules[worker]


def _with_workers(
    finding: Finding, reporter: str, workers: Sequence[str], num_workers: int
) -> Finding:
    if finding.worker:  # the rule has looked at all of them, and names one
        return finding
    if len(workers) == num_workers:
        return replace(finding, message=f"{finding.message} So at all {num_workers} workers.")
    if len(workers) > 1:
        named = ", ".join(workers[:_MOST_NAMED])
        more = "" if len(workers) <= _MOST_NAMED else f" and {len(workers) - _MOST_NAMED} more"
        message = f"{finding.message} So at {named}{more}."
        return replace(finding, worker=reporter, message=message)
    return replace(finding, worker=reporter)


def _place(finding: Finding) -> Place:
    return finding.rule, finding.mode, finding.tensor, finding.subject
