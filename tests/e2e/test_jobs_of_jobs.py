"""A job that another job's script has submitted: its own job, whatever becomes of the other."""

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Job, Machine, made_machine
from tests.wait import until
from trackside.records.status import Status
from trackside.supervisor.process_sandbox import available
from trackside.system import control_group, processes

# Both ways: `begun` is there before the outer script goes on, so the inner script runs by then.
BY_ESTIMATOR = """
from trackside import Estimator
Estimator(entry_point={inner!r}, output_path="s3://bucket/out").fit(wait=False, job_name="inner")
"""
BY_COMMAND = """
import subprocess, sys
subprocess.run([sys.executable, "-m", "trackside.cli", "run", {inner!r}, "--name", "inner"])
"""
THEN = """
import os, time
while not all(map(os.path.exists, {awaited!r})): time.sleep(0.01)
print("SUBMITTED", flush=True)
"""
INNER = """
import os, time
open({begun!r}, "w").close()
while not os.path.exists({go!r}): time.sleep(0.01)
ml = os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml")
with open(ml + "/model/result.txt", "w") as file: file.write("from inside")
print("inner done", flush=True)
"""
FOREVER = "\ntime.sleep(600)\n"
WAYS = [pytest.param(BY_ESTIMATOR, id="estimator"), pytest.param(BY_COMMAND, id="command")]
KINDS = [
    "auto",
    pytest.param(
        "none", marks=pytest.mark.skipif(available().kind == "none", reason="is `auto` here")
    ),
]


@pytest.fixture(params=KINDS)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    with made_machine(tmp_path, TRACKSIDE_ISOLATION=request.param) as machine:
        yield machine
        machine.go.touch()


def submitting(machine: Machine, way: str, *awaited: Path) -> str:
    """The outer script, until the inner one runs and these files are there, too."""
    begun = machine.folder / "begun"
    path = machine.folder / "inner.py"
    path.write_text(INNER.format(begun=str(begun), go=str(machine.go)))
    return way.format(inner=str(path)) + THEN.format(awaited=[*map(str, (begun, *awaited))])


def see_it_end(machine: Machine) -> None:
    """The inner job, which was left alone so far."""
    job = Job(machine, "inner")
    assert not job.history().state.is_final, job.history().failure_reason
    pid = job.supervisor_pid()
    machine.go.touch()
    history = job.wait()
    assert history.state.status is Status.COMPLETED, history.failure_reason
    assert history.attempt == 1
    assert job.supervisor_pid() == pid, "nobody had to start it again"
    assert "inner done" in job.lines()
    assert job.model() == {"result.txt": b"from inside"}


@pytest.mark.parametrize("way", WAYS)
def test_a_job_submitted_by_a_job_outlives_its_end(machine: Machine, way: str) -> None:
    outer = machine.run(submitting(machine, way))
    assert outer.history().state.status is Status.COMPLETED, outer.log()
    see_it_end(machine)


@pytest.mark.parametrize("way", WAYS)
def test_a_job_submitted_by_a_job_outlives_its_stop(machine: Machine, way: str) -> None:
    script = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    script += submitting(machine, way) + FOREVER
    outer = machine.submit(script, Trackside={"GraceSeconds": 1})
    outer.wait_for_line("SUBMITTED")
    machine.jobs.stop(outer.name)
    assert outer.wait().state.status is Status.STOPPED
    see_it_end(machine)


def test_a_job_submitted_by_a_job_that_has_not_begun_outlives_it_too(machine: Machine) -> None:
    """Nobody reads it meanwhile, who would start its supervisor again."""
    script, _, _ = submitting(machine, BY_COMMAND).partition("import os, time")
    outer = machine.run(script)
    assert outer.history().state.status is Status.COMPLETED, outer.log()
    until((machine.folder / "begun").exists)
    see_it_end(machine)


def test_the_rules_of_a_job_submitted_by_a_job_are_evaluated_on(machine: Machine) -> None:
    rules = machine.settings.layout.job("inner").rules
    way = BY_COMMAND.replace('"--name"', '"--rule", "all", "--name"')
    script = submitting(machine, way, rules.evaluator)
    script += f"import json\nfound = json.load(open({str(rules.evaluator)!r}))\n"
    outer = machine.run(script + "print('EVALUATOR', json.dumps(found), flush=True)\n")
    assert outer.history().state.status is Status.COMPLETED, outer.log()
    evaluator = json.loads(outer.said("EVALUATOR"))
    assert processes.is_alive(processes.Identity.from_record(evaluator))
    see_it_end(machine)


def test_what_a_job_leaves_beside_a_job_is_gone(machine: Machine) -> None:
    sleep = f"{shlex.quote(sys.executable)} -c 'import time; time.sleep(600)'"
    outer = machine.run(
        submitting(machine, BY_ESTIMATOR)
        + "import subprocess\n"
        + f"left = subprocess.Popen({sleep!r}, shell=True, start_new_session=True)\n"
        + "print('LEFT', left.pid, flush=True)\n"
    )
    assert not Path("/proc", outer.said("LEFT")).exists()
    see_it_end(machine)


@pytest.mark.skipif(
    not control_group.enforced().memory, reason="needs control groups that we may make"
)
@pytest.mark.parametrize("asked", ["", "memory_gb=1, "], ids=["inner-free", "inner-limited"])
def test_limits_of_a_job_are_not_those_of_the_jobs_it_submits(machine: Machine, asked: str) -> None:
    way = BY_ESTIMATOR.replace("output_path", asked + "output_path")
    outer = machine.run(submitting(machine, way), Trackside={"MemoryGB": 1})
    assert outer.history().state.status is Status.COMPLETED, outer.log()
    job = Job(machine, "inner")
    [limited] = groups_of(outer)
    assert not limited.exists()
    for pid in (job.supervisor_pid(), job.sandbox_process("command")):
        assert not control_group.groups_of(pid)["memory"].startswith(str(limited))
    assert bool(groups_of(job)) == bool(asked)
    see_it_end(machine)
    assert not any(map(Path.exists, groups_of(job)))


def groups_of(job: Job) -> list[Path]:
    path = job.host().control_group
    record = json.loads(path.read_text()) if path.exists() else {}
    return [Path(record["memory"])] if record.get("memory") else []
