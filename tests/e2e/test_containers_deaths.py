"""Of what jobs in containers die: each has one of the twelve causes of docs/deaths.md."""

import os
import signal
from pathlib import Path

import pytest

from tests.docker_engine import SHELL, docker, docker_engine, own_engine
from tests.e2e.test_containers import ContainerMachine, containers, machine
from tests.e2e.test_crashes import HELD, restart
from tests.e2e.test_ends import SAVES_ON_TERM
from tests.wait import until
from trackside.records.death import Cause, Death
from trackside.records.status import Secondary, Status

__all__ = ["machine"]
pytestmark = pytest.mark.timeout(600)

FILLS = "open('/dev/shm/full', 'wb').write(b'x' * (64 << 20))"
OF_HOST = "algo-1"


def of(cause: Cause) -> Death:
    return Death(cause=cause, host=OF_HOST)


def test_an_image_that_lacks_what_a_script_needs(machine: ContainerMachine):
    job = machine.run("print('never')", AlgorithmSpecification={"TrainingImage": SHELL})
    assert "The image has no python3" in (job.history().failure_reason or "")
    assert job.history().death == of(Cause.IMAGE)


def test_a_disk_that_is_full_in_the_container(machine: ContainerMachine):
    job = machine.run(FILLS, Trackside={"ShmGB": 0.01})
    assert "No space left on device" in (job.history().failure_reason or "")
    assert job.history().death == of(Cause.DISK)


def test_the_time_limit(machine: ContainerMachine):
    job = machine.submit(SAVES_ON_TERM, StoppingCondition={"MaxRuntimeInSeconds": 4})
    assert job.wait().state.secondary is Secondary.MAX_RUNTIME_EXCEEDED
    assert job.history().death == Death(cause=Cause.TIME_LIMIT)


@pytest.mark.parametrize("words", [("kill", "--signal=KILL"), ("rm", "--force")])
def test_somebody_kills_or_removes_the_container(
    machine: ContainerMachine, tmp_path: Path, words: tuple[str, str]
):
    job = machine.submit(HELD)
    job.wait_for_line("line 9")
    docker(*words, *containers(tmp_path))
    assert job.wait().state.status is Status.FAILED
    assert job.history().death == of(Cause.SIGNAL)


@pytest.mark.nightly
def test_an_engine_that_goes_with_its_container(tmp_path: Path):
    docker_engine()
    with own_engine() as engine:
        there = ContainerMachine(tmp_path, {**os.environ, "DOCKER_HOST": engine.address})
        command = ["/bin/sh", "-c", "echo line 9; sleep 600"]
        own = {"TrainingImage": SHELL, "ContainerEntrypoint": command}
        job = there.submit("unused", AlgorithmSpecification=own)
        job.wait_for_line("line 9")
        engine.kill()
        os.kill(job.sandbox_process("command"), signal.SIGKILL)
        until(lambda: job.history().state.is_final, seconds=180)
        assert job.history().death == of(Cause.ENGINE_GONE)


def test_a_machine_that_was_restarted(machine: ContainerMachine, tmp_path: Path):
    job = machine.submit(HELD)
    job.wait_for_line("line 9")
    pids = [job.supervisor_pid(), job.sandbox_process("init")]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    docker("kill", *containers(tmp_path))
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    restart(job, 1)
    assert job.wait().state.status is Status.FAILED
    assert job.history().death == of(Cause.NODE_LOST)
