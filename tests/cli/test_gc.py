"""`trackside gc`, and the server that does it by itself."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.jobs.conftest import make_spec, run_to_end
from tests.server_process import ServerProcess
from tests.waiting import until
from trackside.jobs.jobs import Jobs


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


def test_a_limit_that_is_none_is_told(command: Command):
    done = command("gc", "--keep", "90 days")
    assert done.returncode == 2
    assert "--keep = '90 days' is no age and size." in done.stderr
    assert "TRACKSIDE_KEEP = 'x'" in command("gc", TRACKSIDE_KEEP="x").stderr


def test_a_server_frees_its_disk_by_itself(jobs: Jobs, digits: Path):
    with ServerProcess(jobs.settings.home, TRACKSIDE_KEEP="0h"):
        until(lambda: not digits.exists())
    assert [row.name for row in jobs.list()] == ["digits"]
