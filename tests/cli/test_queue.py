"""`trackside queue`: who waits and why, read from the same home as the server's."""

import json
import subprocess

import pytest

from tests.cli.conftest import Command
from tests.jobs.conftest import make_spec
from tests.wait import until
from trackside.jobs.jobs import Jobs
from trackside.jobs.queue import no_limit


@pytest.fixture(autouse=True)
def small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKSIDE_CAPACITY", "cores=2,memory_gb=8,gpus=0")
    monkeypatch.setenv("TRACKSIDE_S3", "embedded")


def shown(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


def enqueue(jobs: Jobs, name: str, *, cores: int = 1, who: str = "team") -> None:
    spec = make_spec(name, hyper={"hold": "1"}, Trackside={"Cores": cores})
    jobs.enqueue(spec, key="TSKEY", who=who)


def test_nothing_to_show_says_so_and_that_no_server_runs(command: Command):
    text = shown(command("queue"))
    assert "Nothing runs, and nothing waits." in text
    assert "Free: 2 of 2 cores, 8 of 8 GB of memory." in text
    assert "No server runs here" in text


def test_those_that_run_come_first_and_each_that_waits_says_why(jobs: Jobs, command: Command):
    with jobs.scheduler(no_limit):
        enqueue(jobs, "runs")
        until(lambda: jobs.record("runs").history.state.secondary == "Training")
        enqueue(jobs, "large", cores=2)
        enqueue(jobs, "small")
        lines = shown(command("queue")).splitlines()
    assert lines[0].split() == ["#", "JOB", "OWNER", "PRIORITY", "NEEDS", "FOR", "WHY"]
    assert [line.split()[0] for line in lines[1:4]] == ["runs", "1", "2"]
    assert lines[1].endswith("Runs: Training")
    assert lines[2].endswith("Waiting for 2 cores: 1 of 2 free")
    assert lines[3].endswith("Waiting for its turn, behind 'large'")
    assert lines[4] == "Free: 1 of 2 cores, 8 of 8 GB of memory."
    assert len(lines) == 5


def test_without_a_server_the_first_waits_for_one(jobs: Jobs, command: Command):
    enqueue(jobs, "first")
    reported = json.loads(shown(command("queue", "--json")))
    [waiter] = reported["waiting"]
    assert reported["is_served"] is False
    assert reported["running"] == []
    assert waiter["why"] == "Waiting for a server: none runs here"
    assert (waiter["position"], waiter["name"], waiter["who"]) == (1, "first", "team")
    assert (waiter["key"], waiter["needs"]["cores"]) == ("TSKEY", 1)
    assert waiter["owner"] == "team"
    assert waiter["seconds"] >= 0


def test_the_limit_of_a_key_is_reported(jobs: Jobs, command: Command):
    made = shown(command("keys", "create", "team", "--limit", "1"))
    assert "AWS_ACCESS_KEY_ID" in made
    assert shown(command("keys", "list")).splitlines()[1].split()[-2:] == ["1", "team"]
    enqueue(jobs, "first")
    enqueue(jobs, "second")
    reported = json.loads(shown(command("queue", "--json")))
    assert [waiter["why"] for waiter in reported["waiting"]] == [
        "Waiting for a server: none runs here",
        "Waiting for a job of 'team' to end: the limit is 1 at a time",
    ]


def test_a_capacity_that_says_nothing_is_wrong_usage(command: Command):
    done = command("queue", TRACKSIDE_CAPACITY="four")
    assert done.returncode == 2
    assert "TRACKSIDE_CAPACITY = 'four'" in done.stderr
