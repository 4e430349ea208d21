"""A supervisor polls often while something happens, pauses while nothing does, and can be woken."""

import os
import signal
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.wait import until
from trackside.files import durable
from trackside.records import evaluator_process
from trackside.records.host_processes import wake_supervisors
from trackside.records.layout import JobFolder
from trackside.supervisor.poll_interval import (
    CHORE_SECONDS,
    IDLE_CHORE_SECONDS,
    IDLE_SECONDS,
    QUICK_SECONDS,
    STILL_SECONDS,
    TICK_SECONDS,
    WOKEN_SECONDS,
    PollInterval,
)
from trackside.supervisor.process_sandbox import ProcessSandbox
from trackside.supervisor.sandbox import Running, SandboxPlan
from trackside.system import processes
from trackside.system.process_table import WAKE_SIGNAL
from trackside.system.processes import ProcessEnd
from trackside.system.wake_ups import WakeUps

FAR_SECONDS = 600.0
PRINT_WHEN_ASKED = """
    import os, time
    while not os.path.exists("/opt/ml/say"): time.sleep(0.02)
    os.write(1, b"here\\n")
    time.sleep(1000)
"""


@pytest.fixture
def wake() -> Iterator[WakeUps]:
    before = signal.getsignal(WAKE_SIGNAL)
    ups = WakeUps()
    yield ups
    os.close(signal.set_wakeup_fd(-1))
    os.close(ups.descriptor)
    signal.signal(WAKE_SIGNAL, before)


def test_a_signal_cuts_a_rest_short_once(wake: WakeUps):
    end = ProcessEnd(processes.myself())
    os.kill(os.getpid(), WAKE_SIGNAL)
    assert not end.wait(FAR_SECONDS, wake.descriptor)
    assert wake.take()
    assert not wake.take()
    assert not end.wait(0.01, wake.descriptor)
    end.close()


def test_without_pidfds_too(wake: WakeUps, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    os.kill(os.getpid(), WAKE_SIGNAL)
    assert not ProcessEnd(processes.myself()).wait(FAR_SECONDS, wake.descriptor)


def test_more_signals_than_a_pipe_holds_end_nothing(wake: WakeUps):
    for _ in range(70_000):
        signal.raise_signal(WAKE_SIGNAL)
    assert wake.take()


def test_a_process_without_a_handler_ignores_the_signal(tmp_path: Path):
    pid = os.spawnv(os.P_NOWAIT, "/bin/sleep", ["sleep", "1000"])
    os.kill(pid, WAKE_SIGNAL)
    time.sleep(0.05)
    assert processes.identify(pid) is not None
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_the_supervisors_of_a_job_are_woken_and_no_other_process(wake: WakeUps, tmp_path: Path):
    folder = JobFolder(tmp_path)
    mine, gone = folder.host("algo-1", 2), folder.host("algo-2", 1)
    for host, started in ((gone, 1), (mine, processes.myself().started)):
        host.root.mkdir(parents=True)
        who = {**asdict(processes.myself()), "started": started, "nonce": "n"}
        durable.write_json(host.supervisor, who)
        wake_supervisors(folder)
        assert wake.take() == (host is mine)


def test_the_evaluator_of_a_job_s_rules_is_woken_too(wake: WakeUps, tmp_path: Path):
    folder = JobFolder(tmp_path)
    folder.rules.root.mkdir()
    evaluator_process.wake(folder.rules)
    assert not wake.take()
    evaluator_process.write_myself(folder.rules, "nonce")
    evaluator_process.wake(folder.rules)
    assert wake.take()
    wake_supervisors(folder)
    assert wake.take()


def test_a_script_that_prints_after_a_pause_wakes_its_supervisor(wake: WakeUps, tmp_path: Path):
    (tmp_path / "ml").mkdir()
    plan = SandboxPlan(
        folder=tmp_path / "sandbox",
        ml=tmp_path / "ml",
        command=[sys.executable, "-S", "-u", "-c", textwrap.dedent(PRINT_WHEN_ASKED)],
        environment={"PATH": os.defpath},
        log=tmp_path / "log",
        nonce=f"test-{os.getpid()}-{time.monotonic_ns()}",
        revive=["/bin/true"],
    )
    sandbox = ProcessSandbox()
    sandbox.start(plan)
    try:
        until((tmp_path / "log").exists)
        time.sleep(1.2)  # a silence
        wake.take()
        (plan.ml / "say").touch()
        assert not sandbox.wait(plan, FAR_SECONDS, wake.descriptor)
        assert wake.take()
        assert plan.log.read_text() == "here\n"
    finally:
        sandbox.signal(plan, signal.SIGKILL)
        until(lambda: sandbox.poll(plan) != Running())


def test_polls_are_frequent_at_first_and_while_something_happens():
    interval = PollInterval(100.0)
    assert interval.pause(101.0) == QUICK_SECONDS
    assert interval.pause(103.0) == TICK_SECONDS
    assert interval.pause(116.0) == IDLE_SECONDS
    interval.moved(120.0)
    assert interval.pause(134.0) == TICK_SECONDS
    assert interval.pause(136.0) == IDLE_SECONDS
    assert interval.pause(241.0) == STILL_SECONDS
    assert interval.pause(241.0, is_woken=True) == WOKEN_SECONDS
    interval.moved(241.0)
    assert interval.pause(242.0, is_woken=True) == TICK_SECONDS


def test_chores_wait_longer_while_nothing_happens():
    interval = PollInterval(100.0)
    assert interval.chore_pause(101.0) == CHORE_SECONDS
    assert interval.chore_pause(116.0) == IDLE_CHORE_SECONDS
    interval.moved(120.0)
    assert interval.chore_pause(121.0) == CHORE_SECONDS
