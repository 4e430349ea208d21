"""Issues in one sentence."""

from datetime import datetime

import pytest

from trackside.views.problems.issue_text import moment, summary, title
from trackside.views.problems.job_findings import Seen

NOW = datetime(2026, 11, 18, 9, 30)


@pytest.mark.parametrize(
    ("then", "shown"),
    [
        (datetime(2026, 11, 18, 0, 5), "today 00:05"),
        (datetime(2026, 11, 17, 14, 2), "yesterday 14:02"),
        (datetime(2026, 11, 16, 14, 2), "Monday 14:02"),
        (datetime(2026, 11, 12, 23, 59), "Thursday 23:59"),
        (datetime(2026, 11, 11, 14, 2), "11 Nov 14:02"),
        (datetime(2025, 11, 11, 14, 2), "11 Nov 2025"),
        (datetime(2026, 11, 19, 1, 0), "19 Nov 01:00"),
    ],
)
def test_moments_are_named_as_people_do(then: datetime, shown: str):
    assert moment(then, NOW) == shown


def named(seen: Seen, num_jobs: int = 3, of_jobs: int = 41) -> str:
    since = datetime(2026, 11, 17, 14, 2)
    return title(seen, num_jobs=num_jobs, of_jobs=of_jobs, first="bert-77", since=since, now=NOW)


def seen(cause: str, message: str, *explains: str, is_failure: bool = False) -> Seen:
    return Seen(
        issue="1-0", cause=cause, message=message, explains=[*explains], is_failure=is_failure
    )


def test_a_title_has_count_outcome_time_reason_and_first_job():
    rate = seen("LearningRateZero", "The learning rate is 0 in the warm-up.", "NothingLearnt")
    assert named(rate) == (
        "3 of 41 jobs learn nothing since yesterday 14:02: the learning rate is 0 in the warm-up; "
        "first in bert-77"
    )


@pytest.mark.parametrize(
    ("what", "jobs", "begins"),
    [
        (seen("LossNotFinite", "NaN."), (1, 41), "1 of 41 jobs gets a loss that is not finite"),
        (seen("LossNotFinite", "NaN."), (1, 1), "1 job gets a loss that is not finite since"),
        (seen("LowGPUUtilization", "x"), (2, 2), "2 of 2 jobs lose time since"),
        (seen("OptimizerSettings", "x"), (2, 9), "2 of 9 jobs are sick since"),
        (seen("KeyError", "KeyError: 'x'", is_failure=True), (2, 1234), "2 of 1,234 jobs fail"),
    ],
)
def test_what_happens_is_said_for_one_job_and_for_several(
    what: Seen, jobs: tuple[int, int], begins: str
):
    assert named(what, *jobs).startswith(begins)


def test_an_outcome_is_named_only_with_a_cause_that_readers_expect():
    dead = "100 % of the units of fc1 are dead."
    assert named(seen("DeadLayer", dead, "LossNotFinite")).startswith("3 of 41 jobs are sick")
    both = seen("DeadLayer", dead, "LossNotFinite", "NothingLearnt")
    assert named(both).startswith("3 of 41 jobs learn nothing")
    large = seen("LearningRateTooHigh", "Updates are too large.", "LossNotFinite")
    assert named(large).startswith("3 of 41 jobs get a loss that is not finite")


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        (seen("DeadLayer", ""), "a layer's ReLUs are dead: they pass no value forward"),
        (seen("MyRule", ""), "MyRule"),
        (seen("MyRule", "NaN in the loss. More."), "NaN in the loss;"),
        (seen("ValueError", "ValueError: no", is_failure=True), "ValueError: no;"),
        (
            seen(
                "IndexError",
                "IndexError: 9 is out of bounds., at train.py:41 in <module>: loss = f(x)",
                is_failure=True,
            ),
            "IndexError: 9 is out of bounds, at train.py:41;",
        ),
        (seen("MyRule", "a\nb\x1b[1m"), "a b"),
    ],
)
def test_the_reason_is_the_rules_own_sentence_or_what_it_looks_for(what: Seen, reason: str):
    assert f": {reason}" in named(what)


def test_everything_in_one_sentence():
    assert summary(0, 0, 0, is_watched=False).startswith("There are no jobs yet.")
    assert summary(0, 0, 3, is_watched=False).startswith("Nobody watches: no rule judged")
    assert summary(0, 0, 3, is_watched=True).startswith("Nothing is wrong in 3 jobs")
    assert summary(2, 3, 1041, is_watched=True) == "2 open issues in 3 of 1,041 jobs."
    assert summary(1, 1, 1, is_watched=True) == "1 open issue in 1 of 1 job."
