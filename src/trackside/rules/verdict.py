"""Rules on what a job has saved so far, asked once: no process, no files, no actions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from trackside.capture.trial import Trial
from trackside.finding import Finding
from trackside.rules.builtin import TensorRule
from trackside.rules.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Verdict:
    name: str
    findings: tuple[Finding, ...]
    missing: str
    """Why there was nothing to judge; "" when there was."""


def judge(rules: Mapping[str, TensorRule], trial: Trial) -> Iterator[Verdict]:
    """Each rule, under the name it was given; all of them share one read."""
    evidence = Evidence(trial)
    evidence.advance()
    for name, rule in rules.items():
        found = tuple(replace(each, configuration=name) for each in rule.look(evidence))
        yield Verdict(name, found, "" if found else rule.missing(evidence))
