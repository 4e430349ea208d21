"""Composes notifications about a job: its findings and its result.

Pure: made from the job's own records. `notifications.py` sends them.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.records.journal import History
from trackside.records.status import Secondary, Status
from trackside.texts.terminal_text import one_line
from trackside.texts.truncation import shortened

MOST_FINDINGS = 10
"""Findings in one message; the others are only counted."""
_SENTENCE_MOST = 400
_SAID = re.compile(r'ErrorMessage "(.*?)"?(?:\n|$)', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Alert:
    event: str
    """`finding` or `end`."""
    job: str
    status: str
    subject: str
    """One line: the job and its result."""
    reason: str
    """One sentence; empty when there is nothing to say."""
    findings: tuple[Finding, ...]
    num_findings: int
    """Total number, listed or not."""
    commands: tuple[str, ...]
    """Commands that show more details."""

    @property
    def text(self) -> str:
        """As text that ends with a newline."""
        parts = [self.subject + (f": {self.reason}" if self.reason else ".")]
        if self.findings:
            left = self.num_findings - len(self.findings)
            more = [f"- {left} more"] if left > 0 else []
            parts.append("\n".join(["Findings:", *map(_line, self.findings), *more]))
        parts.append("\n".join(["For details:", *(f"  {each}" for each in self.commands)]))
        return "\n\n".join(parts) + "\n"

    @property
    def record(self) -> dict[str, Any]:
        """As JSON-compatible data."""
        return {
            "event": self.event,
            "job": self.job,
            "status": self.status,
            "reason": self.reason,
            "findings": [json.loads(each.to_line()) for each in self.findings],
            "num_findings": self.num_findings,
            "look": [*self.commands],
            "text": self.text,
        }


def of_finding(job: str, status: str, finding: Finding) -> Alert:
    return Alert(
        event="finding",
        job=job,
        status=status,
        subject=one_line(f"{job}: {finding.rule} found something{_at(finding)}"),
        reason="",
        findings=(finding,),
        num_findings=1,
        commands=(f"trackside findings {job}", f"trackside show {job}"),
    )


def of_end(job: str, history: History, findings: Sequence[Finding]) -> Alert:
    """The first findings are listed: the others often follow from them."""
    found = f" with {len(findings)} finding{'s' * (len(findings) != 1)}" if findings else ""
    more = (f"trackside report {job}",) if findings else ()
    return Alert(
        event="end",
        job=job,
        status=str(history.state.status),
        subject=one_line(f"{job} {_became(history)}{found}"),
        reason=_why(history),
        findings=tuple(replace(each, advice="") for each in findings[:MOST_FINDINGS]),
        num_findings=len(findings),
        commands=(f"trackside show {job}", f"trackside logs {job}", *more),
    )


def _became(history: History) -> str:
    match history.state.status:
        case Status.COMPLETED:
            return "completed"
        case Status.FAILED:
            return "failed"
        case _:
            return "was stopped"


def _why(history: History) -> str:
    state = history.state
    if state.status is Status.FAILED:
        return _sentence(history.failure_reason or history.message)
    if state.secondary is Secondary.MAX_RUNTIME_EXCEEDED:
        return "It reached its time limit."
    if state.secondary is Secondary.MAX_WAIT_EXCEEDED:
        return "It waited for longer than it may, and never started."
    if state.status is Status.STOPPED and history.stopping_rule:
        return f"The rule {history.stopping_rule!r} stopped it."
    if state.status is Status.STOPPED:
        return "Somebody stopped it."
    return ""


def _sentence(reason: str) -> str:
    """The script's own message comes before other evidence."""
    said = _SAID.search(reason)
    text = said[1] if said else next(iter(reason.strip().splitlines()), "")
    return shortened(one_line(text), _SENTENCE_MOST)


def _line(finding: Finding) -> str:
    advice = f" Try: {finding.advice}" if finding.advice else ""
    line = f"{finding.rule}{_at(finding)}: {finding.message}{advice}"
    return f"- {shortened(one_line(line), _SENTENCE_MOST)}"


def _at(finding: Finding) -> str:
    """The step, the layer and the line of the script."""
    step = "" if finding.step is None else f" at step {finding.step}"
    worker = f" on {finding.worker}" if finding.worker not in ("", "worker_0") else ""
    line = f" ({finding.line})" if finding.line else ""
    return f"{step}{f' in {finding.tensor}' if finding.tensor else ''}{worker}{line}"
