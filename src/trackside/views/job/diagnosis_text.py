"""A job in one sentence: what is wrong, that nothing is, or that nobody watches.
Pure; `job_view` gathers.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trackside.quick_dataclass import dataclass
from trackside.records.rule_status import NOTHING_SAVED, Evaluation, RuleStatus, in_short
from trackside.records.status import Secondary, Status
from trackside.texts.terminal_text import one_line
from trackside.texts.truncation import shortened
from trackside.views.job.failure_reason import without_source

if TYPE_CHECKING:
    from trackside.rules.checkup.diagnosis import Diagnosis

NOT_WATCHED = "Not watched: start it with --rule all."
MOST_SENTENCE = 300
_END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_BEFORE_TRAINING = {
    Secondary.PENDING: "Waiting for resources.",
    Secondary.STARTING: "Starting.",
    Secondary.DOWNLOADING: "Downloading its input data.",
}


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a job is, as far as the sentence depends on it."""

    status: str
    secondary: str
    failure: str = ""
    """Why it failed, in one line."""
    stopping_rule: str = ""


def diagnosis_sentence(diagnosis: "Diagnosis") -> str:
    """`The learning rate is 0 in all 36 updates that were checked (since step 0).`"""
    said = first_sentence(diagnosis.message)
    known = []
    if diagnosis.step is not None and not re.search(r"\bsteps? \d", said):
        known.append(f"since step {diagnosis.step:,}")
    if diagnosis.tensor and diagnosis.tensor not in said:
        known.append(f"at {one_line(diagnosis.tensor)}")
    since = f" ({', '.join(known)})" if known else ""
    return f"{said.rstrip('.')}{since}."


def job_sentence(
    standing: Standing, diagnoses: Sequence["Diagnosis"], evaluations: Sequence[Evaluation]
) -> str:
    """One line. The likeliest cause stands for all diagnoses."""
    found = diagnosis_sentence(diagnoses[0]) if diagnoses else ""
    if standing.status == Status.FAILED:
        failed = f"Failed: {without_source(first_line(standing.failure)) or 'no reason is known'}"
        return f"{failed.rstrip('.')}. {_before_that(found)}".rstrip()
    if found:
        by_rule = standing.status == Status.STOPPED and standing.stopping_rule
        return f"Stopped by {one_line(standing.stopping_rule)}: {found}" if by_rule else found
    return _without_findings(standing, evaluations)


def first_sentence(message: str) -> str:
    return shortened(_END_OF_SENTENCE.split(one_line(message), maxsplit=1)[0], MOST_SENTENCE)


def first_line(text: str) -> str:
    found = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return shortened(one_line(found), MOST_SENTENCE)


def watched(evaluations: Sequence[Evaluation]) -> str:
    """`73 rules`, those that judge or have judged; "" without one."""
    judging = [each for each in evaluations if each.status is not RuleStatus.ERROR]
    count = sum(_num_rules(each.rule) for each in judging)
    return "" if not count else "1 rule" if count == 1 else f"{count:,} rules"


def _before_that(found: str) -> str:
    return f"The rules had found: {found}" if found else ""


def _without_findings(standing: Standing, evaluations: Sequence[Evaluation]) -> str:
    is_over = Status(standing.status).is_final
    if not is_over and (waiting := _BEFORE_TRAINING.get(Secondary(standing.secondary))):
        return waiting
    if not evaluations:
        return f"{standing.status}. {NOT_WATCHED}" if is_over else NOT_WATCHED
    if trouble := _why_not_judged(evaluations):
        return f"Not judged: {trouble}"
    rules = watched(evaluations)
    if not is_over:
        has_judged = any(each.last_step is not None for each in evaluations)
        watch = "watches" if rules == "1 rule" else "watch"
        return f"Healthy so far: {rules} {watch} it." if has_judged else "No step was judged yet."
    end = "Stopped" if standing.status == Status.STOPPED else "Healthy"
    return f"{end}: {rules} watched it and found nothing."


def _why_not_judged(evaluations: Sequence[Evaluation]) -> str:
    """If none of the rules could judge: the first one's reason."""
    broken = [each for each in evaluations if each.status is RuleStatus.ERROR]
    if len(broken) < len([each for each in evaluations if each.rule != "StalledTrainingRule"]):
        return ""
    details = next((each.details for each in broken if each.details), "")
    if details.startswith(NOTHING_SAVED):
        return "nothing was saved that rules could judge. Start it with --rule all."
    return first_line(in_short(details))


def _num_rules(rule: str) -> int:
    """The check-up is many rules under one name."""
    from trackside.rules import catalog

    if rule != "Checkup":
        return 1
    return sum(entry.is_of_checkup for entry in catalog.entries().values())
