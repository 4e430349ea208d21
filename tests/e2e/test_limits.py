"""Jobs that ask for cores and memory, and the kernel that keeps them to it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server_process import TRACKSIDE, ServerProcess
from trackside.system import control_group
from trackside.system.control_group import ControlGroup

GREEDY = """
import os, time
print("threads", os.environ["OMP_NUM_THREADS"], flush=True)
kept = []
while len(kept) < 40:
    kept.append(b"x" * (64 << 20))
    time.sleep(0.2)  # its memory is measured once a second
print("survived", flush=True)
"""


@pytest.fixture(autouse=True)
def enforced() -> None:
    kept = control_group.enforced()
    if not kept.memory or not kept.cpu:
        pytest.skip("this user may make no control group here")


def run(
    tmp_path: Path, *words: str, group: ControlGroup | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    ours = {key: text for key, text in os.environ.items() if not key.startswith("TRACKSIDE")}
    path = os.pathsep.join(path for path in sys.path if path)
    return subprocess.run(
        [*TRACKSIDE, *words],
        env={**ours, "TRACKSIDE_HOME": str(tmp_path / "home"), "PYTHONPATH": path, **variables},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        preexec_fn=None if group is None else group.join,
    )


def groups(tmp_path: Path, name: str) -> list[str]:
    path = tmp_path / "home" / "jobs" / name / "hosts" / "algo-1" / "1" / "control_group.json"
    found = json.loads(path.read_text())
    return [folder for name, folder in found.items() if folder and name != "format"]


@pytest.mark.parametrize("isolation", ["auto", "none"])
def test_a_script_beyond_its_memory_is_ended_with_the_limit_in_its_reason(
    tmp_path: Path, isolation: str
):
    (tmp_path / "train.py").write_text(GREEDY)
    words = ("run", "train.py", "--name", "job-1", "--cores", "1", "--memory-gb", "1", "--wait")
    done = run(tmp_path, *words, TRACKSIDE_ISOLATION=isolation)
    assert done.returncode == 1
    assert "threads 1" in done.stdout
    assert "survived" not in done.stdout
    reported = json.loads(run(tmp_path, "show", "job-1", "--json").stdout)
    assert "OutOfMemory: the script used more than the limit of 1 GB" in reported["FailureReason"]
    shown = " ".join(run(tmp_path, "show", "job-1").stdout.split())
    assert "Limited to 1 core and 1 GB of memory." in shown
    death = {"cause": "out_of_memory", "host": "algo-1", "memory": "limit", "attempt": 1}
    assert reported["Trackside"]["death"] == death
    assert "Cause: out of memory (killed at the limit of memory that the job asked for)" in shown
    assert "Memory of the script on algo-1: " in shown
    assert "The last lines of algo-1: " in shown
    assert not any(map(os.path.exists, groups(tmp_path, "job-1")))


@pytest.mark.nightly
def test_a_kill_for_lack_of_memory_around_the_job_is_the_kernels(tmp_path: Path):
    """As on a machine that is full, or in a container or step with a limit of its own."""
    around = control_group.make("trackside-test-around", memory_bytes=1 << 30)
    (tmp_path / "train.py").write_text(GREEDY.replace('os.environ["OMP_NUM_THREADS"]', "1"))
    try:
        words = ("run", "train.py", "--name", "job-1", "--wait")
        assert run(tmp_path, *words, group=around).returncode == 1
        reported = json.loads(run(tmp_path, "show", "job-1", "--json").stdout)
    finally:
        around.remove()
    death = {"cause": "out_of_memory", "host": "algo-1", "memory": "kernel", "attempt": 1}
    assert reported["Trackside"]["death"] == death


def test_a_script_within_its_limits_is_left_alone(tmp_path: Path):
    (tmp_path / "train.py").write_text("open('/opt/ml/model/m', 'w').write('x')")
    done = run(tmp_path, "run", "train.py", "--name", "job-1", "--memory-gb", "1", "--wait")
    assert done.returncode == 0, done.stderr
    assert not any(map(os.path.exists, groups(tmp_path, "job-1")))


def test_a_server_may_keep_jobs_to_what_their_type_has(tmp_path: Path):
    (tmp_path / "train.py").write_text("import os; print(os.environ['OMP_NUM_THREADS'])")
    with ServerProcess(tmp_path / "there", TRACKSIDE_ENFORCE="types") as server:
        there = server.environment()
        done = run(tmp_path, "run", "train.py", "--name", "job-1", "--wait", group=None, **there)
        assert done.returncode == 0, done.stderr
        assert "Limited to 1 core." in run(tmp_path, "show", "job-1", group=None, **there).stdout
