"""Tests for `trackside.records.host_processes`, with the records of real processes."""

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from trackside.files import durable
from trackside.records.host_processes import is_supervised, supervised_hosts, supervisor_lives
from trackside.records.layout import HostFolder, JobFolder
from trackside.system import processes
from trackside.system.processes import Identity


@pytest.fixture
def ended() -> Identity:
    """A process that was alive, and is not any more."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        identity = processes.identify(process.pid)
        process.communicate(b"\n")
    assert identity is not None
    return identity


def write(folder: HostFolder, identity: Identity) -> None:
    folder.root.mkdir(parents=True)
    durable.write_json(folder.supervisor, asdict(identity))


def test_a_job_without_hosts_is_not_supervised(tmp_path: Path) -> None:
    assert not is_supervised(JobFolder(tmp_path))
    assert supervised_hosts(JobFolder(tmp_path)) == set()


def test_one_living_supervisor_of_two_is_found(tmp_path: Path, ended: Identity) -> None:
    folder = JobFolder(tmp_path)
    write(folder.host("algo-1", 1), processes.myself())
    write(folder.host("algo-2", 1), ended)
    assert is_supervised(folder)
    assert supervised_hosts(folder) == {"algo-1"}
    assert supervisor_lives(folder.host("algo-2", 1)) is False
    assert supervisor_lives(folder.host("algo-2", 2)) is None


def test_a_supervisor_that_continues_into_the_next_attempt_counts(
    tmp_path: Path, ended: Identity
) -> None:
    folder = JobFolder(tmp_path)
    write(folder.host("algo-1", 1), processes.myself())
    folder.host("algo-1", 2).root.mkdir()
    assert supervised_hosts(folder) == {"algo-1"}
