"""The sentence about a job, and about one diagnosis."""

import pytest

from trackside.records.finding import Finding
from trackside.records.rule_status import Evaluation, RuleStatus
from trackside.rules import catalog
from trackside.rules.checkup.diagnosis import diagnose
from trackside.views.job.diagnosis_text import (
    MOST_SENTENCE,
    Standing,
    diagnosis_sentence,
    first_sentence,
    job_sentence,
)

RUNNING = Standing("InProgress", "Training")
COMPLETED = Standing("Completed", "Completed")
FAILED = Standing("Failed", "Failed", "ValueError: no data (exit code 1)")
RATE_ZERO = Finding(
    rule="LearningRateZero", message="The learning rate is 0 in all 36 updates.", step=0
)
NUM_CHECKUP = sum(entry.is_of_checkup for entry in catalog.entries().values())


def checkup(status: RuleStatus = RuleStatus.IN_PROGRESS, **members) -> Evaluation:
    return Evaluation(configuration="Checkup", rule="Checkup", status=status, **members)


def test_a_diagnosis_says_since_when_and_where():
    found = Finding(rule="DeadLayer", message="Its ReLUs are dead.", step=1200, tensor="block.relu")
    (diagnosis,) = diagnose([found])
    assert diagnosis_sentence(diagnosis) == "Its ReLUs are dead (since step 1,200, at block.relu)."


def test_what_the_message_says_is_not_said_again():
    message = "At step 5 the gradient of fc1 is 0. It was 3 before."
    (diagnosis,) = diagnose([Finding(rule="DeadLayer", message=message, step=5, tensor="fc1")])
    assert diagnosis_sentence(diagnosis) == "At step 5 the gradient of fc1 is 0."


def test_numbers_and_names_with_points_do_not_end_a_sentence():
    said = "At a rate of 1.5e-3 the weights of layers.0.Mlp grow. Stop it."
    assert first_sentence(said) == "At a rate of 1.5e-3 the weights of layers.0.Mlp grow."


def test_a_hostile_message_is_one_short_line():
    said = first_sentence("a\nb\x1b[2J" + "x" * 10_000)
    assert "\n" not in said
    assert "\x1b" not in said
    assert len(said) <= MOST_SENTENCE


@pytest.mark.parametrize(
    ("standing", "evaluations", "sentence"),
    [
        (RUNNING, [], "Not watched: start it with --rule all."),
        (COMPLETED, [], "Completed. Not watched: start it with --rule all."),
        (Standing("InProgress", "Pending"), [checkup()], "Waiting for resources."),
        (Standing("InProgress", "Downloading"), [], "Downloading its input data."),
        (RUNNING, [checkup()], "No step was judged yet."),
        (
            RUNNING,
            [checkup(last_step=1199)],
            f"Healthy so far: {NUM_CHECKUP} rules watch it.",
        ),
        (
            COMPLETED,
            [checkup(RuleStatus.NO_ISSUES_FOUND, last_step=9)],
            f"Healthy: {NUM_CHECKUP} rules watched it and found nothing.",
        ),
        (
            Standing("Stopped", "Stopped"),
            [Evaluation(configuration="a", rule="Overfit", last_step=9)],
            "Stopped: 1 rule watched it and found nothing.",
        ),
        (
            COMPLETED,
            [checkup(RuleStatus.ERROR, details="ClientError: No debugging data was saved.")],
            "Not judged: nothing was saved that rules could judge. Start it with --rule all.",
        ),
        (FAILED, [], "Failed: ValueError: no data (exit code 1)."),
        (Standing("Failed", "Failed"), [], "Failed: no reason is known."),
    ],
)
def test_a_job_without_findings(standing, evaluations, sentence):
    assert job_sentence(standing, [], evaluations) == sentence


def test_a_job_with_findings():
    found = diagnose([RATE_ZERO])
    said = "The learning rate is 0 in all 36 updates (since step 0)."
    assert job_sentence(RUNNING, found, [checkup()]) == said
    stopped = Standing("Stopped", "Stopped", stopping_rule="Checkup")
    assert job_sentence(stopped, found, [checkup()]) == f"Stopped by Checkup: {said}"
    both = f"Failed: ValueError: no data (exit code 1). The rules had found: {said}"
    assert job_sentence(FAILED, found, [checkup()]) == both
