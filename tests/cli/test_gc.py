"""`trackside gc`, and the server that does it by itself."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.jobs.conftest import make_spec, run_to_end
from tests.server_process import ServerProcess
from tests.wait import until
from trackside.jobs.jobs import Jobs
from trackside.jobs.queue import no_limit


@pytest.fixture
def digits(jobs: Jobs) -> Path:
    """The folder of a job that has ended."""
    jobs.submit(make_spec("digits"))
    run_to_end(jobs, "digits")
    return jobs.settings.layout.job("digits").root


def test_a_dry_run_shows_what_would_go_and_a_real_one_what_went(command: Command, digits: Path):
    dry = command("gc", "--keep", "0h", "--dry-run")
    lines = dry.stdout.splitlines()
    assert lines[0].split() == ["KIND", "AGE", "SIZE", "NAME"]
    assert lines[1].startswith("job folder")
    assert lines[1].endswith("digits")
    assert lines[-1].endswith("kB would be freed.")
    assert digits.exists()
    assert command("gc", TRACKSIDE_KEEP="0h").stdout.splitlines()[-1].endswith("kB freed.")
    assert not digits.exists()
    assert command("show", "digits").returncode == 0


def test_without_limits_all_is_kept(command: Command, digits: Path):
    done = command("gc")
    assert (done.returncode, done.stdout) == (0, "Nothing to remove.\n")
    assert digits.exists()


def test_a_limit_that_is_none_is_reported(command: Command):
    done = command("gc", "--keep", "90 days")
    assert done.returncode == 2
    assert "--keep = '90 days' is no age and size." in done.stderr
    assert "TRACKSIDE_KEEP = 'x'" in command("gc", TRACKSIDE_KEEP="x").stderr


def test_a_server_frees_its_disk_by_itself(jobs: Jobs, digits: Path):
    with ServerProcess(jobs.settings.home, TRACKSIDE_KEEP="0h"):
        until(lambda: not digits.exists())
    assert [row.name for row in jobs.list()] == ["digits"]


@pytest.fixture
def over_quota(command: Command, jobs: Jobs) -> Path:
    """The folder of a job that has ended, of a label that keeps too much."""
    jobs.enqueue(make_spec("digits"), key="K", who="alice")
    with jobs.scheduler(no_limit):
        run_to_end(jobs, "digits")
    assert command("keys", "create", "alice", "--quota", "1MB").returncode == 0
    folder = jobs.settings.layout.job("digits").root
    (folder / "hosts/algo-1/1/ml").mkdir(parents=True)
    (folder / "hosts/algo-1/1/ml/large").write_bytes(bytes(1_200_000))
    return folder


def test_what_goes_by_a_quota_is_shown_for_each_owner(command: Command, over_quota: Path):
    dry = command("gc", "--dry-run").stdout.splitlines()
    assert dry[0].split() == ["KIND", "AGE", "SIZE", "OWNER", "NAME"]
    assert [line.split()[-2:] for line in dry[1:-2]] == [["alice", "digits"]]
    assert dry[1].startswith("working files")
    assert dry[-2] == "1.2 MB would be freed."
    assert re.fullmatch(r"alice keeps 1\.2 MB of a quota of 1\.0 MB; .* kB then\.", dry[-1])
    both = command("gc", "--dry-run", "--keep", "0h").stdout
    assert both.count("working files") == 1  # it goes once, whyever
    assert (over_quota / "hosts/algo-1/1/ml").exists()
    assert "1.2 MB freed." in command("gc").stdout
    assert not (over_quota / "hosts/algo-1/1/ml").exists()
    assert command("gc").stdout.startswith("Nothing to remove.\nalice keeps ")


def test_a_quota_is_listed_and_set(command: Command, over_quota: Path):
    listed = command("keys", "list").stdout.splitlines()
    key = listed[1].split()[0]
    assert listed[1].split()[-5:] == ["1.0", "MB", "1.2", "MB", "alice"]
    [record] = json.loads(command("keys", "list", "--json").stdout)
    assert record["quota_bytes"] == 1_000_000
    assert record["used_bytes"] > 1_200_000
    set_to = command("keys", "quota", key, "1.1MB")
    assert set_to.stdout == "alice may keep 1.1 MB, and keeps 1.2 MB\n"
    assert "of ended jobs go within minutes" in set_to.stderr
    assert command("keys", "quota", key, "none").stdout == "alice has no quota\n"
    [record] = json.loads(command("keys", "list", "--json").stdout)
    assert (record["quota_bytes"], record["used_bytes"]) == (None, None)
    assert command("gc").stdout == "Nothing to remove.\n"


@pytest.mark.parametrize("quota", ["-1", "lots", "0", "0GB", "200"])
def test_a_quota_that_is_none_is_reported_and_no_key_is_made(command: Command, quota: str):
    done = command("keys", "create", "alice", "--quota", quota)
    assert done.returncode == 2
    assert f"--quota = '{quota}' is no quota." in done.stderr
    assert command("keys", "list").stdout.startswith("No keys.")
