"""Rules on what a job has saved so far, asked once: no process, no files, no actions."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from trackside.capture.trial import Trial
from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.rules.builtin import BuiltInRule, TensorRule
from trackside.rules.custom.rule_loop import CustomJudge
from trackside.rules.each_worker import for_each_worker
from trackside.rules.rule_failure import trace_end
from trackside.rules.saved.evidence import Evidence
from trackside.rules.saved.profile import Profile

_E = TypeVar("_E", Evidence, Profile)


@dataclass(frozen=True, slots=True)
class Verdict:
    name: str
    findings: tuple[Finding, ...] = ()
    missing: str = ""
    """Why there was nothing to judge; "" when there was."""
    failure: str = ""
    """The end of the trace, of a rule that raised."""


class Saved:
    """A job's tensors and its machine's figures, each opened by the first rule that reads it
    and read once for all."""

    def __init__(
        self, trial: Callable[[], Trial], profile: Callable[[], Profile], *, is_over: bool
    ) -> None:
        """`is_over`: the job has ended, and what is there is all that there will be."""
        self._trial = trial
        self._profile = profile
        self._is_over = is_over

    @cached_property
    def tensors(self) -> Evidence:
        return self._read(Evidence(self._trial()))

    @cached_property
    def figures(self) -> Profile:
        return self._read(self._profile())

    def _read(self, evidence: _E) -> _E:
        if self._is_over:
            evidence.end()
        evidence.advance()
        return evidence


def judge(name: str, rule: BuiltInRule[Any], saved: Saved) -> Verdict:
    """By a built-in rule; `name` is what its findings are filed under."""
    evidence = saved.tensors if isinstance(rule, TensorRule) else saved.figures
    rule = for_each_worker(rule)
    found = _filed(name, rule.check(evidence))
    return Verdict(name, found, "" if found else rule.missing(evidence))


def judge_custom(
    name: str, rule: Callable[..., Any], texts: Mapping[str, str], saved: Saved, home: Path
) -> Verdict:
    """By a rule of the user's, in this process: it is theirs too."""
    evidence = saved.tensors
    found: list[Finding] = []
    try:
        invoked = texts.get("rule_to_invoke", name)
        asked = CustomJudge(rule, invoked, texts, evidence.trial, lambda uri: Trial(uri, home=home))
        for step in filter(asked.wants, evidence.steps):
            answer = asked.finding(step)
            found += [answer] if answer is not None else []
    except Exception as error:  # noqa: BLE001 the user's code: reported, and the others continue
        return Verdict(name, _filed(name, found), failure=trace_end(error))
    return Verdict(name, _filed(name, found))


def _filed(name: str, found: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(replace(each, configuration=name) for each in found)
