"""An issue in one sentence: `3 of 41 jobs learn nothing since yesterday 14:02: the learning rate is
0 in the warm-up; first in bert-77`. Pure.
"""

import re
from datetime import datetime, timedelta

from trackside.rules import catalog
from trackside.rules.rule_kinds import Kind
from trackside.views.job.diagnosis_text import first_sentence
from trackside.views.job.failure_reason import without_source
from trackside.views.problems.job_findings import Seen

_OUTCOMES = {
    "LossNotFinite": ("gets a loss that is not finite", "get a loss that is not finite"),
    "LossRising": ("makes its loss larger", "make their loss larger"),
    "NothingLearnt": ("learns nothing", "learn nothing"),
    "OutputIgnoresInput": ("ignores its input", "ignore their input"),
    "Overfitting": ("overfits", "overfit"),
    "StalledTrainingRule": ("is stalled", "are stalled"),
}
"""What becomes of a training: by the rules that judge that, for one job and for several."""
_OF_LARGE_NUMBERS = {"LossNotFinite", "LossRising"}
_MAKE_NUMBERS_LARGE = {
    "ExplodingGradient",
    "ForgottenZeroGrad",
    "InputNotFinite",
    "LabelsOutOfRange",
    "LearningRateTooHigh",
    "LossInputNotLogProbabilities",
    "LossWithoutBound",
    "OptimizerSettings",
    "PolicyGradientReversed",
    "UnnormalizedInput",
    "UnnormalizedTarget",
    "WeightsTooLarge",
}
"""Of no other cause does a reader expect those outcomes: with dead units a loss may get infinite,
but not because of them."""
_FAILS, _SLOW, _SICK = ("fails", "fail"), ("loses time", "lose time"), ("is sick", "are sick")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_PLAIN_WORD = re.compile(r"[A-Z][a-z]*(?![\w.])")
"""Not `NaN`, `MyRule` or `torch.nn`."""
_WEEK = timedelta(days=6)


def title(
    seen: Seen, *, num_jobs: int, of_jobs: int, first: str, since: datetime, now: datetime
) -> str:
    """`first` is the name of the first job that showed it."""
    jobs = "1 job" if of_jobs == 1 else f"{num_jobs:,} of {of_jobs:,} jobs"
    does = _what_happens(seen)[num_jobs > 1]
    return f"{jobs} {does} since {moment(since, now)}: {_reason(seen)}; first in {first}"


def moment(then: datetime, now: datetime) -> str:
    """`today 14:02`, `yesterday 14:02`, `Monday 14:02`, `3 Nov 14:02`, `3 Nov 2025`."""
    days = (now.date() - then.date()).days
    at = f"{then:%H:%M}"
    if days <= 0:
        return f"today {at}" if days == 0 else f"{then.day} {_MONTHS[then.month - 1]} {at}"
    if days == 1:
        return f"yesterday {at}"
    if timedelta(days=days) <= _WEEK:
        return f"{_DAYS[then.weekday()]} {at}"
    day = f"{then.day} {_MONTHS[then.month - 1]}"
    return f"{day} {at}" if then.year == now.year else f"{day} {then.year}"


def summary(
    num_open: int, num_hit: int, num_jobs: int, num_unread: int = 0, *, is_watched: bool
) -> str:
    """All issues in one sentence."""
    if num_unread:
        older = "job is" if num_unread == 1 else "jobs are"
        rest = f" {num_unread:,} older {older} still being read."
        return summary(num_open, num_hit, num_jobs, is_watched=is_watched) + rest
    if not num_jobs:
        return "There are no jobs yet. Start one with trackside run train.py --rule all."
    jobs = "1 job" if num_jobs == 1 else f"{num_jobs:,} jobs"
    if num_open:
        issues = "1 open issue" if num_open == 1 else f"{num_open:,} open issues"
        return f"{issues} in {num_hit:,} of {jobs}."
    if not is_watched:
        return f"Nobody watches: no rule judged any of {jobs}. Start jobs with --rule all."
    return f"Nothing is wrong in {jobs}, as far as rules judged them."


def _what_happens(seen: Seen) -> tuple[str, str]:
    if seen.is_failure:
        return _FAILS
    found = _outcome(seen)
    if found is not None:
        return found
    entry = catalog.entries().get(seen.cause)
    return _SLOW if entry is not None and entry.kind is Kind.MACHINE else _SICK


def _outcome(seen: Seen) -> tuple[str, str] | None:
    """The first that a reader takes for a consequence of the cause."""
    followed = {*_OUTCOMES} - (set() if seen.cause in _MAKE_NUMBERS_LARGE else _OF_LARGE_NUMBERS)
    if seen.cause in _OUTCOMES:
        return _OUTCOMES[seen.cause]
    return next((_OUTCOMES[rule] for rule in seen.explains if rule in followed), None)


def _reason(seen: Seen) -> str:
    """The rule's own sentence; without one, what the rule looks for."""
    entry = catalog.entries().get(seen.cause)
    if seen.is_failure:
        return first_sentence(without_source(seen.message)).rstrip(".")
    said = first_sentence(seen.message) or (entry.summary if entry else seen.cause)
    said = said.rstrip(".")
    is_plain = _PLAIN_WORD.match(said) is not None
    return said[:1].lower() + said[1:] if is_plain else said
