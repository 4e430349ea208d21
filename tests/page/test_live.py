"""Live updates: server-sent events of a real server, about jobs that run."""

import asyncio
import http.client
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from tests.jobs.conftest import make_spec
from tests.page.conftest import Browser, Team, running, serving, team_server
from tests.wait import until
from trackside.curves.event_file import EventFile
from trackside.jobs.jobs import Jobs
from trackside.page import feeds, live, ui_address, ui_server
from trackside.page.problems import TooManyStreams
from trackside.records.layout import TENSORBOARD
from trackside.records.rights import Rights
from trackside.records.spec import JobSpec
from trackside.settings import environment

SCRIPT = """
import pathlib, sys, time
from trackside.curves.event_file import EventFile
folder = pathlib.Path(sys.argv[1])
file = EventFile(pathlib.Path("/opt/ml/output/tensorboard"))
for step in range(1000):
    if step:
        while not (folder / f"go-{step}").exists():
            if (folder / "end").exists():
                sys.exit()
            time.sleep(0.01)
    file.add(("loss", 1.0 / (step + 1), step, time.time()))
    file.flush()
    print("step", step, flush=True)
"""


NAMES = ("jobs", "job", "gone", "issues", "points", "tensors", "log")


class Events:
    """A stream, read by a thread."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        self.found: dict[str, Queue[Any]] = {name: Queue() for name in NAMES}
        self.num_bytes = 0
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        name = ""
        try:
            while line := self._response.readline():
                self.num_bytes += len(line)
                text = line.decode().rstrip("\n")
                if text.startswith("event: "):
                    name = text.removeprefix("event: ")
                elif text.startswith("data: "):
                    self.found[name].put(json.loads(text.removeprefix("data: ")))
        except (OSError, ValueError, http.client.HTTPException):
            pass
        self.is_over.set()

    def next(self, wanted: str) -> Any:
        return self.found[wanted].get(timeout=60)


@contextmanager
def stream(browser: Browser, query: str) -> Iterator[Events]:
    connection = http.client.HTTPConnection("127.0.0.1", browser.port, timeout=60)
    headers = {**browser.headers, **({"cookie": browser.cookie} if browser.cookie else {})}
    connection.connect()
    connection.sock.settimeout(None)
    own = connection.sock
    connection.request("GET", f"/ui/api/live?{query}", headers=headers)
    response = connection.getresponse()
    assert response.status == 200, response.read()
    assert response.headers["content-type"].startswith("text/event-stream")
    events = Events(response)
    try:
        yield events
    finally:
        with suppress(OSError):  # the server has ended it
            own.shutdown(socket.SHUT_RDWR)
        events.thread.join(60)
        response.close()
        connection.close()


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Path]:
    """The folder by which the script is led: it ends with the test, however that ends."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(SCRIPT)
    yield tmp_path
    (tmp_path / "end").touch()


@pytest.fixture
def held(jobs: Jobs) -> EventFile:
    """The event file of a job that runs until the test ends."""
    jobs.submit(make_spec("held", hyper={"hold": "1"}))
    until(lambda: str(jobs.record("held").history.state.secondary) == "Training")
    folder = jobs.settings.layout.job("held").host("algo-1", 1).inside(TENSORBOARD)
    folder.mkdir(parents=True, exist_ok=True)
    file = EventFile(folder)
    add(file, 0)
    return file


def add(file: EventFile, step: int, tag: str = "loss") -> None:
    file.add((tag, step * 0.5, step, time.time()))
    file.flush()


def curve_id(browser: Browser, job: str, name: str) -> str:
    def found() -> str:
        curves = browser.get(f"/ui/api/jobs/{job}/curves").json["curves"]
        return next((str(each["id"]) for each in curves if each["name"] == name), "")

    return until(found)


def test_points_come_while_a_real_job_runs(training: Path, jobs: Jobs):
    real = Jobs(jobs.settings, {**environment(), "TRACKSIDE_S3": "embedded"})
    options = {
        "InPlace": str(training / "code"),
        "Command": [sys.executable, "train.py", str(training)],
    }
    with serving(real) as browser:
        browser.open_session()
        spec = JobSpec.from_request(
            {
                "TrainingJobName": "real",
                "OutputDataConfig": {"S3OutputPath": "s3://out/runs"},
                "ResourceConfig": {"InstanceCount": 1},
                "Trackside": options,
            }
        )
        real.submit(spec)
        named = curve_id(browser, "real", "loss")
        with stream(browser, f"job=real&curves={named}&log=algo-1&from=1") as events:
            for step in (1, 2):
                (training / f"go-{step}").touch()
                (item,) = events.next("points")["items"]
                assert (item["job"], item["id"], item["x"]) == ("real", named, [step])
                assert item["y"] == [pytest.approx(1 / (step + 1))]
            lines: list[str] = []
            while "step 2" not in lines:
                lines += [line["text"] for line in events.next("log")["lines"]]
            assert "step 0" in lines
            (training / "end").touch()

            def row() -> Any:
                return events.next("job")["row"]

            until(lambda: row()["status"] == "Completed")


def test_only_new_points_of_the_curves_asked_for_are_sent(browser: Browser, held: EventFile):
    named = curve_id(browser, "held", "loss")
    with stream(browser, f"curves=held:{named}") as events:
        add(held, 1, "accuracy")
        add(held, 1)
        (item,) = events.next("points")["items"]
        assert (item["x"], item["y"]) == ([1], [0.5])
        add(held, 2)
        (item,) = events.next("points")["items"]
        assert item["x"] == [2]


def test_an_idle_stream_sends_nothing_but_a_sign_of_life(
    browser: Browser, held: EventFile, monkeypatch: pytest.MonkeyPatch
):
    named = curve_id(browser, "held", "loss")
    with stream(browser, f"curves=held:{named}") as events:
        add(held, 1)
        events.next("points")
        before = events.num_bytes
        monkeypatch.setattr(live, "HEARTBEAT_SECONDS", 0.5)
        until(lambda: events.num_bytes > before)
        assert events.num_bytes - before <= 12
        assert all(queue.empty() for queue in events.found.values())


def test_lines_of_a_log_are_sent_from_the_one_asked_for(browser: Browser, jobs: Jobs):
    jobs.submit(make_spec("held", hyper={"hold": "1", "lines": "5"}))
    total = until(lambda: _total(browser, "held"))
    with stream(browser, f"job=held&log=algo-1&from={total}") as events:
        assert events.next("log")["first"] == total - 1
        log = jobs.settings.layout.job("held").host("algo-1", 1).log
        with log.open("ab") as file:
            file.write(b"half of a ")
            file.flush()
            sent = events.next("log")
            assert [line["text"] for line in sent["lines"]] == ["half of a "]
            file.write(b"line\nnext \x1b[31mred\x1b[0m <script>\n")
            file.flush()
            texts: dict[int, str] = {}
            while len(texts) < 2:
                sent = events.next("log")
                for number, line in enumerate(sent["lines"], sent["first"]):
                    texts[number] = line["text"]
        assert texts[total + 1] == "half of a line"
        assert texts[total + 2] == "next \x1b[31mred\x1b[0m <script>"


def _total(browser: Browser, job: str) -> int:
    reply = browser.get(f"/ui/api/jobs/{job}/log")
    return int(reply.json["total"]) if reply.status == 200 else 0


def test_rows_of_the_table_come_when_they_change(browser: Browser, jobs: Jobs):
    with stream(browser, "jobs=1&columns=param.lr") as events:
        jobs.submit(make_spec("held", hyper={"hold": "1", "lr": "0.5"}))

        def row() -> Any:
            rows = events.next("jobs")["rows"]
            assert {each["name"] for each in rows} <= {"held"}
            return rows[0] if rows else None

        until(lambda: (found := row()) and found["values"].get("param.lr") == "0.5")
        jobs.stop("held")
        until(lambda: (found := row()) and found["status"] == "Stopped")
        jobs.delete("held")
        until(lambda: events.next("jobs")["gone"] == ["held"])


def test_a_job_s_stream_says_once_that_it_was_deleted(
    browser: Browser, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(feeds, "OVER_SECONDS", 0.1)
    jobs.submit(make_spec("one"))
    jobs.wait("one")
    with stream(browser, "job=one&jobs=1") as events:
        jobs.delete("one")
        assert events.next("gone") == {"job": "one"}
        jobs.submit(make_spec("held", hyper={"hold": "1"}))
        until(lambda: any(row["name"] == "held" for row in events.next("jobs")["rows"]))
        assert events.found["gone"].empty()


def test_issues_are_announced(browser: Browser, jobs: Jobs, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(feeds, "ISSUES_SECONDS", 0.1)
    with stream(browser, "issues=1") as events:
        jobs.submit(make_spec("bad", hyper={"failure": "RuntimeError: no luck"}))
        issues: list[Any] = []
        while not issues:  # the job is new, has changed, has failed
            assert events.next("issues") == {}
            issues = browser.get("/ui/api/issues").json["issues"]
    (issue,) = issues
    assert issue["jobs"] == ["bad"]
    with stream(browser, "issues=1") as events:
        path = f"/ui/api/issues/{issue['id']}"
        changed = browser.post(path, {"state": "muted", "more_jobs": 3}).json
        assert (changed["state"], changed["mute"]) == ("muted", {"more_jobs": 3})
        assert events.next("issues") == {}
    assert browser.get("/ui/api/issues?state=open,regressed").json["issues"] == []
    assert browser.post(path, {"state": "regressed"}).code == "bad_request"
    assert browser.get("/ui/api/issues?state=x").code == "bad_request"
    assert browser.get("/ui/api/issues/none").status == 404


def test_what_cannot_be_streamed_is_said_at_once(browser: Browser):
    assert browser.get("/ui/api/live?job=nobody").code == "job_not_found"
    assert browser.get("/ui/api/live?curves=x").code == "bad_request"


def test_streams_are_counted(browser: Browser, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live, "MOST_OF_CALLER", 1)
    with stream(browser, ""):
        assert browser.get("/ui/api/live").code == "too_many_streams"
    monkeypatch.setattr(live, "MOST_OF_CALLER", 2)
    with stream(browser, ""):
        pass


def test_streams_end_with_the_server(jobs: Jobs):
    server = ui_server.make_server(jobs)
    listener = ui_address.bound("127.0.0.1", 0)
    with running(server, listener) as port, stream(Browser(port), "") as events:
        server.should_exit = True
        assert events.is_over.wait(60)


def test_streams_end_when_a_team_s_server_drains(jobs: Jobs):
    with team_server(jobs) as team:
        browser = team.logged_in("ann", Rights.READ)
        opened = ExitStack()
        events = opened.enter_context(stream(browser, "jobs=1"))
    with opened:
        assert events.is_over.wait(60)


def test_a_stream_ends_when_its_session_does(team: Team, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live, "ALLOWED_SECONDS", 0.2)
    browser = team.logged_in("ann", Rights.READ)
    with stream(browser, "") as events:
        assert browser.post("/ui/api/logout").status == 200
        assert events.is_over.wait(60)


def test_a_busy_stream_ends_with_its_session_too(
    team: Team, held: EventFile, monkeypatch: pytest.MonkeyPatch
):
    """Something is new at every poll."""
    monkeypatch.setattr(live, "ALLOWED_SECONDS", 0.2)
    browser = team.logged_in("ann", Rights.READ)
    named = curve_id(browser, "held", "loss")
    steps = iter(range(1, 10_000))

    def is_over_or_adds() -> bool:
        add(held, next(steps))
        return events.is_over.is_set()

    with stream(browser, f"curves=held:{named}") as events:
        assert not is_over_or_adds()
        events.next("points")
        assert browser.post("/ui/api/logout").status == 200
        until(is_over_or_adds)


def test_streams_that_are_opened_at_the_same_time_are_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live, "MOST_OF_CALLER", 3)
    go_on = threading.Event()

    def slow() -> list[live.Feed]:
        assert go_on.wait(60)
        return []

    async def opened() -> list[Any]:
        streams = live.LiveStreams(lambda: False)
        asked = [streams.open("ann", slow, lambda: True) for _ in range(10)]
        waiting = asyncio.gather(*asked, return_exceptions=True)
        await asyncio.sleep(0)  # all have begun
        go_on.set()
        try:
            return await waiting
        finally:
            streams.close()

    with ThreadPoolExecutor(1) as pool:  # this thread may have a loop of Playwright's
        found = pool.submit(asyncio.run, opened()).result()
    assert sum(isinstance(each, TooManyStreams) for each in found) == 7


def test_a_stream_that_could_not_be_opened_is_not_counted(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(live, "MOST_OF_CALLER", 1)
    for _ in range(2):
        assert browser.get("/ui/api/live?job=nobody").code == "job_not_found"
