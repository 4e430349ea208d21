"""A real job whose profiler is changed while its script runs."""

import json
from collections.abc import Collection
from itertools import pairwise

from tests.e2e.conftest import Job, Machine
from tests.wait import until
from trackside.records.job_updates import Update
from trackside.records.rule_status import RuleStatus
from trackside.records.spec import RuleConfiguration

UNTIL_TOLD = """
import os, time
print("begun", flush=True)
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.05)
"""

LATE = RuleConfiguration(name="Late", parameters={"rule_to_invoke": "CPUBottleneck"})


def held(machine: Machine) -> Job:
    job = machine.submit(UNTIL_TOLD)
    job.wait_for_line("begun")
    return job


def samples(job: Job) -> set[float]:
    """When the profiler looked, as the files of the host have it."""
    found: set[float] = set()
    for path in job.host().root.rglob("*.algo-1.json"):
        text = path.read_text()
        lines = text[: text.rfind("\n") + 1].splitlines()
        found |= {json.loads(line)["Timestamp"] for line in lines}
    return found


def gaps(moments: Collection[float]) -> list[float]:
    return [after - before for before, after in pairwise(sorted(moments))]


def status(job: Job, name: str) -> RuleStatus | None:
    found = {each.configuration: each.status for each in job.machine.jobs.evaluations(job.name)}
    return found.get(name)


def test_a_profiler_comes_is_quickened_and_goes_while_the_script_runs(machine: Machine):
    job = held(machine)
    assert not samples(job)
    profile = {"S3OutputPath": "s3://bucket/profile", "ProfilingIntervalInMilliseconds": 500}
    machine.jobs.update(job.name, Update(profiler=profile, rules=[LATE]))
    until(lambda: len(samples(job)) >= 2)
    until(lambda: job.folder.rules.evaluator.exists())
    config = job.host().ml / "input/config/profilerconfig.json"
    assert json.loads(config.read_text())["ProfilingIntervalInMilliseconds"] == 500

    machine.jobs.update(job.name, Update(profiler={"ProfilingIntervalInMilliseconds": 100}))
    until(lambda: json.loads(config.read_text())["ProfilingIntervalInMilliseconds"] == 100)
    until(lambda: sum(gap < 0.3 for gap in gaps(samples(job))) >= 5)

    machine.jobs.update(job.name, Update(profiler={"DisableProfiler": True}))
    until(lambda: status(job, "Late") is RuleStatus.STOPPED)
    machine.go.touch()
    job.wait()
    described = job.describe()
    assert described["TrainingJobStatus"] == "Completed"
    assert described["ProfilingStatus"] == "Disabled"
    stored = machine.settings.layout.buckets / "bucket/profile" / job.name / "profiler-output"
    assert list(stored.rglob("*.algo-1.json"))


def test_a_rule_that_came_to_a_job_without_any_reaches_its_verdict(machine: Machine):
    job = held(machine)
    profile = {"S3OutputPath": "s3://bucket/profile", "ProfilingIntervalInMilliseconds": 100}
    machine.jobs.update(job.name, Update(profiler=profile, rules=[LATE]))
    until(lambda: len(samples(job)) >= 5)
    machine.go.touch()
    job.wait()
    until(lambda: status(job, "Late") is RuleStatus.NO_ISSUES_FOUND)


def test_a_later_attempt_begins_with_the_profiler_as_it_was_changed(machine: Machine):
    script = """
import os, pathlib, signal, time
print("begun", flush=True)
mark = pathlib.Path(os.environ["GO"] + ".again")
while not mark.exists():
    time.sleep(0.05)
    if os.path.exists(os.environ["GO"]):
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
print(pathlib.Path(os.environ["SM_INPUT_CONFIG_DIR"], "profilerconfig.json").read_text())
"""
    job = machine.submit(script, RetryStrategy={"MaximumRetryAttempts": 1})
    job.wait_for_line("begun")
    machine.jobs.update(job.name, Update(profiler={"ProfilingIntervalInMilliseconds": 100}))
    until(lambda: samples(job))
    machine.go.touch()
    job.wait()
    assert job.history().attempt == 2
    assert '"ProfilingIntervalInMilliseconds": 100' in "\n".join(job.lines())
