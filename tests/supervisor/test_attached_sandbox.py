"""The sandbox of a process that we did not start."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trackside.records import attached_process
from trackside.records.attached_process import AttachedProcess, AttachedProcessEnd
from trackside.records.layout import HostFolder
from trackside.supervisor.attached_sandbox import AttachedSandbox
from trackside.supervisor.sandbox import Exited, Lost, Running, SandboxPlan
from trackside.system import processes


@pytest.fixture
def script() -> Iterator[subprocess.Popen[bytes]]:
    """Waits until it is told to end; Ctrl-C gives the code 3."""
    source = """
import sys
try:
    print(flush=True)
    sys.stdin.read()
except KeyboardInterrupt:
    sys.exit(3)
"""
    with subprocess.Popen(
        [sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


@pytest.fixture
def folder(tmp_path: Path, script: subprocess.Popen[bytes]) -> HostFolder:
    folder = HostFolder(tmp_path / "host")
    identity = processes.identify(script.pid)
    assert identity is not None
    attached_process.write_caller(folder, AttachedProcess(identity, "here"))
    return folder


@pytest.fixture
def plan(folder: HostFolder) -> SandboxPlan:
    return SandboxPlan(folder=folder.sandbox, ml=folder.ml, log=folder.log)


def test_it_is_watched_from_the_start_on(folder, plan, script):
    sandbox = AttachedSandbox(folder)
    assert sandbox.poll(plan) is None
    sandbox.start(plan)
    assert sandbox.poll(plan) == Running()
    assert sandbox.root_pid(plan) == script.pid
    assert not sandbox.wait(plan, 0.01)
    assert AttachedSandbox(folder).poll(plan) == Running()


def test_it_ends_when_the_process_records_it_though_that_continues(folder, plan, script):
    sandbox = AttachedSandbox(folder)
    sandbox.start(plan)
    attached_process.write_end(folder, AttachedProcessEnd(4, 1.5))
    assert sandbox.wait(plan, 0.01)
    assert sandbox.poll(plan) == Exited(4)
    assert script.poll() is None


def test_one_that_is_gone_without_a_record(folder, plan, script):
    sandbox = AttachedSandbox(folder)
    sandbox.start(plan)
    script.kill()
    script.wait()
    assert sandbox.wait(plan, 60)
    state = sandbox.poll(plan)
    assert isinstance(state, Lost)
    assert state.is_of_script
    assert str(script.pid) in state.reason


def test_it_is_requested_to_stop_as_by_ctrl_c(folder, plan, script):
    sandbox = AttachedSandbox(folder)
    sandbox.start(plan)
    sandbox.signal(plan, signal.SIGTERM)
    assert script.wait(60) == 3


def test_it_is_never_killed_but_let_go(folder, plan, script):
    sandbox = AttachedSandbox(folder)
    sandbox.start(plan)
    sandbox.signal(plan, signal.SIGKILL)
    assert sandbox.poll(plan) == Exited(0)
    end = attached_process.read_end(folder)
    assert end is not None
    assert end.let_go
    assert script.poll() is None
    sandbox.signal(plan, signal.SIGTERM)  # the run is over: nothing is sent any more
    script.communicate(b"", timeout=60)
    assert script.returncode == 0


def test_without_a_record_of_the_process_it_is_lost(tmp_path: Path):
    folder = HostFolder(tmp_path / "host")
    plan = SandboxPlan(folder=folder.sandbox, ml=folder.ml, log=folder.log)
    sandbox = AttachedSandbox(folder)
    sandbox.start(plan)
    assert isinstance(sandbox.poll(plan), Lost)
    sandbox.signal(plan, signal.SIGKILL)
