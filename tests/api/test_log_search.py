"""FilterLogEvents and GetLogEvents page by page, against all events read at once and sorted."""

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.api.conftest import running
from tests.api.written_jobs import keep_in_storage_only, reopen, write_job
from trackside.api import tokens
from trackside.api.app import App
from trackside.api.budget import Budget
from trackside.api.client_logs import ClientLogs
from trackside.api.json_service import OperationCall
from trackside.api.keys import AccessKey, AccessKeys, Rights
from trackside.api.log_events import event_id
from trackside.api.log_pattern import pattern
from trackside.api.log_streams import PROCESSING, TRAINING, streams
from trackside.api.logs import Logs, logs
from trackside.jobs.index import Page
from trackside.jobs.jobs import Jobs

STARTED = 1_790_000_000.0
WORDS = (b"loss", b"step 7", b"\xff\xfe", "größe".encode(), b'{"loss": 3}', b"", b"warning")
PATTERNS = ("", "loss", "loss -step", "?warning ?größe", '"step 7"', "{ $.loss = 3 }", "never")
REGION, ACTION = "eu-central-1", "logs:FilterLogEvents"
WHO = AccessKey(id="TSK", rights=Rights.ADMIN, label="tests", created=0)


def lines(chance: random.Random, start: float, seconds: float) -> list[tuple[float, bytes]]:
    """Several at one moment, some of them empty and one longer than an event may be."""
    count = chance.randrange(0, 25)
    times = sorted(start + chance.randrange(0, int(seconds)) for _ in range(count))
    texts = [b" ".join(chance.choices(WORDS, k=chance.randrange(0, 4))) + b"\n" for _ in times]
    if count > 15:
        texts[7] = b"loss " * 14_000 + b"\n"
    return list(zip(times, texts, strict=True))


# With the last there are lines of several events in a folder and in storage, as with the others.
@pytest.fixture(params=[*(pytest.param(n, marks=pytest.mark.nightly) for n in range(2)), 2])
def written(request: pytest.FixtureRequest, jobs: Jobs) -> Jobs:
    """Jobs beside and after each other: of two hosts, of two attempts, in storage only, running."""
    chance = random.Random(request.param)
    for number in range(6):
        start = STARTED + chance.randrange(0, 400)
        first = lines(chance, start + 1, 100)
        second = [lines(chance, start + 101, 50)] if number % 3 == 1 else []
        hosts, span = 1 + number % 2, (start, start + 200)
        folder = write_job(jobs, f"job-{number}", [first, *second], span=span, hosts=hosts)
        if number in (2, 4):
            keep_in_storage_only(jobs, folder, chunk_bytes=chance.choice((2000, 20_000, 1 << 20)))
        elif number == 5:
            reopen(folder)
    jobs.refresh()
    return jobs


def expected(jobs: Jobs, asked: dict[str, Any]) -> list[str]:
    matches = pattern(asked.get("filterPattern", ""))
    first, last = asked.get("startTime", 0), asked.get("endTime", 1 << 60)
    found = []
    for _, stream in streams(jobs, TRAINING, "", Page()):
        assert stream is not None
        for event in stream.events():
            if first <= event.time_ms <= last and matches(event.message):
                found.append(((event.time_ms, stream.name, *event.position), stream.name, event))
    return [event_id(event, name) for _, name, event in sorted(found, key=lambda each: each[0])]


def pages(calls: Logs, asked: dict[str, Any], limits: Iterator[int]) -> list[list[str]]:
    found, token = [], dict[str, Any]()
    while True:
        given = {"logGroupName": TRAINING, **asked, **token, "limit": next(limits)}
        response: Any = calls.filter_events(OperationCall(given, REGION, WHO, ACTION))
        found.append([event["eventId"] for event in response["events"]])
        if "nextToken" not in response:
            return found
        assert response["nextToken"] != token.get("nextToken")
        token = {"nextToken": response["nextToken"]}


def test_all_pages_together_equal_one_full_scan(written: Jobs):
    chance = random.Random(7)
    own = ClientLogs(written.settings.layout.server.logs)
    middle = int((STARTED + 250) * 1000)
    for text in PATTERNS:
        for window in ({}, {"startTime": middle}, {"endTime": middle}):
            asked = {"filterPattern": text, **window}
            wanted = expected(written, asked)
            items = chance.choice((30, 100, 1000)) if asked["filterPattern"] else 1
            calls = Logs(written, own, partial(Budget, items, 3600.0))
            limits = iter(lambda: chance.randrange(1, 40), None)
            forwards = pages(calls, asked, limits)
            assert [each for page in forwards for each in page] == wanted
            backwards = pages(calls, {**asked, "startFromHead": False}, limits)
            assert [each for page in backwards for each in page] == wanted[::-1]


def test_each_page_costs_as_much_as_the_first(jobs: Jobs):
    """However deep it is: a call that has so much to spend gets on by as many events."""
    many = [(STARTED + n / 100, b"line %d\n" % n) for n in range(2000)]
    write_job(jobs, "job-1", [many], span=(STARTED, STARTED + 100))
    jobs.refresh()
    own = ClientLogs(jobs.settings.layout.server.logs)
    calls = Logs(jobs, own, lambda: Budget(100, seconds=3600))
    for direction in ({}, {"startFromHead": False}):
        found = pages(calls, direction, iter(lambda: 10_000, None))
        assert [len(page) for page in found[1:-1]] == [100] * (len(found) - 2)
        assert sum(map(len, found)) == 2000


def test_a_listing_of_streams_continues_after_jobs_without_any(jobs: Jobs):
    for number in range(10):
        write_job(jobs, f"job-{number}", [], span=(STARTED + number, STARTED + 99), hosts=2)
    jobs.refresh()
    own = ClientLogs(jobs.settings.layout.server.logs)
    calls = Logs(jobs, own, lambda: Budget(3, seconds=3600))
    found: dict[str, list[int]] = {TRAINING: [], PROCESSING: []}
    for group in found:
        token = dict[str, str]()
        while True:
            given = {"logGroupName": group, **token}
            response: Any = calls.describe_streams(OperationCall(given, REGION, WHO, ACTION))
            found[group].append(len(response["logStreams"]))
            if "nextToken" not in response:
                break
            token = {"nextToken": response["nextToken"]}
    assert found == {TRAINING: [3] * 6 + [2], PROCESSING: [0] * 4}


def test_an_empty_page_has_a_token_that_boto3_follows(jobs: Jobs):
    texts = [b"needle\n" if n in (900, 901) else b"hay %d\n" % n for n in range(1000)]
    write_job(
        jobs, "job-1", [[(STARTED + n, text) for n, text in enumerate(texts)]], span=(STARTED, 0)
    )
    jobs.refresh()
    keys = AccessKeys(jobs.settings.layout.server.root)
    service = logs(jobs, budget=lambda: Budget(100, seconds=3600))
    with running(App({"logs": service}, keys), keys) as server:
        client = server.client("logs")
        asked = {"logGroupName": TRAINING, "filterPattern": "-hay"}
        first = client.filter_log_events(**asked)
        assert (first["events"], "nextToken" in first) == ([], True)
        found = client.get_paginator("filter_log_events").paginate(**asked)
        messages = [event["message"] for page in found for event in page["events"]]
        assert messages == ["needle", "needle"]


def test_what_a_running_job_writes_between_two_pages_is_found(jobs: Jobs):
    for name in ("quiet", "loud"):
        span = (STARTED, STARTED + 500)
        reopen(write_job(jobs, name, [[(STARTED + n, b"%d\n" % n) for n in range(9)]], span=span))
    jobs.refresh()
    own = ClientLogs(jobs.settings.layout.server.logs)
    calls = Logs(jobs, own, lambda: Budget(1000, seconds=3600))
    given = {"logGroupName": TRAINING, "logStreamNamePrefix": "", "limit": 17}
    first: Any = calls.filter_events(OperationCall(given, REGION, WHO, ACTION))
    position = jobs.settings.layout.job("loud").host("algo-1", 1)
    with position.log.open("ab") as log, position.log_times.open("a") as times:
        log.write(b"late\n")
        times.write(f"{log.tell()} {STARTED + 400:.3f}\n")
    given["nextToken"] = first["nextToken"]
    second: Any = calls.filter_events(OperationCall(given, REGION, WHO, ACTION))
    assert [event["message"] for event in second["events"]] == ["8", "late"]


def test_a_stream_is_read_backwards_from_anywhere_as_forwards(written: Jobs):
    chance = random.Random(0)
    calls = Logs(written, ClientLogs(written.settings.layout.server.logs), Budget)

    def ask(**given: Any) -> Any:
        given = {"logGroupName": TRAINING, "logStreamName": name, **given}
        return calls.get_events(OperationCall(given, REGION, WHO, ACTION))

    for _, stream in streams(written, TRAINING, "", Page()):
        assert stream is not None
        name = stream.name
        every = ask(startFromHead=True)["events"]
        found: list[Any] = []
        page = ask(limit=3)
        while page["events"]:
            found = [*page["events"], *found]
            limit = chance.randrange(1, 9)
            page = ask(limit=limit, nextToken=page["nextBackwardToken"])
        assert found == every
        for moment in {event["timestamp"] for event in every}:
            later = [event for event in every if event["timestamp"] >= moment]
            assert ask(startFromHead=True, startTime=moment)["events"] == later
            before = [event for event in every if event["timestamp"] < moment]
            assert ask(endTime=moment)["events"] == before


def test_programs_own_streams_are_searched_page_by_page(jobs: Jobs):
    own = ClientLogs(jobs.settings.layout.server.logs)
    own.make_group("mine", "ann")
    chance = random.Random(1)
    written: list[tuple[int, str, int]] = []
    for name in ("a", "b", "c"):
        own.make_stream("mine", name, "ann")
        stream = own.stream("mine", name)
        assert stream is not None
        now = 0
        for number in range(30):
            time_ms = stream.created_ms + chance.randrange(0, 50)
            now = max(now, time_ms)
            stream.append([(time_ms, f"{name} {number}")])
            written.append((now, name, number))
    calls = Logs(jobs, own, lambda: Budget(7, seconds=3600))
    wanted = [f"{name} {number}" for _, name, number in sorted(written)]
    for direction in (True, False):
        found, token = [], dict[str, str]()
        while True:
            given = {"logGroupName": "mine", "startFromHead": direction, "limit": 5, **token}
            response: Any = calls.filter_events(OperationCall(given, REGION, WHO, ACTION))
            found += [event["message"] for event in response["events"]]
            if "nextToken" not in response:
                break
            token = {"nextToken": response["nextToken"]}
        assert found == wanted[:: 1 if direction else -1]


def test_a_token_that_was_made_up_is_refused(jobs: Jobs):
    calls = Logs(jobs, ClientLogs(jobs.settings.layout.server.logs), Budget)
    given: dict[str, Any] = {"logGroupName": TRAINING}
    for position in (
        7,
        [True],
        [True, 7, None],
        [True, [["a", -1, 0, 0]], None],
        [False, [], ["x"]],
    ):
        made_up = {**given, "nextToken": tokens.token(given, position)}
        with pytest.raises(Exception, match="(?i)token"):
            calls.filter_events(OperationCall(made_up, REGION, WHO, ACTION))
