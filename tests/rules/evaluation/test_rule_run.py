"""What a rule comes to, in the contract's words."""

import pytest

from trackside.records.finding import Finding
from trackside.records.rule_status import DETAILS_MOST, Evaluation, RuleStatus
from trackside.rules.evaluation.rule_run import Case

FOUND = Finding(rule="Overfit", message="0.4 is above 0.1.", step=1900, tensor="loss")


@pytest.fixture
def case() -> Case:
    return Case(Evaluation(configuration="C", rule="Overfit", modified=1.0), clock=lambda: 2.0)


def test_a_hit_states_what_the_original_states_and_where(case: Case):
    case.found(FOUND, 1)
    status = case.evaluation
    assert (status.status, status.num_findings, status.modified) == (
        RuleStatus.ISSUES_FOUND,
        1,
        2.0,
    )
    assert status.details == (
        "RuleEvaluationConditionMet: Evaluation of the rule Overfit at step 1900 resulted in the "
        "condition being met. loss: 0.4 is above 0.1."
    )
    assert not status.is_over
    case.found(FOUND, 137)
    assert case.evaluation.details.endswith("137 findings in all, of which the first 100 are kept.")


def test_nothing_found_in_all_the_data_is_no_issue(case: Case):
    case.checked(40)
    case.conclude(was_stopped=False)
    assert (case.evaluation.status, case.evaluation.details) == (RuleStatus.NO_ISSUES_FOUND, "")
    assert case.is_over


def test_a_finding_stands_whatever_comes_later(case: Case):
    case.found(FOUND, 1)
    case.note("nothing to look at")
    case.stopping()
    case.failed("KeyError: 'x'")
    case.conclude(was_stopped=True)
    assert case.evaluation.status is RuleStatus.ISSUES_FOUND
    assert case.evaluation.details.endswith("Later it ended with an error: KeyError: 'x'")
    assert case.is_over


def test_a_stop_comes_before_a_verdict(case: Case):
    case.checked(12)
    case.stopping()
    assert str(case.evaluation.status) == "Stopping"
    case.conclude(was_stopped=True)
    assert case.evaluation.status is RuleStatus.STOPPED
    assert "up to step 12" in case.evaluation.details


def test_nothing_saved_is_an_error_and_a_missing_tensor_a_remark(case: Case):
    case.note("No tensor of collection 'gradients' is saved.")
    assert str(case.evaluation.status) == "InProgress"
    case.conclude(was_stopped=False, missing="No tensor of collection 'gradients' is saved.")
    assert case.evaluation.status is RuleStatus.NO_ISSUES_FOUND
    assert "gradients" in case.evaluation.details
    other = Case(Evaluation(configuration="C", rule="Overfit"))
    other.conclude(was_stopped=False, missing="No debugging data was saved", has_data=False)
    assert other.evaluation.status is RuleStatus.ERROR


def test_details_fit_the_contract(case: Case):
    case.failed("x" * 5000)
    assert len(case.evaluation.details) == DETAILS_MOST
