"""Rules as users ask for them, and as the request carries them."""

import json
from pathlib import Path
from typing import Any

import pytest

from trackside import CollectionConfig, ProfilerRule, Rule, rule_configs
from trackside.records.layout import JobKeys
from trackside.sdk.rule import AnyRule

JOB = JobKeys("s3://out/runs", "job-42")

TENSOR_RULES = {
    "all_zero": "AllZero",
    "check_input_images": "CheckInputImages",
    "class_imbalance": "ClassImbalance",
    "confusion": "Confusion",
    "create_xgboost_report": "CreateXgboostReport",
    "dead_relu": "DeadRelu",
    "exploding_tensor": "ExplodingTensor",
    "feature_importance_overweight": "FeatureImportanceOverweight",
    "loss_not_decreasing": "LossNotDecreasing",
    "nlp_sequence_ratio": "NLPSequenceRatio",
    "overfit": "Overfit",
    "overtraining": "Overtraining",
    "poor_weight_initialization": "PoorWeightInitialization",
    "saturated_activation": "SaturatedActivation",
    "similar_across_runs": "SimilarAcrossRuns",
    "stalled_training_rule": "StalledTrainingRule",
    "tensor_variance": "TensorVariance",
    "tree_depth": "TreeDepth",
    "unchanged_tensor": "UnchangedTensor",
    "vanishing_gradient": "VanishingGradient",
    "weight_update_ratio": "WeightUpdateRatio",
}
PROFILER_RULES = [
    "BatchSize",
    "CPUBottleneck",
    "Dataloader",
    "GPUMemoryIncrease",
    "IOBottleneck",
    "LoadBalancing",
    "LowGPUUtilization",
    "MaxInitializationTime",
    "OverallFrameworkMetrics",
    "OverallSystemUsage",
    "ProfilerReport",
    "StepOutlier",
]


def parameters(rule: AnyRule) -> dict[str, str]:
    found: dict[str, str] = rule.to_request(JOB)["RuleParameters"]
    return found


@pytest.mark.parametrize(("function", "name"), TENSOR_RULES.items())
def test_every_tensor_rule_has_its_function(function: str, name: str):
    rule = Rule.sagemaker(getattr(rule_configs, function)())
    assert rule.to_request(JOB) == {
        "RuleConfigurationName": name,
        "RuleEvaluatorImage": "trackside/sagemaker-debugger-rules:latest",
        "RuleParameters": {"rule_to_invoke": name},
    }


@pytest.mark.parametrize("name", PROFILER_RULES)
def test_every_profiler_rule_has_its_class(name: str):
    rule = ProfilerRule.sagemaker(getattr(rule_configs, name)(), name="mine")
    assert rule.name == "mine"
    assert parameters(rule) == {"rule_to_invoke": name}


def test_builtin_is_another_name_and_takes_a_rule_by_its_own():
    by_name = Rule.builtin("DeadRelu", rule_parameters={"threshold_layer": 80})
    assert by_name == Rule.sagemaker(rule_configs.dead_relu(threshold_layer=80))


def test_every_argument_of_a_built_in_rule_reaches_the_request():
    rule = Rule.sagemaker(
        rule_configs.similar_across_runs(),
        "mine",
        "/opt/ml/x",
        "s3://rules/out",
        ["s3://a/debug-output", "s3://b/debug-output"],
        {"tensor_regex": ".*", "other": True},
        [CollectionConfig("weights", {"save_interval": 10})],
    )
    assert rule.to_request(JOB) == {
        "RuleConfigurationName": "mine",
        "RuleEvaluatorImage": "trackside/sagemaker-debugger-rules:latest",
        "LocalPath": "/opt/ml/x",
        "S3OutputPath": "s3://rules/out",
        "RuleParameters": {
            "rule_to_invoke": "SimilarAcrossRuns",
            "tensor_regex": ".*",
            "other": "True",
            "other_trial_0": "s3://a/debug-output",
            "other_trial_1": "s3://b/debug-output",
        },
    }


def test_parameters_of_profiler_rules_are_texts():
    rule = ProfilerRule.sagemaker(rule_configs.StepOutlier(stddev=5, mode=None))
    assert parameters(rule) == {"rule_to_invoke": "StepOutlier", "stddev": "5", "mode": "None"}


def test_each_kind_of_rule_refuses_the_other():
    with pytest.raises(TypeError, match="ProfilerRule"):
        Rule.sagemaker(rule_configs.BatchSize())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Rule\.sagemaker"):
        ProfilerRule.sagemaker(rule_configs.overfit())  # type: ignore[arg-type]


def test_a_rule_of_ones_own_is_stored_with_the_job(tmp_path: Path):
    file = tmp_path / "my_rule.py"
    file.write_text("class MyRule: ...\n")
    rule = Rule.custom(
        name="MyRule", source=file, rule_to_invoke="MyRule", rule_parameters={"threshold": "3"}
    )
    request = rule.to_request(JOB)
    assert request["RuleEvaluatorImage"] == "trackside/sagemaker-debugger-rule-evaluator:latest"
    uri = request["RuleParameters"].pop("source_s3_uri")
    assert uri.startswith("s3://out/runs/job-42/source/rules/")
    assert uri.endswith("/my_rule.py")
    assert request["RuleParameters"] == {"rule_to_invoke": "MyRule", "threshold": "3"}


def test_a_rule_that_is_stored_already_is_used_from_there():
    rule = Rule.custom("r", "img", "ml.t3", 30, source="s3://b/rule.py", rule_to_invoke="R")
    request = rule.to_request(JOB)
    assert request["RuleParameters"]["source_s3_uri"] == "s3://b/rule.py"
    assert (request["RuleEvaluatorImage"], request["InstanceType"]) == ("img", "ml.t3")
    assert request["VolumeSizeInGB"] == 30


def test_an_installed_rule_needs_no_source():
    custom = ProfilerRule.custom("p", rule_to_invoke="TheirRule", rule_parameters={"a": 1})
    assert parameters(custom) == {"rule_to_invoke": "TheirRule", "a": "1"}


def test_a_source_without_a_rule_in_it_is_refused():
    with pytest.raises(ValueError, match="rule_to_invoke"):
        Rule.custom("r", source="rule.py")


# Actions


def action_json(actions: Any) -> str:
    return parameters(Rule.sagemaker(rule_configs.overfit(), actions=actions))["action_json"]


def test_actions_are_written_as_the_original_does():
    assert action_json(rule_configs.ActionList(rule_configs.StopTraining())) == (
        r"[{\"name\": \"stoptraining\", \"training_job_prefix\": \"job-42\"}]"
    )


@pytest.mark.parametrize(
    ("action", "record"),
    [
        (rule_configs.StopTraining("other"), ("stoptraining", "training_job_prefix", "other")),
        (rule_configs.Email("First.Last@example.co.uk"), ("email", "endpoint", None)),
        (rule_configs.SMS("+4930123456"), ("sms", "endpoint", "+4930123456")),
        (rule_configs.Webhook("https://h.example/x?y=1"), ("webhook", "url", None)),
        (rule_configs.Command(r'echo "a\"b" \\ é'), ("command", "command", None)),
    ],
)
def test_one_action_needs_no_list_and_says_what_it_is(action: Any, record: tuple[str, str, Any]):
    name, key, value = record
    (read,) = json.loads(action_json(action).replace('\\"', '"'))
    own, *unset = (getattr(action, field) for field in type(action).__slots__)
    assert not any(unset)
    assert read == {"name": name, key: value or own}


def test_a_webhook_names_the_variable_that_signs_it():
    action = rule_configs.Webhook("https://h.example", secret_variable="HOOK_SECRET")
    (read,) = json.loads(action_json(action).replace('\\"', '"'))
    assert read == {
        "name": "webhook",
        "url": "https://h.example",
        "secret_variable": "HOOK_SECRET",
    }
    with pytest.raises(ValueError, match="must be the name of a variable"):
        rule_configs.Webhook("https://h.example", secret_variable="the secret itself")


def test_the_flight_recorder_needs_no_more_than_its_name():
    both = [rule_configs.SaveFlightRecorder(), rule_configs.StopTraining()]
    names = [each["name"] for each in json.loads(action_json(both).replace('\\"', '"'))]
    assert names == ["saveflightrecorder", "stoptraining"]


@pytest.mark.parametrize(
    ("make", "value"),
    [
        (rule_configs.StopTraining, "a_b"),
        (rule_configs.Email, "nobody"),
        (rule_configs.Email, "a b@example.com"),
        (rule_configs.SMS, "030123456"),
        (rule_configs.Webhook, "ftp://x"),
        (rule_configs.Command, "  "),
    ],
)
def test_what_no_action_can_use_is_refused_with_the_value(make: Any, value: str):
    with pytest.raises(ValueError, match="must be") as refused:
        make(value)
    assert repr(value) in str(refused.value)


def test_something_else_than_an_action_is_refused():
    with pytest.raises(TypeError, match="StopTraining"):
        Rule.sagemaker(rule_configs.overfit(), actions="stop")  # type: ignore[arg-type]
