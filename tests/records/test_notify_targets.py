"""Who is told about a job, as it is written."""

import pytest

from trackside.errors import InvalidSpec
from trackside.records.notify_targets import Target, split
from trackside.records.spec import JobSpec


def test_several_are_distinguished_though_an_address_may_have_a_comma():
    text = "mail:a@b.c,slack:https://hooks.example.com/x,y, webhook:http://h:8080/p?q=1,2"
    assert split(text) == [
        "mail:a@b.c",
        "slack:https://hooks.example.com/x,y",
        "webhook:http://h:8080/p?q=1,2",
    ]


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("mail:a@b.c", "mail:a@b.c"),
        ("slack:https://hooks.slack.com/services/T/B/x", "slack:https://hooks.slack.com/***"),
        ("webhook:http://me:pw@h:8080/p?token=1", "webhook:http://h:8080/***"),
    ],
)
def test_what_is_secret_in_an_address_is_hidden_and_the_rest_is_still_a_target(
    text: str, masked: str
):
    assert Target.parse(text).masked == masked
    assert Target.parse(masked).masked == masked


@pytest.mark.parametrize(
    "text",
    ["", "a@b.c", "mail:", "mail:nobody", "slack:hooks", "webhook:file:///etc/x", "sms:+49151"]
    + ["webhook:http://", "webhook:http://h:99999/", "webhook:http://h/a b", "mail:a@b,c@d"],
)
def test_what_is_no_target_is_refused_with_its_member(text: str):
    with pytest.raises(ValueError, match="must be mail:ADDRESS"):
        Target.parse(text)
    request = {
        "TrainingJobName": "job-1",
        "HyperParameters": {"sagemaker_program": "train.py"},
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
        "Trackside": {"Notify": ["mail:a@b.c", text]},
    }
    with pytest.raises(InvalidSpec, match=r"Notify\[1\]"):
        JobSpec.from_request(request)
