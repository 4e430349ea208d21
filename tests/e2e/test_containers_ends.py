"""How jobs in containers end: the grace of a stop, a killed server, and files of other users."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.docker_engine import PYTHON, docker, docker_engine
from tests.e2e.conftest import Job, made_machine
from tests.e2e.test_containers import ContainerMachine, containers, left_behind, machine
from tests.e2e.test_crashes import HELD, LINES
from tests.server_process import TRACKSIDE, ServerProcess
from tests.wait import until
from trackside.records.status import Status

__all__ = ["machine"]
pytestmark = pytest.mark.timeout(600)

SAVES_SLOWLY = """
import signal, sys, time
def save(*_):
    time.sleep(3)
    open("/opt/ml/model/last.txt", "w").write("saved")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("READY", flush=True)
time.sleep(600)
"""
GOES_ON = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: print("TERM", time.monotonic(), flush=True))
open("/opt/ml/model/early.txt", "w").write("early")
print("READY", flush=True)
while True:
    print("ALIVE", time.monotonic(), flush=True)
    time.sleep(0.05)
"""


def test_a_script_that_needs_part_of_its_grace_has_it(machine: ContainerMachine) -> None:
    job = machine.submit(SAVES_SLOWLY, Trackside={"GraceSeconds": 60})
    job.wait_for_line("READY")
    machine.jobs.stop(job.name)
    assert job.wait().state.status is Status.STOPPED
    assert job.model() == {"last.txt": b"saved"}


def test_a_script_that_ignores_term_has_its_grace_and_no_more(
    machine: ContainerMachine, tmp_path: Path
) -> None:
    job = machine.submit(GOES_ON, Trackside={"GraceSeconds": 3})
    job.wait_for_line("ALIVE")
    machine.jobs.stop(job.name)
    assert job.wait().state.status is Status.STOPPED
    *_, last = (line.split()[1] for line in job.log().splitlines() if line.startswith("ALIVE "))
    assert float(last) - float(job.said("TERM")) > 2
    assert job.model() == {"early.txt": b"early"}
    until(lambda: left_behind(tmp_path, job.name) == [])


def test_a_job_outlives_its_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", docker_engine())
    (tmp_path / "train.py").write_text(HELD.replace('os.environ["GO"]', '"/tmp/go"'))
    home = tmp_path / "home"
    with ServerProcess(home, TRACKSIDE_SANDBOX="docker") as server:
        submit = ("run", "train.py", "--image", PYTHON, "--name", "held")
        done = subprocess.run(
            [*TRACKSIDE, *submit],
            cwd=tmp_path,
            env={**os.environ, **server.environment()},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        with made_machine(tmp_path, TRACKSIDE_HOME=str(home)) as there:
            job = Job(there, "held")
            job.wait_for_line("line 9")
            os.kill(server.pid, signal.SIGKILL)
            [container] = containers(tmp_path)
            docker("exec", container, "touch", "/tmp/go")
            history = job.wait()
            assert history.state.status is Status.COMPLETED, history.failure_reason
            assert [line for line in job.lines() if line.startswith("line")] == LINES
            assert job.model() == {"m.txt": b"trained to the end"}
            until(lambda: left_behind(tmp_path, "held") == [])


MAKES_PRIVATE_FILES = """
import os
for place in ("model", "output/data", "checkpoints"):
    folder = f"/opt/ml/{place}/private"
    os.makedirs(folder)
    open(f"{folder}/f", "w").write(place)
    os.chmod(f"{folder}/f", 0o000)
    os.chown(f"{folder}/f", 4321, 4321)
    os.chown(folder, 4321, 4321)
    os.chmod(folder, 0o700)
"""


def test_files_of_any_user_are_packed_synced_and_removed(
    machine: ContainerMachine, tmp_path: Path
) -> None:
    job = machine.run(
        MAKES_PRIVATE_FILES,
        CheckpointConfig={"S3Uri": "s3://bucket/saved", "LocalPath": "/opt/ml/checkpoints"},
    )
    assert job.history().state.status is Status.COMPLETED, job.log()
    assert job.model() == {"private/f": b"model"}
    assert job.output_data() == {"private/f": b"output/data"}
    assert job.stored("s3://bucket/saved/private/f") == b"checkpoints"
    machine.jobs.delete(job.name)
    assert not job.folder.root.exists()
