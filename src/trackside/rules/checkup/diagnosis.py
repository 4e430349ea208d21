"""From findings to what is wrong: those with one cause together, the likeliest cause first.

Decides by the findings and what each rule's class declares, which the catalog knows without
importing the rules: so it can be repeated cheaply wherever findings are read.
"""

import json
import math
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.rules import catalog
from trackside.rules.rule_kinds import Kind

_CERTAIN = "certain"
_CONFIDENCE = {
    Kind.MISTAKE: _CERTAIN,
    Kind.CAUSE: "likely",
    Kind.MACHINE: "likely",
    Kind.OUTCOME: "possible",
}
_UNKNOWN = "found"
"""The confidence for rules whose limits the user chose."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing that is wrong."""

    cause: str
    """The rule that found it."""
    confidence: str
    """certain, likely or possible; found for rules whose limits the user chose."""
    step: int | None
    """The step at which it started."""
    tensor: str
    """The layer or tensor where it started; empty when it concerns the whole training."""
    line: str
    """`train.py:31`, if reading the script shows it, too; then it is certain."""
    message: str
    advice: str
    findings: tuple[Finding, ...]
    """The evidence: those of the cause, then what it explains."""

    @property
    def explains(self) -> tuple[str, ...]:
        """Rules whose findings are its consequences."""
        names = dict.fromkeys(finding.rule for finding in self.findings)
        return tuple(name for name in names if name != self.cause)

    def to_line(self, rank: int) -> bytes:
        """A line of JSON, for programs; `diagnosis` is its rank, from 1, the likeliest."""
        record: dict[str, Any] = {
            "diagnosis": rank,
            "rule": self.cause,
            "cause": self.cause,
            "confidence": self.confidence,
            "step": self.step,
            "tensor": self.tensor,
            "line": self.line,
            "message": self.message,
            "advice": self.advice,
            "explains": list(self.explains),
        }
        return json.dumps(record, ensure_ascii=False).encode() + b"\n"


def is_of_checkup(finding: Finding) -> bool:
    return finding.rule in _ranks()


def diagnose(findings: Iterable[Finding]) -> list[Diagnosis]:
    """What is wrong, the likeliest first; nothing when nothing was found.

    Findings of the check-up come first, then those of rules that the user chose, by the step at
    which they started, then what only costs time.
    """
    by_rule: dict[str, list[Finding]] = {}
    for finding in findings:
        by_rule.setdefault(finding.rule, []).append(finding)
    causes: list[str] = []
    consequences: dict[str, list[str]] = {}
    for name in sorted(by_rule, key=lambda name: _rank(name, by_rule[name])):
        cause = next((each for each in causes if _explains(each, name)), None)
        if cause is None:
            causes.append(name)
        else:
            consequences.setdefault(cause, []).append(name)
    return [
        _diagnosis(name, by_rule[name], [f for c in consequences.get(name, ()) for f in by_rule[c]])
        for name in causes
    ]


@cache
def _ranks() -> dict[str, int]:
    """Of the check-up's rules, in the order of their list."""
    names = [each.name for each in catalog.entries().values() if each.is_of_checkup]
    return {name: rank for rank, name in enumerate(names)}


@cache
def _machine_ranks() -> dict[str, int]:
    """Of profiler rules: those that explain most come first."""
    rules = [each for each in catalog.entries().values() if each.kind is Kind.MACHINE]
    rules.sort(key=lambda each: -len(each.explains))
    return {each.name: rank for rank, each in enumerate(rules)}


def _rank(name: str, findings: Sequence[Finding]) -> tuple[float, float]:
    ranks, machine = _ranks(), _machine_ranks()
    started = min((each.step for each in findings if each.step is not None), default=math.inf)
    entry = catalog.entries().get(name)
    if entry is not None and entry.ranks_before_if_at_start and started == 0:
        return ranks[entry.ranks_before_if_at_start] - 0.5, started
    if name in machine:
        return len(ranks) + 1 + machine[name], 0
    return ranks.get(name, len(ranks)), started


def _explains(cause: str, effect: str) -> bool:
    first, second = catalog.entries().get(cause), catalog.entries().get(effect)
    if first is None or second is None:
        return False  # a rule of the user's own
    if effect in first.explains:
        return True
    if not first.is_of_checkup or first.leaves_training_loss:
        return False
    if second.is_independent or second.leaves_training_loss:
        return False
    if second.kind is Kind.SYMPTOM:
        return True
    if first.kind is Kind.OUTCOME:
        return second.kind is Kind.OUTCOME
    return second.is_of_checkup


def _diagnosis(name: str, found: Sequence[Finding], consequences: Sequence[Finding]) -> Diagnosis:
    first = min(found, key=lambda finding: finding.step or 0)
    entry = catalog.entries().get(name)
    known = _UNKNOWN if entry is None else _CONFIDENCE.get(entry.kind, _UNKNOWN)
    return Diagnosis(
        cause=name,
        confidence=_CERTAIN if first.line else known,
        step=first.step,
        tensor=first.tensor,
        line=first.line,
        message=first.message,
        advice=first.advice,
        findings=(*found, *consequences),
    )
