"""The status of each rule of a job: written by its evaluator, returned by `describe()`."""

import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from trackside.files import damaged_files, durable
from trackside.files.json_record import DamagedRecord, Moment, numbered, numbered_record, parsed
from trackside.quick_dataclass import dataclass
from trackside.records.finding import RuleKey

DETAILS_MOST = 1024
NOTHING_SAVED = ("ClientError: No debugging data", "ClientError: No profiling data")
"""Prefixes of the details of a rule that had nothing to judge."""
_CONDITION_MET = re.compile(
    r"RuleEvaluationConditionMet: .*?(?: at (step \d+))? resulted in the condition being met\. "
)


class RuleStatus(StrEnum):
    """The contract's six."""

    IN_PROGRESS = "InProgress"
    NO_ISSUES_FOUND = "NoIssuesFound"
    ISSUES_FOUND = "IssuesFound"
    ERROR = "Error"
    STOPPING = "Stopping"
    STOPPED = "Stopped"

    @property
    def is_final(self) -> bool:
        return self not in (RuleStatus.IN_PROGRESS, RuleStatus.STOPPING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One configured rule. Evaluation continues after a finding; `is_over`: it has ended."""

    configuration: str
    """RuleConfigurationName."""
    rule: str
    """What it invokes."""
    is_profiler: bool = False
    status: RuleStatus = RuleStatus.IN_PROGRESS
    details: str = ""
    num_findings: int = 0
    last_step: int | None = None
    """The last step it has evaluated."""
    is_over: bool = False
    modified: Moment = 0.0
    """Of the status, seconds since the epoch."""

    @property
    def key(self) -> RuleKey:
        return self.is_profiler, self.configuration


def in_short(details: str) -> str:
    """Without SageMaker's wording of every finding: `step 3: The loss is nan.`"""
    return _CONDITION_MET.sub(r"\1: ", details).removeprefix(": ")


def write_evaluations(path: Path, evaluations: Sequence[Evaluation]) -> None:
    durable.write_json(path, [numbered(each) for each in evaluations])


def read_evaluations(path: Path) -> list[Evaluation]:
    """In the order of the request; empty before an evaluator has started."""
    try:
        return parse_evaluations(path.read_bytes(), path)
    except FileNotFoundError:
        return []


def parse_evaluations(data: bytes, where: object = "a file of statuses") -> list[Evaluation]:
    """Those that can be read; damage is logged once, with `where`."""
    try:
        listed = parsed(data)
    except DamagedRecord as error:
        damaged_files.say_once(where, f"{error}; it is left out")
        return []
    found = []
    for each in listed if isinstance(listed, list) else [listed]:
        try:
            found.append(numbered_record(Evaluation, each))
        except DamagedRecord as error:
            damaged_files.say_once(where, f"a rule's status is left out: {error}")
    return found
