"""Training jobs, called by the real boto3."""

import json
import math
import time
import urllib.request
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.conftest import REGION, Server
from tests.api.training import IMAGE, ROLE, ended, refused, request
from tests.job_processes import until_they_have_left
from tests.wait import until
from trackside.api.keys import AccessKey, Rights
from trackside.errors import OwnerLimitExceeded, ServerError
from trackside.files import durable
from trackside.jobs.jobs import Jobs
from trackside.jobs.owner_limit import Limit
from trackside.profiles import Key
from trackside.profiles import Server as RemoteServer
from trackside.records.metric_totals import started, to_json
from trackside.remote.api_client import ApiClient

ARN = f"arn:aws:sagemaker:{REGION}:000000000000:training-job/job-1"


@pytest.fixture
def client(service: Server):
    return service.client("sagemaker")


def test_a_job_is_created_and_described_until_it_has_ended(client):
    assert client.create_training_job(**request())["TrainingJobArn"] == ARN
    job = ended(client)
    assert job["TrainingJobStatus"] == job["SecondaryStatus"] == "Completed"
    assert job["TrainingJobArn"] == ARN
    assert job["ModelArtifacts"]["S3ModelArtifacts"] == "s3://out/runs/job-1/output/model.tar.gz"
    assert job["TrainingEndTime"] >= job["TrainingStartTime"] >= job["CreationTime"]
    assert job["BillableTimeInSeconds"] >= 1
    assert all(entry["StatusMessage"] for entry in job["SecondaryStatusTransitions"])


@pytest.mark.parametrize("file", ["journal", "spec"])
def test_a_job_with_damaged_files_is_refused_with_an_explanation(client, jobs: Jobs, file: str):
    client.create_training_job(**request())
    ended(client)
    until_they_have_left(jobs.settings.layout.job("job-1").root)
    assert client.list_training_jobs()["TrainingJobSummaries"]  # so that the index has it
    getattr(jobs.settings.layout.job("job-1"), file).write_bytes(b"[1]\n")
    code, text = refused(client.describe_training_job, TrainingJobName="job-1")
    assert code == "ValidationException"
    assert "'job-1' cannot be read" in text
    assert client.list_training_jobs()["TrainingJobSummaries"]


def test_the_fields_that_clients_require_are_in_the_first_response(client):
    client.create_training_job(**request(hyper={"hold": "1", "lr": "0.10", "name": '"a b"'}))
    job = client.describe_training_job(TrainingJobName="job-1")
    assert job["OutputDataConfig"]["KmsKeyId"] == ""
    assert job["OutputDataConfig"]["CompressionType"] == "GZIP"
    assert job["HyperParameters"]["lr"] == "0.10"
    assert job["HyperParameters"]["name"] == '"a b"'
    assert job["ResourceConfig"]["VolumeSizeInGB"] == 400
    assert job["RoleArn"] == ROLE
    assert job["AlgorithmSpecification"]["TrainingImage"] == IMAGE
    assert job["AlgorithmSpecification"]["EnableSageMakerMetricsTimeSeries"] is False
    assert job["EnableManagedSpotTraining"] is False
    assert "Tags" not in job
    assert "EndTime" not in job["SecondaryStatusTransitions"][-1]


@pytest.mark.parametrize("given", [{}, {"MaxPendingTimeInSeconds": 7200}])
def test_a_request_without_a_time_limit_gets_the_service_s_day(client, given: dict[str, int]):
    client.create_training_job(**request(hyper={"hold": "1"}, StoppingCondition=given))
    job = client.describe_training_job(TrainingJobName="job-1")
    assert job["StoppingCondition"] == {"MaxRuntimeInSeconds": 86400, **given}


def test_times_are_numbers_on_the_wire_and_nothing_is_null(client):
    seen: list[bytes] = []
    client.meta.events.register(
        "before-parse.sagemaker.*",
        lambda response_dict, **_: seen.append(response_dict["body"]),
    )
    client.create_training_job(**request(hyper={"hold": "1"}))
    client.describe_training_job(TrainingJobName="job-1")
    client.list_training_jobs()
    described, listed = map(json.loads, seen[1:])
    assert isinstance(described["CreationTime"], float)
    assert abs(described["CreationTime"] - time.time()) < 3600
    assert isinstance(listed["TrainingJobSummaries"][0]["LastModifiedTime"], float)
    assert "null" not in json.dumps(described)


def test_a_job_in_another_region_has_its_arn(service: Server):
    client = service.client("sagemaker", region_name="us-west-2")
    assert ":us-west-2:" in client.create_training_job(**request())["TrainingJobArn"]


def test_a_name_can_be_used_once(client):
    client.create_training_job(**request())
    code, text = refused(client.create_training_job, **request())
    assert code == "ResourceInUse"
    assert text == (
        "Training job names must be unique within an AWS account and region, "
        f"and a training job with this name already exists ({ARN})"
    )


def test_an_unknown_job_has_the_message_that_programs_check_for(client):
    expected = ("ValidationException", "Requested resource not found.")
    for call in (
        client.describe_training_job,
        client.stop_training_job,
        client.delete_training_job,
    ):
        assert refused(call, TrainingJobName="nobody") == expected


def test_all_violations_are_reported_at_once_with_their_paths(client):
    wrong = request("bad_name")
    wrong["RoleArn"] = "arn:aws:iam::1:nobody-at-all"
    wrong["OutputDataConfig"] = {"S3OutputPath": "s3://out", "CompressionType": "ZIP"}
    wrong["InputDataConfig"] = [
        {
            "ChannelName": "a b",
            "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://in/x"}},
        }
    ]
    code, text = refused(client.create_training_job, **wrong)
    assert code == "ValidationException"
    assert text.startswith("3 validation errors detected: ")
    assert (
        "Value 'bad_name' at 'trainingJobName' failed to satisfy constraint: "
        "Member must satisfy regular expression pattern: [a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}" in text
    )
    assert (
        "Value 'ZIP' at 'outputDataConfig.compressionType' failed to satisfy constraint: "
        "Member must satisfy enum value set: [GZIP, NONE]" in text
    )
    assert "Value 'a b' at 'inputDataConfig.1.member.channelName' failed" in text


def test_a_role_that_is_none_is_one_violation(client):
    wrong = request(RoleArn="arn:aws:iam::1:nobody-at-all")
    _, text = refused(client.create_training_job, **wrong)
    assert text.startswith("1 validation error detected: Value 'arn:aws:iam::1:nobody")


@pytest.mark.parametrize("name", ["ml.nope.42xlarge", "ml.m5.xxlarge", "ml.m5"])
def test_an_instance_type_that_cannot_be_is_refused(client, name: str):
    resources = {"InstanceType": name, "InstanceCount": 1, "VolumeSizeInGB": 1}
    code, text = refused(client.create_training_job, **request(ResourceConfig=resources))
    assert code == "ValidationException"
    assert f"Value '{name}' at 'resourceConfig.instanceType' failed to satisfy constraint" in text
    group = {"InstanceGroupName": "a", "InstanceType": name, "InstanceCount": 1}
    resources = {"InstanceGroups": [group], "VolumeSizeInGB": 1}
    code, text = refused(client.create_training_job, **request(ResourceConfig=resources))
    assert "at 'resourceConfig.instanceGroups.1.member.instanceType' failed" in text


def test_an_image_without_a_script_is_refused_with_the_way_out(client):
    wrong = request()
    del wrong["HyperParameters"]
    code, text = refused(client.create_training_job, **wrong)
    assert code == "ValidationException"
    assert "sagemaker_program" in text


def test_an_empty_channel_is_reported_with_the_services_message(client):
    channel = {
        "ChannelName": "training",
        "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://data-in/nothing"}},
    }
    code, text = refused(client.create_training_job, **request(InputDataConfig=[channel]))
    assert code == "ValidationException"
    assert (
        'No S3 objects found under S3 URL "s3://data-in/nothing" given in input data source.'
        in text
    )


@pytest.mark.parametrize(
    ("parameters", "part"),
    [
        ({"action_json": '[{"name": "command", "command": "id"}]'}, "asks for a command"),
        (
            {"action_json": r"[{\"name\": \"Command\", \"command\": \"id\"}]"},
            "asks for a command",
        ),
        (
            {"action_json": '{"name": "webhook", "url": "http://169.254.169.254/latest"}'},
            "leads to the server's own machine",
        ),
    ],
)
def test_a_submitter_s_rules_do_nothing_on_the_server_s_machine(client, parameters, part):
    rule = {
        "RuleConfigurationName": "watch",
        "RuleEvaluatorImage": "x.dkr.ecr.us-west-2.amazonaws.com/sagemaker-debugger-rules:latest",
        "RuleParameters": {"rule_to_invoke": "VanishingGradient", **parameters},
    }
    code, text = refused(client.create_training_job, **request(DebugRuleConfigurations=[rule]))
    assert code == "ValidationException"
    assert part in text


def test_the_rules_of_a_job_are_checked(client):
    rule = {
        "RuleConfigurationName": "watch",
        "RuleEvaluatorImage": "x.dkr.ecr.us-west-2.amazonaws.com/sagemaker-debugger-rules:latest",
        "RuleParameters": {"rule_to_invoke": "NoSuchRule"},
    }
    code, text = refused(client.create_training_job, **request(DebugRuleConfigurations=[rule]))
    assert code == "ValidationException"
    assert "at 'debugRuleConfigurations.1.member.ruleParameters.rule_to_invoke'" in text


def test_final_metrics_are_forty_at_most_and_numbers(client, jobs: Jobs):
    defined = [{"Name": "zloss", "Regex": "zloss: (.*)"}]
    algorithm = {**request()["AlgorithmSpecification"], "MetricDefinitions": defined}
    held = request(hyper={"hold": "1"}, AlgorithmSpecification=algorithm)
    client.create_training_job(**held)
    folder = jobs.settings.layout.job("job-1").host("algo-1", 1).root
    until(folder.is_dir)
    totals = {f"m{number}": started(float(number), time.time()) for number in range(60)}
    totals |= {"zloss": started(0.5, time.time()), "broken": started(math.nan, time.time())}
    (folder / "metrics").mkdir()
    durable.write_json(folder / "metrics" / "algo-1.json", {"metrics": to_json(totals)})
    found = client.describe_training_job(TrainingJobName="job-1")["FinalMetricDataList"]
    assert len(found) == 40
    assert found[0]["MetricName"] == "zloss"
    assert "broken" not in {each["MetricName"] for each in found}


def test_a_running_job_is_stopped_and_an_ended_one_is_not(client):
    client.create_training_job(**request(hyper={"hold": "1"}))
    answer = client.stop_training_job(TrainingJobName="job-1")
    assert answer["ResponseMetadata"]["HTTPHeaders"]["content-length"] == "0"
    assert ended(client)["TrainingJobStatus"] == "Stopped"
    code, text = refused(client.stop_training_job, TrainingJobName="job-1")
    assert code == "ValidationException"
    assert text == ("The request was rejected because the training job is in status Stopped.")


def test_a_failed_job_has_its_reason(client):
    client.create_training_job(**request(hyper={"failure": "AlgorithmError: , exit code: 1"}))
    assert ended(client)["FailureReason"] == "AlgorithmError: , exit code: 1"


def test_a_deleted_job_is_removed_and_its_name_free(client, jobs: Jobs):
    client.create_training_job(**request())
    ended(client)
    until_they_have_left(jobs.settings.layout.job("job-1").root)
    client.delete_training_job(TrainingJobName="job-1")
    assert refused(client.describe_training_job, TrainingJobName="job-1")[0] == (
        "ValidationException"
    )
    assert client.list_training_jobs()["TrainingJobSummaries"] == []
    client.create_training_job(**request())
    assert ended(client)["TrainingJobStatus"] == "Completed"


def test_a_running_job_is_not_deleted(client):
    client.create_training_job(**request(hyper={"hold": "1"}))
    assert refused(client.delete_training_job, TrainingJobName="job-1")[0] == "ResourceInUse"


def test_a_key_that_may_read_does_not_submit(service: Server):
    key, secret = service.keys.create("reader", Rights.READ)
    reader = service.client("sagemaker", aws_access_key_id=key.id, aws_secret_access_key=secret)
    assert reader.list_training_jobs()["TrainingJobSummaries"] == []
    assert refused(reader.create_training_job, **request())[0] == "AccessDeniedException"


def test_a_wrong_key_is_no_error_that_clients_retry(service: Server):
    outsider = service.client("sagemaker", aws_access_key_id="AKIANOBODY")
    assert refused(outsider.list_training_jobs)[0] == "UnrecognizedClientException"


def test_an_operation_that_is_not_offered_is_a_client_error(client):
    with pytest.raises(ClientError, match="CreateTrainingJob") as caught:
        client.list_models()
    assert caught.value.response["Error"]["Code"] == "UnknownOperationException"


def test_the_waiter_returns_at_once_for_a_job_that_has_ended(client):
    client.create_training_job(**request())
    ended(client)
    waiter = client.get_waiter("training_job_completed_or_stopped")
    waiter.wait(TrainingJobName="job-1", WaiterConfig={"Delay": 1, "MaxAttempts": 1})


def test_health_needs_no_signature(service: Server):
    with urllib.request.urlopen(f"{service.url}/health") as answer:
        assert json.load(answer) == {"status": "ok"}


def test_a_job_of_another_process_is_listed_soon(service: Server, jobs, client):
    from tests.jobs.conftest import make_spec

    jobs.submit(make_spec("from-elsewhere"))
    until(lambda: client.list_training_jobs()["TrainingJobSummaries"])


def test_a_job_waits_for_capacity_and_is_stopped_in_the_queue(jobs: Jobs, service: Server):
    client = service.client("sagemaker")
    whole = {"InstanceType": "ml.m5.24xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
    for name in ("first", "second"):
        client.create_training_job(**request(name, hyper={"hold": "1"}, ResourceConfig=whole))
    until(lambda: status(client, "first") == "Training")
    job = client.describe_training_job(TrainingJobName="second")
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("InProgress", "Pending")
    waits = job["SecondaryStatusTransitions"][-1]
    assert waits["StatusMessage"] == "Waiting for 64 cores, 256 GB of memory"
    assert "TrainingStartTime" not in job
    client.stop_training_job(TrainingJobName="second")
    job = client.describe_training_job(TrainingJobName="second")
    assert job["TrainingJobStatus"] == job["SecondaryStatus"] == "Stopped"
    listed = client.list_training_jobs(StatusEquals="Stopped")["TrainingJobSummaries"]
    assert [each["TrainingJobName"] for each in listed] == ["second"]
    (jobs.settings.layout.job("first").root / "release").touch()
    assert ended(client, "first")["TrainingJobStatus"] == "Completed"


def held_back(service: Server, **limits: int) -> tuple[AccessKey, Any]:
    """A key with one running job and one queued, while a job of another key ran."""
    key, secret = service.keys.create("ci", Rights.SUBMIT, **limits)
    given = {"aws_access_key_id": key.id, "aws_secret_access_key": secret}
    client = service.client("sagemaker", **given)
    for name in ("one", "two"):
        client.create_training_job(**request(name, hyper={"hold": "1"}))
    service.client("sagemaker").create_training_job(**request("other"))
    assert ended(client, "other")["TrainingJobStatus"] == "Completed"
    until(lambda: status(client, "one") == "Training")
    assert status(client, "two") == "Pending"
    return key, client


def test_the_limit_of_a_key_holds_its_own_jobs_back(jobs: Jobs, service: Server):
    _, client = held_back(service, limit=1)
    for name in ("one", "two"):
        (jobs.settings.layout.job(name).root / "release").touch()
    assert ended(client, "two")["TrainingJobStatus"] == "Completed"


def test_an_owner_s_limit_of_cores_holds_further_jobs_back_and_lets_others_pass(
    jobs: Jobs, service: Server
):
    key, client = held_back(service, limit_cores=3)
    (waiter,) = jobs.queue(service.keys.limits(0)).waiting
    assert waiter.why == "Waiting for a job of 'ci' to end: owner's limit of 3 cores reached"
    service.keys.set_limit(key.id, Limit(cores=4))
    until(lambda: status(client, "two") == "Training")
    for name in ("one", "two"):
        (jobs.settings.layout.job(name).root / "release").touch()
        assert ended(client, name)["TrainingJobStatus"] == "Completed"


def test_a_job_that_needs_more_than_its_owner_may_use_is_refused(service: Server):
    key, secret = service.keys.create("ci", Rights.SUBMIT, limit_cores=1)
    caller = ApiClient(RemoteServer(service.url, Key(key.id, secret)))
    params = {**request("greedy"), "Trackside": {"Cores": 2}}
    shown = "asks for 2 cores, and all jobs of 'ci' together may use 1 core at a time"
    with pytest.raises(OwnerLimitExceeded, match=shown):
        caller.call("SageMaker.CreateTrainingJob", params)


def test_a_job_cannot_choose_the_machines_of_a_server(service: Server):
    key, secret = service.keys.create("ci", Rights.SUBMIT)
    caller = ApiClient(RemoteServer(service.url, Key(key.id, secret)))
    params = {**request("elsewhere"), "Trackside": {"Placement": "slurm:me@my-own-host"}}
    with pytest.raises(ServerError, match=r"is not where this server runs jobs.*'local'"):
        caller.call("SageMaker.CreateTrainingJob", params)


def test_a_priority_that_is_no_number_is_one_violation(client):
    tags = [{"Key": "trackside:priority", "Value": "urgent"}]
    code, text = refused(client.create_training_job, **request(Tags=tags))
    assert code == "ValidationException"
    assert "must be a whole number from -1000 to 1000" in text


def status(client, name: str) -> str:
    return client.describe_training_job(TrainingJobName=name)["SecondaryStatus"]
