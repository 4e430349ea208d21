import pytest

from trackside.records.rule_status import (
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


@pytest.mark.parametrize("damaged", ["[1]", "5", '{"status": "Happy"}', '{"modified": 1e300}'])
def test_a_damaged_status_costs_its_own_rule(tmp_path, caplog, damaged: str):
    path = tmp_path / "statuses.json"
    write_evaluations(path, [Evaluation(configuration="a", rule="Overfit")])
    whole = path.read_text().strip()
    path.write_text(f"[{damaged}, {whole[1:]}")
    assert [each.configuration for each in read_evaluations(path)] == ["a"]
    assert f"{path} is damaged: a rule's status is left out" in caplog.text


@pytest.mark.parametrize("content", ["[" * 100_000, "{", '"a"'], ids=["deep", "torn", "text"])
def test_a_file_that_is_no_list_has_no_statuses(tmp_path, caplog, content: str):
    path = tmp_path / "statuses.json"
    path.write_text(content)
    assert read_evaluations(path) == []
    assert f"{path} is damaged" in caplog.text


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
