"""Tests of `placement/local.py` beyond the contract: what being detached means on one machine."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.wait import until
from trackside.placement.local import LocalPlacement
from trackside.placement.placement import Exited, Handle, Running
from trackside.system import process_table
from trackside.system.processes import identify

WAIT = "import time; time.sleep(1000)"
SUBMIT = """
import json, sys, time
from pathlib import Path
from trackside.placement.local import LocalPlacement
command = [sys.executable, "-S", "-c", "import time; time.sleep(1000)"]
handle = LocalPlacement().start(command, {}, nonce="n", log=Path(sys.argv[1]))
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
    LocalPlacement().stop(handle, force=True)


def start(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> Handle:
    return LocalPlacement().start(command, environment or {}, nonce="n", log=folder / "log")


def test_it_is_not_our_child(supervisor: Handle) -> None:
    with pytest.raises(ChildProcessError):
        os.waitpid(supervisor["pid"], os.WNOHANG)
    assert supervisor["pid"] not in process_table.descendants(os.getpid())


def test_it_leads_its_own_session(supervisor: Handle) -> None:
    assert os.getsid(supervisor["pid"]) == supervisor["pid"]


def test_the_handle_names_the_very_process(supervisor: Handle) -> None:
    identity = identify(supervisor["pid"])
    assert identity is not None
    assert supervisor == {
        "pid": identity.pid,
        "started": identity.started,
        "boot_id": identity.boot_id,
        "nonce": "n",
    }


def test_it_hears_sigint(supervisor: Handle) -> None:
    """A shell's background job would ignore it, and so would every process below."""
    until(lambda: b"time.sleep" in process_table.read(f"/proc/{supervisor['pid']}/cmdline"))
    until(lambda: _catches_sigint(supervisor["pid"]))


def _catches_sigint(pid: int) -> bool:
    status = process_table.read(f"/proc/{pid}/status").decode()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGINT - 1) & 1)


def test_the_environment_is_exact_whatever_the_shell_adds(way: str, tmp_path: Path) -> None:
    given = {"SHLVL": "7", "_": "me", "EMPTY": ""}
    handle = start(["/usr/bin/env"], tmp_path, given)
    until(lambda: isinstance(LocalPlacement().poll(handle), Exited))
    lines = (tmp_path / "log").read_text().splitlines()
    assert dict(line.split("=", 1) for line in lines) == given


def test_a_program_with_an_equals_sign_in_its_path_is_no_variable(tmp_path: Path) -> None:
    program = tmp_path / "a=b"
    program.symlink_to("/bin/echo")
    handle = start([str(program), "hello"], tmp_path)
    until(lambda: isinstance(LocalPlacement().poll(handle), Exited))
    assert (tmp_path / "log").read_text() == "hello\n"


def test_a_program_that_does_not_exist_has_ended_and_gives_the_reason(
    way: str, tmp_path: Path
) -> None:
    handle = start(["/no/such/program"], tmp_path)
    until(lambda: isinstance(LocalPlacement().poll(handle), Exited))
    assert "/no/such/program" in (tmp_path / "log").read_text()


def test_a_recycled_pid_is_exited_and_not_signalled(tmp_path: Path) -> None:
    stranger = subprocess.Popen([sys.executable, "-S", "-c", WAIT])
    try:
        identity = identify(stranger.pid)
        assert identity is not None
        handle = {"pid": stranger.pid, "boot_id": identity.boot_id, "nonce": "n"}
        for old in (
            {**handle, "started": identity.started - 1},
            {**handle, "started": identity.started, "boot_id": "an earlier boot"},
        ):
            assert LocalPlacement().poll(old) == Exited(None)
            LocalPlacement().stop(old, force=True)
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
        assert LocalPlacement().poll(handle) == Running()
    finally:
        LocalPlacement().stop(handle, force=True)
