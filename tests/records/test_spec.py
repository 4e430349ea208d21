"""A request is read whole, checked once, and written back as it came."""

from typing import Any

import pytest

from trackside.errors import InvalidSpec
from trackside.records.spec import JobSpec


def request(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "TrainingJobName": "mnist-1",
        "HyperParameters": {"sagemaker_program": '"train.py"', "epochs": "3"},
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
    }
    return {**base, **changes}


def violations_of(**changes: Any) -> list[str]:
    with pytest.raises(InvalidSpec) as caught:
        JobSpec.from_request(request(**changes))
    return [str(violation) for violation in caught.value.violations]


FULL: dict[str, Any] = {
    "TrainingJobName": "mnist-2026-11-15",
    "RoleArn": "arn:aws:iam::111122223333:role/trainer",
    "AlgorithmSpecification": {
        "TrainingImage": "pytorch-training:2.13-cpu",
        "TrainingInputMode": "File",
        "MetricDefinitions": [{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
        "EnableSageMakerMetricsTimeSeries": True,
    },
    "HyperParameters": {"sagemaker_program": '"train.py"', "lr": "0.1"},
    "InputDataConfig": [
        {
            "ChannelName": "training",
            "DataSource": {
                "S3DataSource": {
                    "S3DataType": "S3Prefix",
                    "S3Uri": "s3://bucket/train",
                    "S3DataDistributionType": "ShardedByS3Key",
                }
            },
            "ContentType": "text/csv",
            "CompressionType": "None",
            "RecordWrapperType": "None",
            "ShuffleConfig": {"Seed": 7},
        }
    ],
    "OutputDataConfig": {
        "S3OutputPath": "s3://bucket/out",
        "KmsKeyId": "",
        "CompressionType": "GZIP",
    },
    "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 2, "VolumeSizeInGB": 400},
    "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
    "RetryStrategy": {"MaximumRetryAttempts": 2},
    "CheckpointConfig": {"S3Uri": "s3://bucket/ckpt", "LocalPath": "/opt/ml/checkpoints"},
    "Environment": {"OMP_NUM_THREADS": "1"},
    "DebugHookConfig": {
        "S3OutputPath": "s3://bucket/debug",
        "LocalPath": "/opt/ml/output/tensors",
        "HookParameters": {"save_interval": "10"},
        "CollectionConfigurations": [
            {"CollectionName": "gradients", "CollectionParameters": {"save_interval": "5"}}
        ],
    },
    "DebugRuleConfigurations": [
        {
            "RuleConfigurationName": "VanishingGradient",
            "RuleEvaluatorImage": "rules:latest",
            "RuleParameters": {"rule_to_invoke": "VanishingGradient"},
        }
    ],
    "TensorBoardOutputConfig": {
        "S3OutputPath": "s3://bucket/tb",
        "LocalPath": "/opt/ml/output/tensorboard",
    },
    "ProfilerConfig": {
        "S3OutputPath": "s3://bucket/prof",
        "ProfilingIntervalInMilliseconds": 500,
        "DisableProfiler": False,
    },
    "Tags": [{"Key": "team", "Value": "vision"}],
    "EnableManagedSpotTraining": False,
    "EnableNetworkIsolation": False,
    "EnableInterContainerTrafficEncryption": False,
    "VpcConfig": {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]},
}


def test_a_full_request_comes_back_as_it_was_sent():
    written = JobSpec.from_request(FULL).to_request()
    for key, value in FULL.items():
        assert written[key] == value, key


def test_a_small_request_gets_the_service_s_defaults():
    spec = JobSpec.from_request(request())
    assert spec.stopping.max_runtime_seconds is None  # the API fills in its day
    assert spec.algorithm.input_mode == "File"
    assert spec.hosts == ("algo-1",)
    assert spec.max_attempts == 1
    assert spec.entry_point == "train.py"


@pytest.mark.parametrize(
    "name", ["../x", "a/b", "-lead", "trail-", "", "x" * 64, "a_b", "a b", "ü", "a\0b", ".", "a\n"]
)
def test_a_name_that_breaks_the_pattern_is_refused(name: str):
    [line] = violations_of(TrainingJobName=name)
    assert line.startswith("TrainingJobName = ")
    assert repr(name)[:20] in line


def test_every_violation_is_reported_at_once():
    found = violations_of(
        TrainingJobName="../x",
        HyperParameters={"epochs": 3},
        StoppingCondition={"MaxRuntimeInSeconds": 0},
        InputDataConfig=[{"ChannelName": "a/b"}],
        Tags=[{"Key": "x", "Value": "1"}, {"Key": "x", "Value": "2"}],
        Colour="red",
    )
    text = "\n".join(found)
    for part in (
        "TrainingJobName = '../x'",
        'HyperParameters.epochs = 3: must be a string on the wire; write "3"',
        "StoppingCondition.MaxRuntimeInSeconds = 0: must be at least 1",
        "InputDataConfig[0].ChannelName = 'a/b'",
        "InputDataConfig[0].DataSource.S3DataSource.S3Uri = None: is required",
        "Tags.Key = 'x': is given 2 times",
        "Colour = 'red': is not known",
    ):
        assert part in text


def test_an_unknown_nested_member_is_refused_with_the_known_ones():
    [line] = violations_of(ResourceConfig={"InstanceCont": 2})
    assert "ResourceConfig.InstanceCont = 2: is not known" in line
    assert "InstanceCount" in line


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"HyperParameters": {}}, "names nothing to run"),
        ({"OutputDataConfig": {"S3OutputPath": "ftp://x/y"}}, "must be an s3://"),
        ({"CheckpointConfig": {"S3Uri": "s3://b/c", "LocalPath": "/opt/ml/../x"}}, "'..' parts"),
        ({"CheckpointConfig": {"S3Uri": "s3://b/c", "LocalPath": "/opt/ml"}}, "is taken"),
        ({"ProfilerConfig": {"ProfilingParameters": {"LocalPath": "prof"}}}, "absolute path"),
        ({"Environment": {"A-B": "1"}}, "name must match"),
        ({"RetryStrategy": {"MaximumRetryAttempts": 31}}, "must be at most 30"),
        (
            {"StoppingCondition": {"MaxRuntimeInSeconds": 10, "MaxWaitTimeInSeconds": 5}},
            "must be at least MaxRuntimeInSeconds (10)",
        ),
        ({"HyperParameters": {"sagemaker_program": "a", "x=y": "1"}}, "must not contain '='"),
        ({"ResourceConfig": {"InstanceCount": True}}, "must be a whole number"),
        ({"ResourceConfig": []}, "must be an object"),
        ({"Tags": "x"}, "must be a list"),
    ],
)
def test_a_violation_names_the_way_out(changes: dict[str, Any], part: str):
    assert part in "\n".join(violations_of(**changes))


@pytest.mark.parametrize("name", [".", ".."])
def test_a_channel_cannot_leave_its_folder(name: str):
    source = {"S3DataSource": {"S3Uri": "s3://b/x"}}
    [line] = violations_of(InputDataConfig=[{"ChannelName": name, "DataSource": source}])
    assert "would leave the data folder" in line


def test_a_job_without_a_time_limit_stays_one_in_its_record():
    spec = JobSpec.from_request(request(StoppingCondition={"MaxWaitTimeInSeconds": 5}))
    assert spec.stopping.max_runtime_seconds is None
    assert JobSpec.from_request(spec.to_request()) == spec


def test_instance_groups_number_the_hosts_on():
    groups = [
        {"InstanceGroupName": "a", "InstanceType": "local", "InstanceCount": 2},
        {"InstanceGroupName": "b", "InstanceType": "local", "InstanceCount": 1},
    ]
    spec = JobSpec.from_request(request(ResourceConfig={"InstanceGroups": groups}))
    assert spec.hosts == ("algo-1", "algo-2", "algo-3")


def test_every_metric_s_pattern_must_be_a_regular_expression():
    metrics = [
        {"Name": "loss", "Regex": "loss: ([0-9.]+)"},
        {"Name": "a", "Regex": "acc ("},
        {"Name": "b", "Regex": "*"},
    ]
    first, second = violations_of(AlgorithmSpecification={"MetricDefinitions": metrics})
    assert first.startswith("AlgorithmSpecification.MetricDefinitions[1].Regex = 'acc ('")
    assert "missing )" in first
    assert "MetricDefinitions[2].Regex = '*'" in second


def test_a_folder_to_run_in_is_absolute():
    spec = JobSpec.from_request(request(Trackside={"InPlace": "/home/me/project"}))
    assert spec.options.in_place == "/home/me/project"
    [reported] = violations_of(Trackside={"InPlace": "project"})
    assert "Trackside.InPlace" in reported
    assert "must be an absolute path" in reported


@pytest.mark.parametrize("size", [-0.5, float("nan"), float("inf"), "1"])
def test_a_size_of_shared_memory_is_a_number_from_0_on(size: object):
    [violation] = violations_of(Trackside={"ShmGB": size})
    assert violation.startswith(f"Trackside.ShmGB = {size!r}: must be ")
    assert JobSpec.from_request(request(Trackside={"ShmGB": 0.5})).options.shm_gb == 0.5
