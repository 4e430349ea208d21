"""Which processes keep a job going, and what a sweep spares because of them."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.wait import until
from trackside.system import process_table, processes
from trackside.system.job_keepers import keeps_job
from trackside.system.processes import NONCE_VARIABLE, carriers

pytestmark = pytest.mark.skipif(not process_table.PRESENT, reason="needs /proc")

NONCE = f"test-{os.getpid()}-keepers"
SUPERVISOR = ("-m", "trackside.supervisor")
Start = Callable[..., int]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts shells with a child that carry the mark; their further words are only looked at."""
    made: list[subprocess.Popen[bytes]] = []

    def start(*words: str, user: int | None = None) -> int:
        command = ["/bin/sh", "-c", "sleep 1000; :", *words]
        environment = {NONCE_VARIABLE: NONCE, "PATH": os.defpath}
        process = subprocess.Popen(command, env=environment, process_group=0, user=user)
        made.append(process)
        until(lambda: process_table.descendants(process.pid))
        return process.pid

    yield start
    processes.sweep(NONCE)
    for process in made:
        process.wait()


@pytest.mark.parametrize(
    ("words", "does"),
    [
        (SUPERVISOR, True),
        (("python", "-P", *SUPERVISOR, "/a job", "algo-1", "nonce"), True),
        (("-m", "trackside.rules", "/a job"), True),
        (("/src/trackside", "trackside.supervisor.sandbox_init", "mark"), True),
        (("-m trackside.supervisor",), False),
        (("-m", "trackside.cli", "run", "trackside.supervisor"), False),
        (("-m", "trackside.supervisors"), False),
        ((), False),
    ],
)
def test_they_are_known_by_what_they_run(start: Start, words: tuple[str, ...], does: bool) -> None:
    assert keeps_job(start(*words)) is does


def test_a_forked_one_is_known_by_its_name() -> None:
    program = "import sys; from trackside.system.job_keepers import call_standby; call_standby()\n"
    program += "print('ready', flush=True); sys.stdin.read()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert keeps_job(process.pid)


def test_one_that_has_ended_keeps_nothing() -> None:
    process = subprocess.Popen(["/bin/sh", "-c", "exit", *SUPERVISOR])
    until(lambda: process_table.started(process.pid) is None)
    assert not keeps_job(process.pid)
    process.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_another_users_process_keeps_nothing(start: Start) -> None:
    pid = start(*SUPERVISOR, user=65533)
    assert not keeps_job(pid)
    assert processes.sweep(NONCE, spares_jobs=True) >= 1
    assert carriers(NONCE) == []


def test_a_sweep_spares_what_keeps_a_job_and_all_below_it(start: Start) -> None:
    kept, plain = start(*SUPERVISOR), start()
    below = {kept, *process_table.descendants(kept)}
    assert processes.sweep(NONCE, spares_jobs=True) == 2
    assert {found.pid for found in carriers(NONCE)} == below
    assert process_table.started(plain) is None
    assert processes.sweep(NONCE) == 2
    assert carriers(NONCE) == []


def test_a_job_above_the_sandbox_spares_nothing_in_it(tmp_path: Path) -> None:
    """The sandbox's own init and supervisor are such jobs."""
    inner = f"{NONCE_VARIABLE}={NONCE} sleep 1000; :"
    command = ["/bin/sh", "-c", inner, *SUPERVISOR]
    process = subprocess.Popen(command, env={"PATH": os.defpath})
    until(lambda: carriers(NONCE))
    assert processes.sweep(NONCE, spares_jobs=True) == 1
    process.wait()
