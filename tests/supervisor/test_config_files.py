"""The files below /opt/ml/input/config, exactly as the contract has them."""

import json
from pathlib import Path
from typing import Any

import pytest

from trackside.records.layout import HostFolder
from trackside.records.spec import JobSpec
from trackside.supervisor.config_files import config_files, lay_out, synced_folders

SMALLEST = {
    "TrainingJobName": "golden",
    "OutputDataConfig": {"S3OutputPath": "s3://bucket/out/"},
    "HyperParameters": {"sagemaker_program": '"train.py"', "lr": "0.1"},
}


def channel(name: str, uri: str, **members) -> dict[str, Any]:
    source = {"S3Uri": uri, **members.pop("source", {})}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}, **members}


RICH = {
    **SMALLEST,
    "AlgorithmSpecification": {"MetricDefinitions": [{"Name": "loss", "Regex": "loss=(.*)"}]},
    "ResourceConfig": {
        "InstanceGroups": [
            {"InstanceGroupName": "big", "InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2},
            {"InstanceGroupName": "small", "InstanceType": "ml.c5.xlarge", "InstanceCount": 1},
        ]
    },
    "InputDataConfig": [
        channel(
            "train",
            "s3://bucket/train",
            ContentType="text/csv",
            source={"S3DataDistributionType": "ShardedByS3Key"},
        ),
        channel(
            "records",
            "s3://bucket/records",
            InputMode="Pipe",
            RecordWrapperType="RecordIO",
            source={"InstanceGroupNames": ["big"]},
        ),
    ],
    "CheckpointConfig": {"S3Uri": "s3://bucket/ckpt/"},
    "DebugHookConfig": {
        "S3OutputPath": "s3://bucket/debug",
        "CollectionConfigurations": [
            {"CollectionName": "losses", "CollectionParameters": {"save_interval": "10"}}
        ],
    },
    "TensorBoardOutputConfig": {"S3OutputPath": "s3://bucket/tb/"},
    "ProfilerConfig": {"S3OutputPath": "s3://bucket/profile"},
}


def files(request: dict[str, Any], host: str) -> dict[str, Any]:
    return config_files(JobSpec.from_request(request), host, "eth0")


def test_the_smallest_job_has_the_files_that_are_always_there():
    found = files(SMALLEST, "algo-1")
    request = found.pop("trainingjobconfig.json")
    assert request["TrainingJobName"] == "golden"
    assert found == {
        "hyperparameters.json": {"sagemaker_program": '"train.py"', "lr": "0.1"},
        "inputdataconfig.json": {},
        "resourceconfig.json": {
            "current_host": "algo-1",
            "current_instance_type": "local",
            "current_group_name": "homogeneousCluster",
            "hosts": ["algo-1"],
            "network_interface_name": "eth0",
            "instance_groups": [
                {
                    "instance_group_name": "homogeneousCluster",
                    "instance_type": "local",
                    "hosts": ["algo-1"],
                }
            ],
        },
        "metric-definition-regex.json": [],
        "upstreamoutputdataconfig.json": [],
    }


def test_a_host_of_a_group_sees_its_group_and_its_channels():
    found = files(RICH, "algo-3")
    found.pop("trainingjobconfig.json")
    assert found == {
        "hyperparameters.json": {"sagemaker_program": '"train.py"', "lr": "0.1"},
        "inputdataconfig.json": {
            "train": {
                "TrainingInputMode": "File",
                "S3DistributionType": "ShardedByS3Key",
                "RecordWrapperType": "None",
                "ContentType": "text/csv",
            }
        },
        "resourceconfig.json": {
            "current_host": "algo-3",
            "current_instance_type": "ml.c5.xlarge",
            "current_group_name": "small",
            "hosts": ["algo-1", "algo-2", "algo-3"],
            "network_interface_name": "eth0",
            "instance_groups": [
                {
                    "instance_group_name": "big",
                    "instance_type": "ml.p4d.24xlarge",
                    "hosts": ["algo-1", "algo-2"],
                },
                {
                    "instance_group_name": "small",
                    "instance_type": "ml.c5.xlarge",
                    "hosts": ["algo-3"],
                },
            ],
        },
        "metric-definition-regex.json": [{"Name": "loss", "Regex": "loss=(.*)"}],
        "upstreamoutputdataconfig.json": [],
        "checkpointconfig.json": {"LocalPath": "/opt/ml/checkpoints"},
        "debughookconfig.json": {
            "S3OutputPath": "s3://bucket/debug",
            "LocalPath": "/opt/ml/output/tensors",
            "HookParameters": None,
            "CollectionConfigurations": [
                {"CollectionName": "losses", "CollectionParameters": {"save_interval": "10"}}
            ],
        },
        "tensorboardoutputconfig.json": {
            "S3OutputPath": "s3://bucket/tb/golden/tensorboard-output",
            "LocalPath": "/opt/ml/output/tensorboard",
        },
        "profilerconfig.json": {
            "S3OutputPath": "s3://bucket/profile",
            "ProfilingIntervalInMilliseconds": 500,
            "ProfilingParameters": {},
            "DisableProfiler": False,
        },
    }


def test_a_channel_of_another_group_is_only_there():
    assert files(RICH, "algo-1")["inputdataconfig.json"]["records"] == {
        "TrainingInputMode": "Pipe",
        "S3DistributionType": "FullyReplicated",
        "RecordWrapperType": "RecordIO",
    }


def test_hosts_are_sorted_as_text_as_the_service_does():
    request = {**SMALLEST, "ResourceConfig": {"InstanceCount": 11, "InstanceType": "local"}}
    hosts = files(request, "algo-10")["resourceconfig.json"]["hosts"]
    assert hosts[:4] == ["algo-1", "algo-10", "algo-11", "algo-2"]


def test_folders_and_files_are_on_disk_and_may_be_laid_out_again(tmp_path: Path):
    spec = JobSpec.from_request(RICH)
    folder = HostFolder(tmp_path)
    for _ in range(2):
        lay_out(folder, spec, "algo-1", "lo")
    config = folder.ml / "input" / "config"
    written = {path.name: json.loads(path.read_bytes()) for path in config.iterdir()}
    assert written == config_files(spec, "algo-1", "lo")
    for name in (
        "checkpoints",
        "code",
        "input/data",
        "model",
        "output/data",
        "output/intermediate",
        "output/metrics/sagemaker",
        "output/tensorboard",
        "output/tensors",
    ):
        assert (folder.ml / name).is_dir(), name


def test_each_synced_folder_has_its_place():
    assert synced_folders(JobSpec.from_request(RICH)) == {
        "/opt/ml/output/intermediate": "s3://bucket/out/golden/output/intermediate",
        "/opt/ml/checkpoints": "s3://bucket/ckpt",
        "/opt/ml/output/tensors": "s3://bucket/debug/golden/debug-output",
        "/opt/ml/output/tensorboard": "s3://bucket/tb/golden/tensorboard-output",
        "/opt/ml/output/profiler": "s3://bucket/profile/golden/profiler-output",
    }


@pytest.mark.parametrize(
    ("one", "other"), [("/data/a_b", "/data_a/b"), ("/opt/mlx", "/opt/ml/x"), ("/a/b", "/a_b")]
)
def test_two_folders_of_the_script_never_share_one_of_ours(tmp_path: Path, one, other):
    folder = HostFolder(tmp_path)
    assert folder.inside(one) != folder.inside(other)


def test_a_folder_inside_another_is_inside_it_here_too(tmp_path: Path):
    folder = HostFolder(tmp_path)
    assert folder.inside("/data/ckpt/") == folder.inside("/data") / "ckpt"
