"""Tests of `placement/local.py` beyond the contract: what being detached means on one machine."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.wait import until
from trackside.placement.local import LocalPlacement, start_detached
from trackside.placement.placement import Exited, Group, HostRequest, Running
from trackside.records.group import loopback_addresses
from trackside.system import process_table, processes
from trackside.system.processes import Identity, identify

WAIT = "import time; time.sleep(1000)"
SUBMIT = """
import json, sys, time
from pathlib import Path
from trackside.placement.local import LocalPlacement
from trackside.placement.placement import Group, HostRequest
command = (sys.executable, "-S", "-c", "import time; time.sleep(1000)")
host = HostRequest(name="algo-1", nonce="n", log=Path(sys.argv[1]))
group = Group(job="job", attempt=1, epoch=1, hosts=(host,), command=command)
handle = LocalPlacement().start(group)
print(json.dumps(handle), flush=True)
time.sleep(1000)
"""


@pytest.fixture(params=["setsid", "python"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the two ways to detach."""
    if request.param == "python":
        monkeypatch.setattr("shutil.which", lambda name: None)
    return request.param


@pytest.fixture
def supervisor(way: str, tmp_path: Path):
    handle = start([sys.executable, "-S", "-c", WAIT], tmp_path)
    yield handle
    processes.send_signal(handle, signal.SIGKILL)


def start(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> Identity:
    return start_detached(command, environment or {}, folder / "log")


def lives(identity: Identity) -> bool:
    return processes.is_alive(identity)


def test_it_is_not_our_child(supervisor: Identity) -> None:
    with pytest.raises(ChildProcessError):
        os.waitpid(supervisor.pid, os.WNOHANG)
    assert supervisor.pid not in process_table.descendants(os.getpid())


def test_it_leads_its_own_session(supervisor: Identity) -> None:
    assert os.getsid(supervisor.pid) == supervisor.pid


def test_it_is_known_by_more_than_its_pid(supervisor: Identity) -> None:
    assert supervisor == identify(supervisor.pid)


def test_it_hears_sigint(supervisor: Identity) -> None:
    """A shell's background job would ignore it, and so would every process below."""
    until(lambda: b"time.sleep" in process_table.read(f"/proc/{supervisor.pid}/cmdline"))
    until(lambda: _catches_sigint(supervisor.pid))


def _catches_sigint(pid: int) -> bool:
    status = process_table.read(f"/proc/{pid}/status").decode()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGINT - 1) & 1)


def test_the_environment_is_exact_whatever_the_shell_adds(way: str, tmp_path: Path) -> None:
    given = {"SHLVL": "7", "_": "me", "EMPTY": ""}
    handle = start(["/usr/bin/env"], tmp_path, given)
    until(lambda: not lives(handle))
    lines = (tmp_path / "log").read_text().splitlines()
    assert dict(line.split("=", 1) for line in lines) == given


def test_a_program_with_an_equals_sign_in_its_path_is_no_variable(tmp_path: Path) -> None:
    program = tmp_path / "a=b"
    program.symlink_to("/bin/echo")
    handle = start([str(program), "hello"], tmp_path)
    until(lambda: not lives(handle))
    assert (tmp_path / "log").read_text() == "hello\n"


def test_a_program_that_does_not_exist_has_ended_and_gives_the_reason(
    way: str, tmp_path: Path
) -> None:
    handle = start(["/no/such/program"], tmp_path)
    until(lambda: not lives(handle))
    assert "/no/such/program" in (tmp_path / "log").read_text()


def test_a_recycled_pid_is_exited_and_not_signalled(tmp_path: Path) -> None:
    stranger = subprocess.Popen([sys.executable, "-S", "-c", WAIT])
    try:
        identity = identify(stranger.pid)
        assert identity is not None
        handle = {"pid": stranger.pid, "boot_id": identity.boot_id}
        for old in (
            {**handle, "started": identity.started - 1},
            {**handle, "started": identity.started, "boot_id": "an earlier boot"},
        ):
            group = {"job": "job", "hosts": {"algo-1": old}}
            assert LocalPlacement().poll(group) == {"algo-1": Exited(None)}
            LocalPlacement().stop(group, force=True)
        time.sleep(0.1)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_closing_the_terminal_or_killing_the_submitter_does_not_touch_it(tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup` may be around the tests
        os.execv(sys.executable, [sys.executable, "-c", SUBMIT, str(tmp_path / "log")])
    handle = json.loads(until(lambda: os.read(terminal, 4096)))
    try:
        os.close(terminal)  # the kernel sends SIGHUP to the terminal's session
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGHUP
        assert LocalPlacement().poll(handle) == {"algo-1": Running()}
    finally:
        LocalPlacement().stop(handle, force=True)


def test_when_one_cannot_be_started_the_others_are_ended(tmp_path: Path) -> None:
    mark = f"trackside-{tmp_path.name}-{os.getpid()}"
    logs = [tmp_path / "log", tmp_path / "log", tmp_path / "missing" / "log", tmp_path / "log"]
    hosts = tuple(
        HostRequest(name=f"algo-{number}", nonce="n", arguments=(mark,), log=log)
        for number, log in enumerate(logs, 1)
    )
    command = (sys.executable, "-S", "-c", WAIT)
    with pytest.raises(FileNotFoundError):
        LocalPlacement().start(Group(job="job", attempt=1, epoch=1, hosts=hosts, command=command))
    running = [process_table.read(f"/proc/{pid}/cmdline") for pid in process_table.pids()]
    assert not any(mark.encode() in line and b"time.sleep" in line for line in running)


def test_hosts_are_on_this_machine_at_addresses_of_their_own() -> None:
    myself = asdict(processes.myself())
    handle = {"job": "job", "hosts": {"algo-1": myself, "algo-2": myself}}
    assert LocalPlacement().addresses(handle) == loopback_addresses("job", ["algo-1", "algo-2"])
    assert LocalPlacement().interface(handle) == "lo"
