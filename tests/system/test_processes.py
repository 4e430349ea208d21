"""Tests of `system/processes.py` and of `system/process_table.py` below it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.wait import until
from trackside.system import process_table, processes
from trackside.system.processes import (
    NONCE_VARIABLE,
    Identity,
    ProcessEnd,
    carriers,
    identify,
    is_alive,
    send_signal,
)

NONCE = f"test-{os.getpid()}-nonce"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        ["sleep", "1000"], env={NONCE_VARIABLE: NONCE, "PATH": os.defpath}, process_group=0
    )
    yield process
    process.kill()
    process.wait()


def known(pid: int) -> Identity:
    identity = identify(pid)
    assert identity is not None
    return identity


def test_a_process_keeps_its_identity(sleeper: subprocess.Popen[bytes]) -> None:
    assert known(sleeper.pid) == known(sleeper.pid)
    assert is_alive(known(sleeper.pid))


def test_a_process_that_ended_is_not_alive(sleeper: subprocess.Popen[bytes]) -> None:
    identity = known(sleeper.pid)
    sleeper.kill()
    sleeper.wait()
    assert not is_alive(identity)
    assert identify(sleeper.pid) is None


@pytest.mark.parametrize("has_pidfds", [True, False])
def test_the_end_of_a_process_is_waited_for(
    sleeper: subprocess.Popen[bytes], has_pidfds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_pidfds:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    end = ProcessEnd(known(sleeper.pid))
    assert not end.wait(0.01)
    sleeper.kill()
    until(lambda: end.wait(0.01))
    end.close()
    gone = ProcessEnd(replace(known(os.getpid()), started=1))  # its pid is somebody else's now
    assert gone.wait(600)
    gone.close()


def test_a_zombie_is_dead(sleeper: subprocess.Popen[bytes]) -> None:
    identity = known(sleeper.pid)
    sleeper.kill()
    until(lambda: not is_alive(identity))
    assert os.path.exists(f"/proc/{sleeper.pid}"), "not reaped yet"


def test_a_process_whose_first_thread_ended_is_alive() -> None:
    program = (
        "import ctypes, threading, time\nthreading.Thread(target=time.sleep, args=[1000]).start()\n"
    )
    program += "ctypes.CDLL(None).pthread_exit(None)"
    process = subprocess.Popen([sys.executable, "-S", "-c", program])
    try:
        until(lambda: b") Z " in process_table.read(f"/proc/{process.pid}/stat"))
        assert is_alive(known(process.pid))
    finally:
        process.kill()
        process.wait()


def test_a_name_with_brackets_and_blanks_is_no_trap(tmp_path) -> None:
    program = tmp_path / "a) R 1 (b"
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen([program, "1000"])
    try:
        until(lambda: b"a) R 1" in process_table.read(f"/proc/{process.pid}/stat"))
        assert process_table.parents()[process.pid][0] == os.getpid()
        assert is_alive(known(process.pid))
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize("old", [{"started": 1}, {"boot_id": "an earlier boot"}])
def test_another_process_with_the_same_pid_is_not_signalled(
    sleeper: subprocess.Popen[bytes], old: dict[str, Any], group: bool
) -> None:
    identity = known(sleeper.pid)
    assert not send_signal(replace(identity, **old), signal.SIGKILL, group=group)
    assert not is_alive(replace(identity, **old))
    time.sleep(0.05)
    assert sleeper.poll() is None


@pytest.mark.parametrize("group", [False, True])
def test_the_right_process_is_signalled(sleeper: subprocess.Popen[bytes], group: bool) -> None:
    assert send_signal(known(sleeper.pid), signal.SIGTERM, group=group)
    assert sleeper.wait() == -signal.SIGTERM


@pytest.mark.parametrize("group", [False, True])
def test_signals_arrive_without_pidfds_too(
    sleeper: subprocess.Popen[bytes], group: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    identity = known(sleeper.pid)
    assert not send_signal(replace(identity, started=1), signal.SIGKILL, group=group)
    assert send_signal(identity, signal.SIGTERM, group=group)
    assert sleeper.wait() == -signal.SIGTERM


def test_signalling_one_that_is_gone_is_no_error(sleeper: subprocess.Popen[bytes]) -> None:
    identity = known(sleeper.pid)
    sleeper.kill()
    sleeper.wait()
    assert not send_signal(identity, signal.SIGTERM)
    assert not send_signal(identity, signal.SIGTERM, group=True)


def test_carriers_are_known_by_the_whole_nonce(sleeper: subprocess.Popen[bytes]) -> None:
    assert [found.pid for found in carriers(NONCE)] == [sleeper.pid]
    assert carriers(NONCE[:-1]) == []
    assert carriers(NONCE[1:]) == []


def test_a_sweep_outruns_a_process_that_forks_away() -> None:
    """Each generation starts the next in a session of its own and leaves, for 150 s at most."""
    hop = "    if os.fork(): os._exit(0)\n    os.setsid(); time.sleep(0.001)"
    program = f"import os, time\nend = time.monotonic() + 150\nwhile time.monotonic() < end:\n{hop}"
    environment = {NONCE_VARIABLE: NONCE, "PATH": os.defpath}
    subprocess.Popen([sys.executable, "-S", "-c", program], env=environment).wait()
    assert processes.sweep(NONCE) >= 1
    assert carriers(NONCE) == []


def test_the_sweeper_spares_itself() -> None:
    program = f"from trackside.system.processes import sweep; print(sweep({NONCE!r}))"
    environment = {NONCE_VARIABLE: NONCE, "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE)
    assert said.stdout == b"0\n"


def test_descendants_leave_out_a_whole_branch() -> None:
    inner = "import subprocess; subprocess.run(['sleep', '1000'])"
    process = subprocess.Popen([sys.executable, "-S", "-c", inner], process_group=0)
    try:
        until(lambda: len(process_table.descendants(process.pid)) == 1)
        branch = {process.pid, *process_table.descendants(process.pid)}
        assert branch <= process_table.descendants(os.getpid()).keys()
        assert not branch & process_table.descendants(os.getpid(), without=process.pid).keys()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_importing_it_loads_no_psutil_on_linux() -> None:
    program = "import sys, trackside.system.processes; print('psutil' in sys.modules)"
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE)
    assert said.stdout == b"False\n"
