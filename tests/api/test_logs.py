"""Logs of jobs, read by the real boto3."""

import shutil
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.conftest import REGION, Server
from tests.api.training import ended, refused, request
from tests.job_processes import until_they_have_left
from tests.wait import until
from trackside.jobs.jobs import Jobs
from trackside.records.finding import Finding

GROUP = "/aws/sagemaker/TrainingJobs"
RULES = "/aws/sagemaker/ProcessingJobs"


@pytest.fixture
def client(service: Server):
    return service.client("logs")


@pytest.fixture
def training(service: Server):
    return service.client("sagemaker")


def stream_of(client: Any, job: str = "job-1") -> str:
    (stream,) = client.describe_log_streams(logGroupName=GROUP, logStreamNamePrefix=f"{job}/")[
        "logStreams"
    ]
    return str(stream["logStreamName"])


def write(jobs: Jobs, lines: list[tuple[str, float]], *, marked: int | None = None) -> None:
    """More of the running job's log, as a supervisor has it: text, and when it came."""
    position = jobs.settings.layout.job("job-1").host("algo-1", 1)
    with position.log.open("ab") as log, position.log_times.open("a") as times:
        for number, (text, moment) in enumerate(lines):
            log.write(text.encode())
            if marked is None or number < marked:
                times.write(f"{log.tell()} {moment:.3f}\n")


@pytest.fixture
def held(jobs: Jobs, training) -> float:
    """A job that runs on and has written nothing; when it was created."""
    training.create_training_job(**request(hyper={"hold": "1", "lines": "0"}))
    until(lambda: jobs.describe("job-1")["SecondaryStatus"] == "Training")
    return jobs.record("job-1").history.created


def release(jobs: Jobs) -> None:
    (jobs.settings.layout.job("job-1").root / "release").touch()


def test_both_groups_are_there_before_any_job(client):
    groups = client.describe_log_groups()["logGroups"]
    assert [group["logGroupName"] for group in groups] == [RULES, GROUP]
    arn = f"arn:aws:logs:{REGION}:000000000000:log-group:{GROUP}"
    assert (groups[1]["arn"], groups[1]["logGroupArn"]) == (f"{arn}:*", arn)
    assert client.describe_log_streams(logGroupIdentifier=arn)["logStreams"] == []


def test_what_is_not_there_has_the_code_that_clients_ignore(client):
    missing = refused(client.describe_log_streams, logGroupName="/aws/other")
    assert missing == ("ResourceNotFoundException", "The specified log group does not exist.")
    code, _ = refused(client.get_log_events, logGroupName=GROUP, logStreamName="a/algo-1-1")
    assert code == "ResourceNotFoundException"


def test_streams_of_two_hosts_come_by_name_and_without_a_token(client, training):
    two = {"InstanceType": "ml.m5.large", "InstanceCount": 2, "VolumeSizeInGB": 1}
    training.create_training_job(**request(ResourceConfig=two))
    training.create_training_job(**request("job-1-other"))
    response = client.describe_log_streams(
        logGroupName=GROUP, logStreamNamePrefix="job-1/", orderBy="LogStreamName", limit=2
    )
    names = [stream["logStreamName"].rpartition("-")[0] for stream in response["logStreams"]]
    assert names == ["job-1/algo-1", "job-1/algo-2"]
    assert "nextToken" not in response


def test_streams_are_paged_within_and_across_jobs(client, training):
    two = {"InstanceType": "ml.m5.large", "InstanceCount": 3, "VolumeSizeInGB": 1}
    for number in range(3):
        training.create_training_job(**request(f"job-{number}", ResourceConfig=two))
    for size in (1, 2, 3, 4, 9):
        for descending in (False, True):
            pages = client.get_paginator("describe_log_streams").paginate(
                logGroupName=GROUP, descending=descending, PaginationConfig={"PageSize": size}
            )
            found = [stream["logStreamName"] for page in pages for stream in page["logStreams"]]
            assert found == sorted(set(found), reverse=descending)
            assert len(found) == 9


def test_a_log_is_read_to_its_end_and_continues_from_the_same_token(client, jobs: Jobs, held):
    write(jobs, [(f"line {n}\n", held + n) for n in range(5)])
    stream = {"logGroupName": GROUP, "logStreamName": stream_of(client), "startFromHead": True}
    first = client.get_log_events(**stream, limit=3)
    assert [event["message"] for event in first["events"]] == ["line 0", "line 1", "line 2"]
    second = client.get_log_events(**stream, nextToken=first["nextForwardToken"])
    assert [event["message"] for event in second["events"]] == ["line 3", "line 4"]
    end = client.get_log_events(**stream, nextToken=second["nextForwardToken"])
    assert end["events"] == []
    assert end["nextForwardToken"] == second["nextForwardToken"]
    write(jobs, [("late\n", held + 9)])
    later = client.get_log_events(**stream, nextToken=end["nextForwardToken"])
    assert [event["message"] for event in later["events"]] == ["late"]
    back = client.get_log_events(**stream, nextToken=later["nextBackwardToken"], limit=2)
    assert [event["message"] for event in back["events"]] == ["line 3", "line 4"]


def test_both_tokens_have_the_usual_form_even_of_an_empty_stream(client, held):
    response = client.get_log_events(logGroupName=GROUP, logStreamName=stream_of(client))
    assert response["events"] == []
    assert response["nextForwardToken"][:2] == "f/"
    assert response["nextBackwardToken"][:2] == "b/"
    assert len(response["nextForwardToken"]) == len(response["nextBackwardToken"]) == 58


def test_without_start_from_head_the_newest_events_are_returned(client, jobs: Jobs, held):
    write(jobs, [(f"line {n}\n", held + n) for n in range(9)])
    stream = {"logGroupName": GROUP, "logStreamName": stream_of(client)}
    newest = client.get_log_events(**stream, limit=4)
    assert [event["message"] for event in newest["events"]] == [f"line {n}" for n in range(5, 9)]
    before = client.get_log_events(**stream, limit=4, nextToken=newest["nextBackwardToken"])
    assert [event["message"] for event in before["events"]] == [f"line {n}" for n in range(1, 5)]


def test_no_line_of_a_burst_at_one_moment_is_lost_or_doubled(client, jobs: Jobs, held):
    """As SDK 2 reads: from the time of the last event on, less those it had seen of that time."""
    stream = {"logGroupName": GROUP, "logStreamName": stream_of(client), "startFromHead": True}
    seen: list[str] = []
    last, at_last = 0, 0
    expected: list[str] = []
    for burst in range(4):
        lines = [f"burst {burst} line {n}" for n in range(7)]
        write(jobs, [(line + "\n", held + burst // 2) for line in lines])
        expected += lines
        events: list[Any] = []
        token: dict[str, str] = {}
        while True:
            page = client.get_log_events(**stream, **token, startTime=last, limit=3)
            if not page["events"]:
                break
            events += page["events"]
            token = {"nextToken": page["nextForwardToken"]}
        for event in events[at_last:]:
            seen.append(event["message"])
            at_last = at_last + 1 if event["timestamp"] == last else 1
            last = event["timestamp"]
    assert seen == expected


def test_the_start_is_inside_and_the_end_is_not(client, jobs: Jobs, held):
    write(jobs, [(f"line {n}\n", held + n) for n in range(5)])
    stream = {"logGroupName": GROUP, "logStreamName": stream_of(client), "startFromHead": True}
    times = [event["timestamp"] for event in client.get_log_events(**stream)["events"]]
    window = client.get_log_events(**stream, startTime=times[1], endTime=times[3])
    assert [event["message"] for event in window["events"]] == ["line 1", "line 2"]


def test_only_final_lines_of_a_running_job_are_returned(client, jobs: Jobs, held):
    stream = {"logGroupName": GROUP, "logStreamName": stream_of(client), "startFromHead": True}
    write(jobs, [("marked\n", held), ("no time yet\n", held), ("no end", held)], marked=1)

    def messages() -> list[str]:
        return [event["message"] for event in client.get_log_events(**stream)["events"]]

    assert messages() == ["marked"]
    release(jobs)
    until(lambda: jobs.record("job-1").history.state.is_final)
    assert messages() == ["marked", "no time yet", "no end"]


def test_times_never_run_backwards_and_empty_lines_are_a_space(client, jobs: Jobs, held):
    write(jobs, [("a\n", held + 5), ("\n", held + 3), ("b\r\n", held + 6)])
    stream = {"logGroupName": GROUP, "logStreamName": stream_of(client), "startFromHead": True}
    events = client.get_log_events(**stream)["events"]
    assert [event["message"] for event in events] == ["a", " ", "b"]
    times = [event["timestamp"] for event in events]
    assert times == sorted(times)


def test_long_lines_and_pages_stay_within_their_limits(client, jobs: Jobs, held):
    write(jobs, [("x" * 3_000_000 + "\n", held)])
    stream = {"logGroupName": GROUP, "logStreamName": stream_of(client), "startFromHead": True}
    text, token = "", dict[str, str]()
    while (page := client.get_log_events(**stream, **token))["events"]:
        sizes = [len(event["message"]) for event in page["events"]]
        assert max(sizes) < 256 * 1024
        assert sum(sizes) <= 1 << 20
        text += "".join(event["message"] for event in page["events"])
        token = {"nextToken": page["nextForwardToken"]}
    assert len(text) == 3_000_000


def test_a_log_is_read_from_storage_when_the_folder_was_removed(client, jobs: Jobs, training):
    training.create_training_job(**request(hyper={"lines": "4"}))
    ended(training)
    name = stream_of(client)
    folder = jobs.settings.layout.job("job-1").root
    until_they_have_left(folder)
    assert training.list_training_jobs()["TrainingJobSummaries"]  # it is in the index by now
    shutil.rmtree(folder)
    assert stream_of(client) == name
    events = client.get_log_events(logGroupName=GROUP, logStreamName=name)["events"]
    assert [event["message"] for event in events] == [f"line {n}" for n in range(4)]


def test_a_job_that_has_ended_has_its_whole_log(client, training):
    training.create_training_job(**request(hyper={"lines": "200"}))
    ended(training)
    stream = {"logGroupName": GROUP, "logStreamName": stream_of(client), "startFromHead": True}
    assert len(client.get_log_events(**stream)["events"]) == 200


def tailed(client: Any, **given: Any) -> list[Any]:
    pages = client.get_paginator("filter_log_events").paginate(logGroupName=GROUP, **given)
    return [event for page in pages for event in page["events"]]


def test_events_of_all_jobs_are_merged_by_time_on_pages_of_any_size(client, training):
    for number in range(3):
        training.create_training_job(**request(f"job-{number}", hyper={"lines": "5"}))
        ended(training, f"job-{number}")
    for size in (1, 4, 100):
        events = tailed(client, interleaved=True, PaginationConfig={"PageSize": size})
        assert len(events) == 15
        ids = [event["eventId"] for event in events]
        assert len(set(ids)) == 15
        assert [event["timestamp"] for event in events] == sorted(
            event["timestamp"] for event in events
        )
    since = events[7]["timestamp"]
    again = tailed(client, startTime=since)
    assert {event["eventId"] for event in again} == {
        event["eventId"] for event in events if event["timestamp"] >= since
    }
    named = tailed(client, logStreamNames=[stream_of(client, "job-2")])
    assert len(named) == 5
    assert tailed(client, startTime=int(time.time() * 1000) + 60_000) == []


def test_the_newest_events_come_first_on_request(client, training):
    for number in range(3):
        training.create_training_job(**request(f"job-{number}", hyper={"lines": "5"}))
        ended(training, f"job-{number}")
    ids = [event["eventId"] for event in tailed(client)]
    for size in (1, 4, 100):
        given = {"startFromHead": False, "PaginationConfig": {"PageSize": size}}
        assert [event["eventId"] for event in tailed(client, **given)] == ids[::-1]
    first = client.filter_log_events(logGroupName=GROUP, startFromHead=False, limit=4)
    on = client.filter_log_events(logGroupName=GROUP, nextToken=first["nextToken"], limit=4)
    assert [event["eventId"] for event in on["events"]] == ids[-5:-9:-1]


def test_a_filter_s_end_is_inside(client, jobs: Jobs, held):
    write(jobs, [(f"line {n}\n", held + n) for n in range(5)])
    times = [event["timestamp"] for event in tailed(client)]
    found = tailed(client, startTime=times[1], endTime=times[3])
    assert [event["message"] for event in found] == ["line 1", "line 2", "line 3"]
    last = tailed(client, startTime=times[1], endTime=times[3], startFromHead=False)
    assert last == found[::-1]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("", ["loss 1 ok", "Loss 2", "step ok"]),
        ("loss", ["loss 1 ok"]),
        ("loss ok", ["loss 1 ok"]),
        ('"1 ok"', ["loss 1 ok"]),
        ("?Loss ?step", ["Loss 2", "step ok"]),
        ("ok -step", ["loss 1 ok"]),
    ],
)
def test_patterns_choose_by_words(client, jobs: Jobs, held, pattern, expected):
    write(jobs, [(f"{line}\n", held) for line in ("loss 1 ok", "Loss 2", "step ok")])
    found = tailed(client, filterPattern=pattern, logStreamNamePrefix="job-1/")
    assert [event["message"] for event in found] == expected


def test_patterns_and_tokens_that_are_not_understood_are_refused(client, held):
    params = {"logGroupName": GROUP}
    for pattern in ("%lo+ss%", "[a, b]", '"open', "{ $.a = }"):
        wrong = refused(client.filter_log_events, **params, filterPattern=pattern)
        assert wrong[0] == "InvalidParameterException"
    wrong = refused(client.filter_log_events, **params, nextToken="garbage")
    assert wrong[0] == "InvalidParameterException"
    name = stream_of(client)
    wrong = refused(client.get_log_events, **params, logStreamName=name, nextToken="f/1")
    assert wrong[0] == "InvalidParameterException"


def test_a_rules_findings_are_in_its_own_stream(client, jobs: Jobs, training):
    rule = {
        "RuleConfigurationName": "Watch-Loss",
        "RuleEvaluatorImage": "x.dkr.ecr.us-west-2.amazonaws.com/sagemaker-debugger-rules:latest",
        "RuleParameters": {"rule_to_invoke": "LossNotDecreasing"},
    }
    training.create_training_job(
        **request("Job-1", hyper={"hold": "1"}, DebugRuleConfigurations=[rule])
    )
    path = jobs.settings.layout.job("Job-1").rules.findings
    path.parent.mkdir(exist_ok=True)
    finding = Finding(
        rule="LossNotDecreasing",
        message="It rose.",
        configuration="Watch-Loss",
        step=7,
        time=time.time(),
    )
    path.write_bytes(finding.to_line())
    (stream,) = client.describe_log_streams(
        logGroupName=RULES, logStreamNamePrefix="Job-1-Watch-Loss-"
    )["logStreams"]
    events = client.get_log_events(logGroupName=RULES, logStreamName=stream["logStreamName"])
    assert [each["message"] for each in events["events"]] == ["LossNotDecreasing: step 7: It rose."]


def test_an_operation_we_lack_names_what_there_is(client):
    with pytest.raises(ClientError, match="GetLogEvents"):
        client.describe_metric_filters(logGroupName="mine")
