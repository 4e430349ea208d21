"""What a request over the wire may not ask for, though a job of this machine's own may."""

from trackside.api.validation import wire_violations
from trackside.records.spec import JobSpec


def test_no_client_names_a_folder_of_the_server_s_to_run_in():
    spec = JobSpec.from_request(
        {
            "TrainingJobName": "one",
            "RoleArn": "arn:aws:iam::111122223333:role/trainer",
            "HyperParameters": {"sagemaker_program": "train.py"},
            "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
            "Trackside": {"InPlace": "/home/somebody"},
        }
    )
    [violation] = wire_violations(spec)
    assert violation.field == "Trackside.InPlace"
    assert violation.value == "/home/somebody"
