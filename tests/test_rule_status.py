import pytest

from trackside.rule_status import (
    Evaluation,
    RuleStatus,
    in_short,
    read_evaluations,
    write_evaluations,
)


def test_evaluations_come_back_in_their_order(tmp_path):
    written = [
        Evaluation(configuration="b", rule="Overfit", status=RuleStatus.ISSUES_FOUND, last_step=3),
        Evaluation(configuration="a", rule="LowGPUUtilization", is_profiler=True),
    ]
    write_evaluations(tmp_path / "statuses.json", written)
    assert read_evaluations(tmp_path / "statuses.json") == written


def test_before_the_evaluator_began_there_are_none(tmp_path):
    assert read_evaluations(tmp_path / "statuses.json") == []


def test_a_stop_that_is_under_way_is_not_the_end():
    assert [status for status in RuleStatus if not status.is_final] == ["InProgress", "Stopping"]


@pytest.mark.parametrize(
    ("details", "short"),
    [
        (
            "RuleEvaluationConditionMet: Evaluation of the rule DeadRelu at step 3 resulted in the "
            "condition being met. All are dead.",
            "step 3: All are dead.",
        ),
        (
            "RuleEvaluationConditionMet: Evaluation of the rule X resulted in the condition being "
            "met. It is slow.",
            "It is slow.",
        ),
        ("No GPU figures were taken.", "No GPU figures were taken."),
    ],
)
def test_details_in_short_are_what_was_seen(details: str, short: str):
    assert in_short(details) == short
