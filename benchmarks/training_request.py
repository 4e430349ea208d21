"""CreateTrainingJob as boto3 sends it, for what does not go through our own client."""

from typing import Any


def training_request(name: str, **members: Any) -> dict[str, Any]:
    return {
        "TrainingJobName": name,
        "RoleArn": "arn:aws:iam::000000000000:role/trackside",
        "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
        "HyperParameters": {
            "sagemaker_program": "train.py",
            "sagemaker_submit_directory": "s3://code/source.tar.gz",
        },
        "OutputDataConfig": {"S3OutputPath": "s3://out/runs"},
        "ResourceConfig": {"InstanceType": "local", "InstanceCount": 1, "VolumeSizeInGB": 1},
        "StoppingCondition": {"MaxRuntimeInSeconds": 60},
        **members,
    }


def channel_of(name: str, uri: str = "s3://code/data/") -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": uri}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}}
