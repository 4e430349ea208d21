"""Rules written for smdebug, run over the trial that smdebug wrote (steps 0 2 3 6 8)."""

from typing import Any

import pytest

from tests.capture.trials import SMDEBUG_TRIAL
from trackside.capture.exceptions import NoMoreData, RuleEvaluationConditionMet, TensorUnavailable
from trackside.capture.modes import modes
from trackside.capture.trial import Trial, create_trial
from trackside.rules.custom.smdebug_rule import Rule, invoke_rule
from trackside.rules.parameters import parse_bool, parse_list_from_str


class SmallGradient(Rule):
    """As the documents have it: arguments are strings, the base gets the trial only."""

    def __init__(self, base_trial: Trial, threshold: str = "10", **options: Any) -> None:
        super().__init__(base_trial, **options)
        self.threshold = float(threshold)
        self.seen: list[int] = []

    def set_required_tensors(self, step: int) -> None:
        self.req_tensors.add("^gradient/.*weight", [step], should_match_regex=True)

    def invoke_at_step(self, step: int) -> bool:
        self.seen.append(step)
        assert not self.base_trial.dynamic_refresh
        return any(
            t.reduction_value(step, "mean", abs=True) < self.threshold
            for t in self.req_tensors.get()
        )


@pytest.fixture
def trial() -> Trial:
    return create_trial(str(SMDEBUG_TRIAL))


def test_a_rule_is_called_at_each_step_that_has_its_tensors(trial):
    rule = SmallGradient(trial, threshold="0")
    with pytest.raises(NoMoreData) as caught:
        invoke_rule(rule)
    assert rule.seen == [0, 2, 6]
    assert caught.value.last_step == 8


def test_a_rule_that_fires_continues_unless_configured_to_raise(trial):
    rule = SmallGradient(trial)
    with pytest.raises(NoMoreData):
        invoke_rule(rule)
    assert rule.seen == [0, 2, 6]
    with pytest.raises(RuleEvaluationConditionMet) as caught:
        invoke_rule(SmallGradient(trial), start_step=1, raise_eval_cond=True)
    assert (caught.value.rule_name, caught.value.step) == ("SmallGradient", 2)
    assert str(caught.value) == (
        "Evaluation of the rule SmallGradient at step 2 resulted in the condition being met"
    )


def test_a_rule_may_ask_which_mode_a_step_was_in_as_aws_s_examples_do(trial):
    class OfEvaluation(Rule):
        seen: list[int] = []

        def set_required_tensors(self, step: int) -> None: ...

        def invoke_at_step(self, step: int) -> bool:
            mode, number = self.base_trial._global_to_mode[step]
            if mode == modes.EVAL:
                self.seen.append(number)
            return False

    rule = OfEvaluation(trial)
    with pytest.raises(NoMoreData):
        invoke_rule(rule)
    assert rule.seen == trial.steps(modes.EVAL) != []


def test_the_end_step_is_not_included(trial):
    rule = SmallGradient(trial, threshold="0")
    invoke_rule(rule, end_step=6)
    assert rule.seen == [0, 2]


def test_a_rule_that_states_it_has_ended_is_not_retried(trial):
    class Once(SmallGradient):
        def invoke(self, step: int) -> None:
            self.seen.append(step)
            raise RuleEvaluationConditionMet(self.rule_name, step, end_of_rule=True)

    rule = Once(trial)
    invoke_rule(rule)
    assert rule.seen == [0]


def test_every_form_of_the_constructor_is_accepted(trial):
    other = create_trial(str(SMDEBUG_TRIAL))
    assert SmallGradient(trial).trials == [trial]
    assert SmallGradient(trial, action_str="").rule_name == "SmallGradient"
    rule = SmallGradient(trial, other_trials=[other])
    assert rule.trials == [trial, other]
    assert set(rule.report) == {
        "RuleTriggered",
        "Violations",
        "Details",
        "Datapoints",
        "RuleParameters",
    }


def test_actions_of_a_rule_invoked_by_hand_are_not_ignored_silently(trial, caplog):
    SmallGradient(trial, action_str='[{"name": "stoptraining"}]')
    assert "stoptraining" in caplog.text


def test_steps_that_can_be_read_once_are_wanted_of_every_match(trial):
    required = SmallGradient(trial).req_tensors
    required.add("^Net_fc", iter([0, 2]), should_match_regex=True)
    assert {name: required.get_tensor_steps(name) for name in required.get_names()} == {
        "Net_fc.bias": [0, 2],
        "Net_fc.weight": [0, 2],
    }


def test_required_tensors_are_kept_by_name_and_trial(trial):
    other = create_trial(str(SMDEBUG_TRIAL))
    required = SmallGradient(trial, other_trials=[other]).req_tensors
    required.add("Net_fc.weight", [0, 2])
    required.add("Net_fc.weight", [6])
    required.add("Net_fc.bias", [3], trial=other)
    assert required.get_names() == ["Net_fc.weight"]
    assert required.get_tensor_steps("Net_fc.weight") == [0, 2, 6]
    assert [tensor.name for tensor in required.get(other)] == ["Net_fc.bias"]
    required.fetch()
    required.clear()
    assert required.get() == []
    with pytest.raises(TensorUnavailable):
        required.add("nobody", [0])


def test_a_rule_can_select_one_mode(trial):
    assert [step for step in trial.steps() if trial.mode(step) is modes.EVAL] == [3, 8]


def test_arguments_are_parsed_from_strings():
    assert parse_list_from_str("a, b,,c") == ["a", "b", "c"]
    assert parse_list_from_str(None) == parse_list_from_str("") == []
    assert parse_list_from_str(["x"]) == ["x"]
    assert parse_list_from_str("a;b", ";") == ["a", "b"]
    assert parse_bool("True")
    assert not parse_bool("false")
    assert parse_bool(None, default=True)
    with pytest.raises(ValueError, match="'yes'"):
        parse_bool("yes")
    with pytest.raises(TypeError):
        parse_list_from_str(5)  # type: ignore[arg-type]
