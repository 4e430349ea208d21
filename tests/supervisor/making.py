"""Specs for the tests of input channels, by their Python names."""

from dataclasses import replace
from typing import Any

from trackside.records.spec import Channel, InstanceGroup, JobSpec, Resources

_SMALLEST = {
    "TrainingJobName": "job",
    "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
    "HyperParameters": {"sagemaker_program": "train.py"},
}


def channel(uri: str, name: str = "train", **members: Any) -> Channel:
    return Channel(name=name, uri=uri, **members)


def job(*inputs: Channel, hosts: int = 1, groups: dict[str, int] | None = None) -> JobSpec:
    made = [InstanceGroup(name=name, count=count) for name, count in (groups or {}).items()]
    resources = Resources(count=hosts, groups=tuple(made))
    return replace(JobSpec.from_request(_SMALLEST), inputs=inputs, resources=resources)
