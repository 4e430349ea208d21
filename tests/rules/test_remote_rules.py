"""Rules of jobs that come through a server, before the job is taken in."""

import json
from typing import Any

import pytest

from trackside.errors import Violation
from trackside.records.spec import JobSpec
from trackside.rules.remote_rules import violations
from trackside.settings import Settings


def found(*parameters: dict[str, str], allowed: str = "", **request: Any) -> list[Violation]:
    rules = [
        {"RuleConfigurationName": f"rule-{number}", "RuleParameters": each}
        for number, each in enumerate(parameters)
    ]
    spec = JobSpec.from_request(
        {
            "TrainingJobName": "job-1",
            "HyperParameters": {"sagemaker_program": "train.py"},
            "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
            "DebugRuleConfigurations": rules,
            **request,
        }
    )
    return list(violations(spec, Settings.load({"TRACKSIDE_ALLOW_CALLBACKS": allowed})))


def acting(*actions: Any) -> dict[str, str]:
    return {"rule_to_invoke": "Overfit", "action_json": json.dumps(actions)}


def test_what_harms_no_one_is_taken():
    actions = acting(
        {"name": "stoptraining"},
        {"name": "email", "endpoint": "me@example.com"},
        {"name": "sms", "endpoint": "+4915112345678"},
        {"name": "webhook", "url": "https://hooks.example.com/x"},
        {"name": "save_flight_recorder"},
    )
    assert found(actions, {"rule_to_invoke": "Overfit"}) == []


def test_each_that_does_is_named_by_its_member():
    wrong = found(
        acting({"name": "stoptraining"}),
        acting({"name": "command", "command": "id"}),
    )
    assert [each.field for each in wrong] == [
        "DebugRuleConfigurations[1].RuleParameters.action_json",
    ]


def test_so_is_one_of_a_profiler_rule():
    rule = {
        "RuleConfigurationName": "figures",
        "RuleParameters": acting({"name": "command", "command": "id"}),
    }
    profiler = {"S3OutputPath": "s3://bucket/profile"}
    [wrong] = found(ProfilerRuleConfigurations=[rule], ProfilerConfig=profiler)
    assert wrong.field == "ProfilerRuleConfigurations[0].RuleParameters.action_json"


@pytest.mark.parametrize("allowed", ["", "127.0.0.1"])
def test_the_operator_s_setting_counts(allowed: str):
    hook = acting({"name": "webhook", "url": "http://127.0.0.1:8000/"})
    assert bool(found(hook, allowed=allowed)) is not bool(allowed)


def test_a_secret_must_be_in_the_job_s_environment():
    hook = acting({"name": "webhook", "url": "https://h.example", "secret_variable": "MINE"})
    [wrong] = found(hook)
    assert "'MINE', which is not a variable" in wrong.advice
    assert found(hook, Environment={"MINE": "x"}) == []


def test_what_cannot_be_read_is_left_to_the_evaluator():
    assert found({"rule_to_invoke": "Overfit", "action_json": "nonsense"}) == []


def test_who_is_to_be_reported_must_be_outside_the_server_s_network():
    targets = [
        "mail:a@example.com",
        "slack:https://hooks.slack.com/services/T/B/secret",
        "webhook:http://169.254.169.254/latest",
        "webhook:http://10.1.2.3/secret-path",
    ]
    wrong = found(Trackside={"Notify": targets})
    assert [each.field for each in wrong] == ["Trackside.Notify[2]", "Trackside.Notify[3]"]
    assert wrong[1].value == "webhook:http://10.1.2.3/***"
    assert "TRACKSIDE_ALLOW_CALLBACKS" in wrong[0].advice
    assert found(Trackside={"Notify": targets}, allowed="10.0.0.0/8,169.254.169.254") == []
