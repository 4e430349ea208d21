"""A real job whose profiler is changed while its script runs."""

import json
from pathlib import Path
from typing import Any

from tests.e2e.conftest import Job, Machine
from tests.waiting import until
from trackside.amended import Update
from trackside.rule_status import RuleStatus
from trackside.spec import RuleConfiguration

UNTIL_TOLD = """
import pathlib, sys, time
print("begun", flush=True)
while not pathlib.Path(f"{sys.argv[2]}").exists():
    time.sleep(0.05)
"""

LATE = RuleConfiguration(name="Late", parameters={"rule_to_invoke": "CPUBottleneck"})


def held(machine: Machine, **request: Any) -> tuple[Job, Path]:
    """A job, and the file that its script waits for."""
    go = machine.folder / "go"
    job = machine.submit(UNTIL_TOLD, hyperparameters={"go": json.dumps(str(go))}, **request)
    job.wait_for_line("begun")
    return job, go


def samples(job: Job) -> set[float]:
    """When the profiler looked, as the files of the host have it."""
    found: set[float] = set()
    for path in job.host().root.rglob("*.algo-1.json"):
        text = path.read_text()
        lines = text[: text.rfind("\n") + 1].splitlines()
        found |= {json.loads(line)["Timestamp"] for line in lines}
    return found


def status(job: Job, name: str) -> RuleStatus | None:
    found = {each.configuration: each.status for each in job.machine.jobs.evaluations(job.name)}
    return found.get(name)


def test_a_profiler_comes_is_quickened_and_goes_while_the_script_runs(machine: Machine):
    job, go = held(machine)
    assert not samples(job)
    profile = {"S3OutputPath": "s3://bucket/profile", "ProfilingIntervalInMilliseconds": 500}
    machine.jobs.update(job.name, Update(profiler=profile, rules=[LATE]))
    until(lambda: len(samples(job)) >= 2)
    until(lambda: job.folder.rules.evaluator.exists())
    config = job.host().ml / "input/config/profilerconfig.json"
    assert json.loads(config.read_text())["ProfilingIntervalInMilliseconds"] == 500

    machine.jobs.update(job.name, Update(profiler={"ProfilingIntervalInMilliseconds": 100}))
    until(lambda: json.loads(config.read_text())["ProfilingIntervalInMilliseconds"] == 100)
    known = len(samples(job))
    until(lambda: len(samples(job)) >= known + 10, seconds=4)

    machine.jobs.update(job.name, Update(profiler={"DisableProfiler": True}))
    until(lambda: status(job, "Late") is RuleStatus.STOPPED)
    go.touch()
    job.wait()
    described = job.describe()
    assert described["TrainingJobStatus"] == "Completed"
    assert described["ProfilingStatus"] == "Disabled"
    stored = machine.settings.layout.buckets / "bucket/profile" / job.name / "profiler-output"
    assert list(stored.rglob("*.algo-1.json"))


def test_a_rule_that_came_to_a_job_without_any_reaches_its_verdict(machine: Machine):
    job, go = held(machine)
    profile = {"S3OutputPath": "s3://bucket/profile", "ProfilingIntervalInMilliseconds": 100}
    machine.jobs.update(job.name, Update(profiler=profile, rules=[LATE]))
    until(lambda: len(samples(job)) >= 5)
    go.touch()
    job.wait()
    until(lambda: status(job, "Late") is RuleStatus.NO_ISSUES_FOUND, seconds=30)


def test_a_later_attempt_begins_with_the_profiler_as_it_was_changed(machine: Machine):
    script = """
import os, pathlib, signal, sys, time
print("begun", flush=True)
mark = pathlib.Path(sys.argv[2] + ".again")
while not mark.exists():
    time.sleep(0.05)
    if pathlib.Path(sys.argv[2]).exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
print(pathlib.Path(os.environ["SM_INPUT_CONFIG_DIR"], "profilerconfig.json").read_text())
"""
    go = machine.folder / "go"
    job = machine.submit(
        script,
        hyperparameters={"go": json.dumps(str(go))},
        RetryStrategy={"MaximumRetryAttempts": 1},
    )
    job.wait_for_line("begun")
    machine.jobs.update(job.name, Update(profiler={"ProfilingIntervalInMilliseconds": 100}))
    until(lambda: samples(job))
    go.touch()
    job.wait()
    assert job.history().attempt == 2
    assert '"ProfilingIntervalInMilliseconds": 100' in "\n".join(job.lines())
