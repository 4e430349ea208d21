"""Requests as clients send them, and what tests wait for."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.wait import until

ROLE = "arn:aws:iam::000000000000:role/SageMakerRole"
IMAGE = "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.1-cpu-py310"


def request(name: str = "job-1", *, hyper: dict[str, str] | None = None, **changed: Any) -> Any:
    """`hyper` defines what the stand-in for a supervisor does."""
    return {
        "TrainingJobName": name,
        "RoleArn": ROLE,
        "AlgorithmSpecification": {"TrainingImage": IMAGE, "TrainingInputMode": "File"},
        "HyperParameters": {"sagemaker_program": '"train.py"', **(hyper or {})},
        "OutputDataConfig": {"S3OutputPath": "s3://out/runs"},
        "ResourceConfig": {
            "InstanceType": "ml.m5.large",
            "InstanceCount": 1,
            "VolumeSizeInGB": 400,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        **changed,
    }


def ended(client: Any, name: str = "job-1") -> Any:
    def poll() -> Any:
        job = client.describe_training_job(TrainingJobName=name)
        return job if job["TrainingJobStatus"] in ("Completed", "Failed", "Stopped") else None

    return until(poll)


def refused(call: Any, **given: Any) -> tuple[str, str]:
    """The code and the text of the error."""
    with pytest.raises(ClientError) as caught:
        call(**given)
    error = caught.value.response["Error"]
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    return error["Code"], error["Message"]
