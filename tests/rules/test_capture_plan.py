"""What rules need becomes what the hook saves, and no more."""

import re
from typing import Any

import pytest

from tests.rules.recording import add_rule
from trackside.capture.modes import ModeKeys
from trackside.capture.selection.configuration import parse_configuration
from trackside.records.spec import JobSpec, RuleConfiguration
from trackside.rules import capture_plan
from trackside.rules.builtin import Need, TensorRule
from trackside.rules.capture_plan import Pace, plan


def rule(name: str, **parameters: str) -> RuleConfiguration:
    return RuleConfiguration(name=name, parameters={"rule_to_invoke": name, **parameters})


def watching(*needs: Need, name: str = "Watching") -> type[TensorRule]:
    def check(self: Any, evidence: Any) -> tuple[()]:
        return ()

    return type(name, (TensorRule,), {"needs": lambda self: needs, "check": check, "__doc__": "x"})


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Rules with these needs, in the real catalog under made-up names."""
    import dataclasses

    def add(**rules: tuple[Need, ...]) -> list[RuleConfiguration]:
        for name, needs in rules.items():
            made = dataclasses.dataclass(watching(*needs, name=name))
            add_rule(monkeypatch, made)
        return [rule(name) for name in rules]

    return add


def planned(rules: list[RuleConfiguration], pace: Pace = Pace.CONTRACT, **more: Any) -> Any:
    return {each.name: dict(each.parameters) for each in plan(rules, pace, **more)}


def test_a_rule_gets_the_figures_that_it_reads():
    assert planned([rule("VanishingGradient")]) == {
        "gradients": {"save_interval": "500", "reductions": "abs_mean"}
    }


def test_a_collection_that_the_user_configured_is_left_alone():
    assert planned([rule("VanishingGradient")], configured=["gradients"]) == {}


def test_needs_of_several_rules_are_put_together(known: Any):
    rules = known(
        A=(Need("gradients", reductions=("l2", "max")), Need("losses", reductions=("mean",))),
        B=(Need("gradients", reductions=("abs_mean",), save_interval=50),),
        C=(Need("relu_output", ".*relu_output"), Need("relu_output", "act", reductions=("min",))),
    )
    assert planned(rules) == {
        "gradients": {"save_interval": "50", "reductions": "abs_mean,l2,max"},
        "losses": {"save_interval": "500"},
        "relu_output": {"save_interval": "500", "include_regex": ".*relu_output,act"},
    }


def test_all_tensors_by_figures_means_no_values_of_any(known: Any):
    """The hook saves the values of weights beside `all`, unless it is told otherwise."""
    found = planned(known(A=(Need("all", reductions=("max",)),)))
    assert set(found) == {"all", "weights", "biases", "gradients"}
    assert all(each["reductions"] == "max" for each in found.values())


def test_a_watchful_hook_reads_every_step_first_and_often_later(known: Any):
    rules = known(A=(Need("gradients", reductions=("l2",)), Need("weights"), Need("losses")))
    hook = {
        "CollectionConfigurations": [
            {"CollectionName": each.name, "CollectionParameters": dict(each.parameters)}
            for each in plan(rules, Pace.WATCHFUL)
        ]
    }
    saved = {
        each.name: [step for step in range(300) if each.save_config.should_save_step(mode, step)]
        for mode in [ModeKeys.TRAIN]
        for each in parse_configuration(hook).collections
        if each.save_config is not None
    }
    assert saved["gradients"] == [*range(20), *range(20, 200, 10), 200, 250]
    assert saved["losses"] == [*range(60), *range(60, 300, 5)]
    assert saved["weights"] == [0, 1, 2, 5, 10, 20, 50, 100, 200]


def test_of_losses_watched_for_rules_the_inputs_are_not_saved(known: Any):
    """As the tutorial of SageMaker has it they are; scores over a vocabulary are gigabytes."""
    rules = known(A=(Need("losses"),))
    assert "exclude_regex" not in planned(rules)["losses"]
    for pace in (Pace.WATCHFUL, Pace.HOOK):
        excluded = planned(rules, pace)["losses"]["exclude_regex"]
        assert re.search(excluded, "CrossEntropyLoss_input_0")
        assert not re.search(excluded, "CrossEntropyLoss_output_0")


@pytest.mark.parametrize("name", ["ClassImbalance", "Confusion"])
def test_rules_about_classes_get_what_the_loss_was_given(name: str):
    found = planned([rule(name)], Pace.WATCHFUL)["loss_inputs"]
    assert re.search(found["include_regex"], "CrossEntropyLoss_input_1")
    assert found["save_interval"] == "200"


def test_watchfully_figures_are_saved_often_and_values_of_the_same_tensors_rarely(known: Any):
    rules = known(A=(Need("gradients", reductions=("l2",)),), B=(Need("gradients"),))
    found = planned(rules, Pace.WATCHFUL)
    assert set(found) == {"gradients", "gradients_values"}
    assert (found["gradients"]["reductions"], found["gradients"]["save_interval"]) == ("l2", "50")
    assert "reductions" not in found["gradients_values"]
    assert found["gradients_values"]["save_interval"] == "200"
    assert found["gradients_values"]["include_regex"] == "^gradient"
    assert planned(rules) == {"gradients": {"save_interval": "500"}}


def test_a_schedule_of_the_hooks_own_is_not_overridden():
    found = planned([rule("VanishingGradient")], Pace.HOOK)
    assert found == {"gradients": {"reductions": "abs_mean"}}


def test_rules_that_cannot_say_what_they_need_get_the_losses(known: Any):
    own = RuleConfiguration(
        name="x", parameters={"rule_to_invoke": "VanishingGradient", "source_s3_uri": "s3://a/b.py"}
    )
    losses = {"losses": {"save_interval": "500"}}
    assert planned([own]) == planned(known(Clock=())) == planned([rule("Installed")]) == losses


def test_a_wrong_rule_needs_nothing():
    assert planned([rule("VanishingGradient", treshold="1")]) == {}


def spec(rules: list[str], hook: dict[str, Any] | None) -> JobSpec:
    request: dict[str, Any] = {
        "TrainingJobName": "j",
        "OutputDataConfig": {"S3OutputPath": "s3://b/o"},
        "HyperParameters": {"sagemaker_program": "train.py"},
        "DebugRuleConfigurations": [
            {"RuleConfigurationName": name, "RuleParameters": {"rule_to_invoke": name}}
            for name in rules
        ],
    }
    if hook is not None:
        request["DebugHookConfig"] = {"S3OutputPath": "s3://b/o", **hook}
    return JobSpec.from_request(request)


def collections(*names: str, **parameters: str) -> dict[str, Any]:
    return {
        "CollectionConfigurations": [
            {"CollectionName": name, "CollectionParameters": parameters} for name in names
        ]
    }


@pytest.mark.parametrize(
    "hook",
    [
        collections("gradients"),
        collections("all"),
        {"HookParameters": {"save_all": "True"}},
    ],
)
def test_nothing_is_reported_where_all_is_saved(hook: dict[str, Any]):
    assert [*capture_plan.unsaved(spec(["VanishingGradient"], hook))] == []


def test_a_rule_whose_collection_is_not_saved_is_reported(known: Any):
    known(Relu=(Need("relu_output", ".*relu_output"), Need("losses"), Need("x", is_optional=True)))
    reported = [*capture_plan.unsaved(spec(["VanishingGradient", "Relu"], collections("weights")))]
    assert len(reported) == 2
    assert "CollectionConfig('gradients')" in reported[0]
    assert "CollectionConfig('relu_output', {'include_regex': '.*relu_output'})" in reported[1]
    same_pattern = collections("gradients", "mine", include_regex=".*relu_output")
    assert [*capture_plan.unsaved(spec(["VanishingGradient", "Relu"], same_pattern))] == []


def test_a_job_without_a_hook_is_reported():
    (reported,) = capture_plan.unsaved(spec(["VanishingGradient"], None))
    assert "no hook" in reported


def test_all_rules_need_no_whole_tensors():
    names = capture_plan.all_rules()
    assert names[0] == "Checkup"
    planned_for = {each.name: each.parameters for each in plan(map(rule, names), Pace.WATCHFUL)}
    assert set(planned_for) == {"losses", "gradients", "weights"}
    assert all(planned_for[name]["reductions"] for name in ("gradients", "weights"))
