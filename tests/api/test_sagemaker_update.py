"""A job that is changed while it runs, by the real boto3."""

from typing import Any

import pytest

from tests.api.conftest import Server
from tests.api.training import ended, refused, request
from tests.wait import until
from trackside.jobs.jobs import Jobs

PROFILED = {"S3OutputPath": "s3://out/runs", "ProfilingIntervalInMilliseconds": 1000}


def rule(name: str, invoked: str = "CPUBottleneck") -> dict[str, Any]:
    return {
        "RuleConfigurationName": name,
        "RuleEvaluatorImage": "x.dkr.ecr.us-west-2.amazonaws.com/sagemaker-debugger-rules:latest",
        "RuleParameters": {"rule_to_invoke": invoked},
    }


@pytest.fixture
def client(service: Server):
    return service.client("sagemaker")


@pytest.fixture
def running(client):
    client.create_training_job(**request(hyper={"hold": "1"}, ProfilerConfig=PROFILED))
    return client


def update(client: Any, **given: Any) -> Any:
    return client.update_training_job(TrainingJobName="job-1", **given)


def described(client: Any) -> Any:
    return client.describe_training_job(TrainingJobName="job-1")


def test_only_the_members_that_are_given_change(running):
    response = update(running, ProfilerConfig={"ProfilingIntervalInMilliseconds": 200})
    assert response["TrainingJobArn"].endswith(":training-job/job-1")
    job = described(running)
    assert job["ProfilerConfig"] == {
        **PROFILED,
        "ProfilingIntervalInMilliseconds": 200,
        "DisableProfiler": False,
    }
    assert job["ProfilingStatus"] == "Enabled"


def test_a_profiler_is_switched_off_and_on_again(running):
    update(running, ProfilerRuleConfigurations=[rule("first")])
    update(running, ProfilerConfig={"DisableProfiler": True})
    job = described(running)
    assert job["ProfilingStatus"] == "Disabled"
    assert [each["RuleEvaluationStatus"] for each in job["ProfilerRuleEvaluationStatuses"]] == [
        "Stopping"
    ]
    update(
        running,
        ProfilerConfig={"DisableProfiler": False},
        ProfilerRuleConfigurations=[rule("second")],
    )
    job = described(running)
    assert job["ProfilingStatus"] == "Enabled"
    statuses = {
        each["RuleConfigurationName"]: each["RuleEvaluationStatus"]
        for each in job["ProfilerRuleEvaluationStatuses"]
    }
    assert statuses == {"first": "Stopping", "second": "InProgress"}


def test_rules_are_added_to_those_of_the_job_and_checked_as_those_were(running):
    update(running, ProfilerRuleConfigurations=[rule("first"), rule("second")])
    names = [r["RuleConfigurationName"] for r in described(running)["ProfilerRuleConfigurations"]]
    assert names == ["first", "second"]
    _, text = refused(
        running.update_training_job,
        TrainingJobName="job-1",
        ProfilerConfig={"ProfilingIntervalInMilliseconds": 300},
        ProfilerRuleConfigurations=[rule("first"), rule("third", "NoSuchRule")],
    )
    assert text.startswith("3 validation errors detected: ")
    assert "at 'profilerConfig.profilingIntervalInMilliseconds' failed to satisfy" in text
    assert "[100, 200, 500, 1000, 5000, 60000]" in text
    assert "Value 'first' at 'profilerRuleConfigurations.1.member.ruleConfigurationName'" in text
    assert "profilerRuleConfigurations.2.member.ruleParameters.rule_to_invoke" in text
    assert len(described(running)["ProfilerRuleConfigurations"]) == 2


def test_a_rule_that_is_added_runs_no_command_on_the_server_s_machine(running):
    added = rule("later")
    added["RuleParameters"]["action_json"] = '[{"name": "command", "command": "id"}]'
    _, text = refused(
        running.update_training_job, TrainingJobName="job-1", ProfilerRuleConfigurations=[added]
    )
    assert "asks for a command" in text


def test_a_profile_does_not_move_while_the_job_runs(running):
    same = {"S3OutputPath": f"{PROFILED['S3OutputPath']}/"}
    update(running, ProfilerConfig=same)
    code, text = refused(
        running.update_training_job,
        TrainingJobName="job-1",
        ProfilerConfig={"S3OutputPath": "s3://elsewhere/x"},
    )
    assert code == "ValidationException"
    assert "must stay 's3://out/runs" in text


def test_a_job_without_a_profiler_gets_one(client):
    client.create_training_job(**request(hyper={"hold": "1"}))
    update(client, ProfilerConfig=PROFILED, ProfilerRuleConfigurations=[rule("late")])
    job = described(client)
    assert job["ProfilingStatus"] == "Enabled"
    [late] = job["ProfilerRuleEvaluationStatuses"]
    name = late["RuleEvaluationJobArn"].rpartition("/")[2]
    shown = client.describe_processing_job(ProcessingJobName=name)
    assert shown["ProcessingJobStatus"] == "InProgress"


def test_an_ended_job_is_not_changed(client):
    client.create_training_job(**request())
    ended(client)
    code, text = refused(
        client.update_training_job,
        TrainingJobName="job-1",
        ProfilerConfig={"DisableProfiler": True},
    )
    assert code == "ValidationException"
    assert text == "The request was rejected because the training job is in status Completed."


def test_settings_without_effect_here_are_returned_unchanged(running):
    update(running, ResourceConfig={"KeepAlivePeriodInSeconds": 60})
    update(running, RemoteDebugConfig={"EnableRemoteDebug": True})
    job = described(running)
    assert job["ResourceConfig"]["KeepAlivePeriodInSeconds"] == 60
    assert job["ResourceConfig"]["VolumeSizeInGB"] == 400
    assert job["RemoteDebugConfig"] == {"EnableRemoteDebug": True}
    running.stop_training_job(TrainingJobName="job-1")
    ended(running)
    update(running, ResourceConfig={"KeepAlivePeriodInSeconds": 0})
    assert described(running)["ResourceConfig"]["KeepAlivePeriodInSeconds"] == 0
    expected = ("ValidationException", "Requested resource not found.")
    assert refused(running.update_training_job, TrainingJobName="nobody") == expected


def test_a_rule_evaluation_is_stopped_apart_from_its_job(client, jobs: Jobs):
    client.create_training_job(
        **request(hyper={"hold": "1"}, DebugRuleConfigurations=[rule("w", "VanishingGradient")])
    )
    name = client.list_processing_jobs()["ProcessingJobSummaries"][0]["ProcessingJobName"]
    response = client.stop_processing_job(ProcessingJobName=name)
    assert response["ResponseMetadata"]["HTTPHeaders"]["content-length"] == "0"
    client.stop_processing_job(ProcessingJobName=name)  # again: nothing
    shown = client.describe_processing_job(ProcessingJobName=name)
    assert shown["ProcessingJobStatus"] == "Stopping"
    [status] = described(client)["DebugRuleEvaluationStatuses"]
    assert status["RuleEvaluationStatus"] == "Stopping"
    assert len([n for n in jobs.record("job-1").history.notes if n["what"] == "stopped_rule"]) == 1
    client.stop_training_job(TrainingJobName="job-1")
    ended(client)

    def is_stopped() -> bool:
        shown = client.describe_processing_job(ProcessingJobName=name)
        return bool(shown["ProcessingJobStatus"] == "Stopped")

    until(is_stopped)
    code, text = refused(client.stop_processing_job, ProcessingJobName=name)
    assert code == "ValidationException"
    assert text == "The request was rejected because the processing job is in status Stopped."
