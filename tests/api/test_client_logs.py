"""Log groups that programs make for themselves, written and read by the real boto3."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.api.conftest import Server
from tests.api.training import refused

JOBS = "/aws/sagemaker/TrainingJobs"
STREAM = {"logGroupName": "my/app", "logStreamName": "host [1] é"}


@pytest.fixture
def client(service: Server):
    return service.client("logs")


@pytest.fixture
def made(client) -> Any:
    client.create_log_group(logGroupName="my/app")
    client.create_log_stream(**STREAM)
    return client


def events(*messages: str, at: float | None = None) -> list[dict[str, Any]]:
    time_ms = int((time.time() if at is None else at) * 1000)
    return [{"timestamp": time_ms, "message": message} for message in messages]


def messages(response: Any) -> list[str]:
    return [event["message"] for event in response["events"]]


def test_what_is_put_is_read_in_every_way(made):
    for number in range(3):
        made.put_log_events(**STREAM, logEvents=events(f"a {number}", f"b {number}\n"))
    written = [f"{letter}" for n in range(3) for letter in (f"a {n}", f"b {n}\n")]
    assert messages(made.get_log_events(**STREAM, startFromHead=True)) == written
    newest = made.get_log_events(**STREAM, limit=2)
    assert messages(newest) == written[-2:]
    before = made.get_log_events(**STREAM, limit=2, nextToken=newest["nextBackwardToken"])
    assert messages(before) == written[2:4]
    made.create_log_stream(logGroupName="my/app", logStreamName="other")
    made.put_log_events(
        logGroupName="my/app", logStreamName="other", logEvents=events("a of another")
    )
    pages = made.get_paginator("filter_log_events").paginate(
        logGroupName="my/app", filterPattern="a", PaginationConfig={"PageSize": 2}
    )
    assert [text for page in pages for text in messages(page)] == [
        *(text for text in written if text.startswith("a")),
        "a of another",
    ]
    by_prefix = made.filter_log_events(logGroupName="my/app", logStreamNamePrefix="oth")
    assert messages(by_prefix) == ["a of another"]


def test_an_event_of_before_its_stream_keeps_its_time(made):
    before = time.time() - 3600
    made.put_log_events(**STREAM, logEvents=[*events("old", at=before), *events("new")])
    [old, _] = made.filter_log_events(logGroupName="my/app", startTime=0)["events"]
    assert old["timestamp"] == int(before * 1000)
    until = int((before + 60) * 1000)
    assert messages(made.get_log_events(**STREAM, endTime=until)) == ["old"]


def test_groups_and_streams_are_listed_beside_those_of_jobs(made, client):
    client.create_log_group(logGroupName="zzz", tags={"a": "b"})
    names = [group["logGroupName"] for group in client.describe_log_groups()["logGroups"]]
    assert names == ["/aws/sagemaker/ProcessingJobs", JOBS, "my/app", "zzz"]
    for number in range(3):
        client.create_log_stream(logGroupName="zzz", logStreamName=f"s{number}")
    for descending in (False, True):
        pages = client.get_paginator("describe_log_streams").paginate(
            logGroupName="zzz", descending=descending, PaginationConfig={"PageSize": 2}
        )
        found = [stream["logStreamName"] for page in pages for stream in page["logStreams"]]
        assert found == sorted(["s0", "s1", "s2"], reverse=descending)
    client.put_log_events(logGroupName="zzz", logStreamName="s1", logEvents=events("x"))
    last = client.describe_log_streams(
        logGroupName="zzz", orderBy="LastEventTime", descending=True, limit=1
    )["logStreams"]
    assert [(each["logStreamName"], "lastEventTimestamp" in each) for each in last] == [
        ("s1", True)
    ]


def test_existing_and_missing_groups_have_awss_error_codes(made, client):
    taken = "ResourceAlreadyExistsException"
    assert refused(client.create_log_group, logGroupName="my/app")[0] == taken
    assert refused(client.create_log_group, logGroupName=JOBS)[0] == taken
    assert refused(client.create_log_stream, **STREAM)[0] == taken
    missing = "ResourceNotFoundException"
    other = {**STREAM, "logStreamName": "none"}
    assert refused(client.put_log_events, **other, logEvents=events("x"))[0] == missing
    other = {**STREAM, "logGroupName": "none"}
    assert refused(client.create_log_stream, **other)[0] == missing
    assert refused(client.get_log_events, **other)[0] == missing
    code, text = refused(client.create_log_stream, logGroupName=JOBS, logStreamName="x")
    assert code == "InvalidParameterException"
    assert "logs of jobs" in text
    client.put_retention_policy(logGroupName="my/app", retentionInDays=7)


def test_events_too_far_from_now_are_dropped_and_reported(made):
    now = time.time()
    old, new = events("old", at=now - 15 * 86400), events("new", at=now + 3 * 3600)
    response = made.put_log_events(**STREAM, logEvents=[*old, *events("now"), *new])
    shown = {"tooOldLogEventEndIndex": 1, "tooNewLogEventStartIndex": 2}
    assert response["rejectedLogEventsInfo"] == shown
    assert messages(made.get_log_events(**STREAM)) == ["now"]
    backwards = [*events("b", at=now), *events("a", at=now - 1)]
    assert refused(made.put_log_events, **STREAM, logEvents=backwards)[0] == (
        "InvalidParameterException"
    )


def test_no_event_of_several_writers_is_lost_or_torn(made, service: Server):
    def write(who: int) -> None:
        client = service.client("logs")
        for number in range(10):
            client.put_log_events(**STREAM, logEvents=events(f"{who}-{number}", "x" * 5000))

    with ThreadPoolExecutor(4) as writers:
        list(writers.map(write, range(4)))
    found = messages(made.get_log_events(**STREAM, startFromHead=True))
    named = [text for text in found if not text.startswith("x")]
    assert sorted(named) == sorted(f"{who}-{n}" for who in range(4) for n in range(10))
    assert len(found) == 80


def test_deleted_logs_are_removed(made):
    made.delete_log_stream(**STREAM)
    assert made.describe_log_streams(logGroupName="my/app")["logStreams"] == []
    made.delete_log_group(logGroupName="my/app")
    assert refused(made.get_log_events, **STREAM)[0] == "ResourceNotFoundException"
