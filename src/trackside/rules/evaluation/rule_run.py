"""One configured rule during evaluation: how it is created, its status in SageMaker's terms, and
the on-disk note of which rule is being evaluated. The evaluator stores findings and statuses.
"""

import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, Union

from trackside.files import damaged_files, durable
from trackside.records.evaluator_process import rule_name
from trackside.records.finding import Finding, RuleKey
from trackside.records.rule_status import DETAILS_MOST, Evaluation, RuleStatus
from trackside.records.spec import RuleConfiguration
from trackside.rules import catalog
from trackside.rules.builtin import BuiltInRule
from trackside.rules.custom import rule_source
from trackside.rules.each_worker import for_each_worker
from trackside.rules.findings_file import MOST_FILED
from trackside.rules.parameters import build
from trackside.rules.watched_job import WatchedJob

if TYPE_CHECKING:
    from trackside.rules.custom.custom_rule import CustomRule

MOST_DEATHS = 2
"""Once may be coincidence: the evaluator was killed from outside while this rule was evaluated."""
Ready = Union[BuiltInRule[Any], "CustomRule"]


def is_custom(ready: Ready | None) -> TypeGuard["CustomRule"]:
    """Told without importing what runs them, which most jobs do not need."""
    return ready is not None and not isinstance(ready, BuiltInRule)


def make_ready(
    job: WatchedJob, rule: RuleConfiguration, number: int, *, with_custom: bool = True
) -> Ready | None:
    """Create the rule; `ValueError` says what is wrong and how to fix it. None for a custom rule
    unless `with_custom`.

    Chosen by `rule_to_invoke`, not by the image, whose address differs between regions: a rule with
    a source is the user's; else built-in rules come first, then those of installed packages.
    """
    if rule_source.is_custom(rule.parameters):
        return _custom(job, rule, number) if with_custom else None
    name = rule_name(rule)
    try:
        found = catalog.find(name)
    except catalog.UnknownRule:
        if name not in rule_source.installed():
            raise
        return _custom(job, rule, number) if with_custom else None
    return for_each_worker(build(found, rule.parameters))


def _custom(job: WatchedJob, rule: RuleConfiguration, number: int) -> "CustomRule":
    from trackside.rules.custom.custom_rule import CustomRule

    return CustomRule(job, rule, number)


class Case:
    """`evaluation` is what is published. A finding stays, whatever happens later."""

    def __init__(self, evaluation: Evaluation, clock: Callable[[], float] = time.time) -> None:
        self.evaluation = evaluation
        self._clock = clock

    @property
    def configuration(self) -> str:
        return self.evaluation.configuration

    @property
    def key(self) -> RuleKey:
        return self.evaluation.key

    @property
    def is_over(self) -> bool:
        return self.evaluation.is_over

    @property
    def has_found(self) -> bool:
        return self.evaluation.status is RuleStatus.ISSUES_FOUND

    def checked(self, step: int | None) -> None:
        """Record how far the rule has read."""
        if step is not None:
            self.evaluation = replace(self.evaluation, last_step=step)

    def found(self, first: Finding, count: int) -> None:
        self._become(RuleStatus.ISSUES_FOUND, _hit(first, count), num_findings=count)

    def note(self, details: str) -> None:
        """Why it has nothing to check so far; "" clears that."""
        if self.evaluation.status is RuleStatus.IN_PROGRESS:
            self._become(RuleStatus.IN_PROGRESS, details)

    def stopping(self) -> None:
        if self.evaluation.status is RuleStatus.IN_PROGRESS:
            self._become(RuleStatus.STOPPING, "The job is being stopped; its last data is read.")

    def stopped(self) -> None:
        """It was stopped, or the data it reads was switched off."""
        if self.has_found:
            self._become(RuleStatus.ISSUES_FOUND, self.evaluation.details, is_over=True)
        else:
            step = self.evaluation.last_step
            upto = "" if step is None else f" It had checked all data up to step {step}."
            details = f"The evaluation was stopped before a verdict.{upto}"
            self._become(RuleStatus.STOPPED, details, is_over=True)

    def failed(self, details: str) -> None:
        """It cannot continue. Its earlier findings remain."""
        if self.has_found:
            also = f"{self.evaluation.details} Later it ended with an error: {details}"
            self._become(RuleStatus.ISSUES_FOUND, also, is_over=True)
        else:
            self._become(RuleStatus.ERROR, details, is_over=True)

    def conclude(self, *, was_stopped: bool, missing: str = "", has_data: bool = True) -> None:
        """All data has been read. `missing`: why there was nothing for this rule; without
        `has_data` there was nothing for any rule.
        """
        step = self.evaluation.last_step
        upto = "" if step is None else f" It checked all data up to step {step}."
        if self.is_over:
            return
        if self.has_found:
            self._become(RuleStatus.ISSUES_FOUND, self.evaluation.details, is_over=True)
        elif was_stopped:
            details = f"The training job was stopped before a verdict.{upto} {missing}"
            self._become(RuleStatus.STOPPED, details.strip(), is_over=True)
        elif not has_data:
            self._become(RuleStatus.ERROR, missing, is_over=True)
        else:
            self._become(RuleStatus.NO_ISSUES_FOUND, missing, is_over=True)

    def _become(
        self,
        status: RuleStatus,
        details: str,
        *,
        is_over: bool = False,
        num_findings: int | None = None,
    ) -> None:
        details = _cut(details)
        old = self.evaluation
        is_same = (status, details) == (old.status, old.details)
        self.evaluation = replace(
            old,
            status=status,
            details=details,
            is_over=is_over,
            num_findings=old.num_findings if num_findings is None else num_findings,
            modified=old.modified if is_same else self._clock(),
        )


def _hit(first: Finding, count: int) -> str:
    """SageMaker's sentence, so that searches find it, then the finding."""
    at = "" if first.step is None else f" at step {first.step}"
    where = f"{first.tensor}: " if first.tensor else ""
    details = (
        f"RuleEvaluationConditionMet: Evaluation of the rule {first.rule}{at} resulted in the "
        f"condition being met. {where}{first.message}"
    )
    if count > MOST_FILED:
        return f"{details} {count} findings in all, of which the first {MOST_FILED} are kept."
    return details if count == 1 else f"{details} {count} findings in all."


def _cut(details: str) -> str:
    """Long texts are cut at the end: `trace_end` puts the most important part first."""
    if len(details) <= DETAILS_MOST:
        return details
    return f"{details[: DETAILS_MOST - 1]}…"


class CurrentRule:
    """Which rule is being evaluated, on disk: if it kills the evaluator, the next one knows.
    Otherwise a rule that hangs, crashes the interpreter or exhausts memory would end all others.

    Two files: the name, written often and never synced; and how many evaluators each rule ended.
    """

    def __init__(self, now: Path, deaths: Path) -> None:
        self._descriptor = os.open(now, os.O_RDWR | os.O_CREAT, 0o644)
        counts = damaged_files.read_object(deaths) or {}
        self.deaths = Counter({k: n for k, n in counts.items() if type(n) is int and 0 < n < 1000})
        """By rule: evaluators that died while it was evaluated."""
        name = os.pread(self._descriptor, 4096, 0).decode(errors="replace")
        if name:
            self.deaths[name] += 1
            durable.write_json(deaths, self.deaths)
        self.put_down()

    def take(self, rule: RuleKey) -> None:
        """This rule is being evaluated from now on."""
        self._write(_name(rule))

    def put_down(self) -> None:
        """No rule is being evaluated."""
        self._write("")

    def is_deadly(self, rule: RuleKey) -> bool:
        return self.deaths[_name(rule)] >= MOST_DEATHS

    def close(self) -> None:
        os.close(self._descriptor)

    def _write(self, name: str) -> None:
        data = name.encode()
        os.pwrite(self._descriptor, data, 0)
        os.ftruncate(self._descriptor, len(data))


def _name(rule: RuleKey) -> str:
    is_profiler, configuration = rule
    return f"{'profiler' if is_profiler else 'debug'} rule {configuration}"
