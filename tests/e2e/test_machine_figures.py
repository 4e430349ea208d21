"""A job's machine is watched from its first second, and its files are where readers look."""

import json
from collections.abc import Sequence

import pytest

from tests.e2e.conftest import Job, Machine
from tests.e2e.test_updates import samples
from tests.wait import until
from trackside.curves import Curves, read
from trackside.records.layout import curves_of
from trackside.storage.locate import locate

WORK = "import os\nwhile not os.path.exists(os.environ['GO']): sum(range(1000))\n"
CPU = ("system/algo-1", "script/cpu_percent")
TENSORBOARD = {"S3OutputPath": "s3://bucket/tb"}
PROFILER = {"S3OutputPath": "s3://bucket/prof/", "ProfilingIntervalInMilliseconds": 100}


@pytest.fixture(autouse=True)
def embedded_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKSIDE_S3", "embedded")


def stored(job: Job, prefix: str) -> list[str]:
    place = locate(prefix, home=job.machine.settings.home)
    return [entry.key for entry in place.store.list(place.key)]


@pytest.mark.parametrize("config", [{}, {"TensorBoardOutputConfig": TENSORBOARD}])
def test_curves_of_the_machine_are_beside_the_script_s(machine: Machine, config: dict[str, object]):
    job = machine.submit(WORK, **config)
    until(lambda: any(value > 0 for value in cpu(read(job.host().curves))))
    machine.go.touch()
    assert job.wait().state.secondary == "Completed"
    curves = read(curves_of(job.spec), home=machine.settings.home)
    assert curves.runs == ["system/algo-1"]
    assert max(cpu(curves)) > 0
    assert curves.scalars["system/algo-1", "script/processes"].values[-1] >= 1


def cpu(curves: Curves) -> Sequence[float]:
    series = curves.scalars.get(CPU)
    return [] if series is None else series.values.tolist()


@pytest.mark.parametrize("folder", [{}, {"LocalPath": "/opt/ml/output/elsewhere"}])
def test_profiles_and_their_end_are_in_storage(machine: Machine, folder: dict[str, str]):
    job = machine.submit(WORK, ProfilerConfig={**PROFILER, "ProfilingParameters": folder})
    until(lambda: samples(job))
    machine.go.touch()
    job.wait()
    keys = stored(job, f"s3://bucket/prof/{job.name}/profiler-output/")
    below = f"prof/{job.name}/profiler-output"
    assert f"{below}/system/training_job_end.ts" in keys
    assert f"{below}/framework/training_job_end.ts" in keys
    files = [key for key in keys if key.startswith(f"{below}/system/incremental/")]
    assert files
    for key in files:
        assert key.endswith(".algo-1.json")
    lines = job.stored(f"s3://bucket/{files[0]}").splitlines()
    assert {json.loads(line)["NodeId"] for line in lines} == {"algo-1"}


def test_a_stopped_job_has_its_end_markers_too(machine: Machine):
    hook = {"S3OutputPath": "s3://bucket/debug"}
    job = machine.submit("print('never')", DebugHookConfig=hook)
    job.machine.jobs.stop(job.name)
    job.wait()
    until(lambda: stored(job, "s3://bucket/debug/"))
    assert stored(job, "s3://bucket/debug/") == [
        f"debug/{job.name}/debug-output/training_job_end.ts"
    ]


def test_nobody_watches_when_the_profiler_is_switched_off(machine: Machine):
    job = machine.run("print(1)", ProfilerConfig={"DisableProfiler": True})
    assert stored(job, f"s3://bucket/out/{job.name}/trackside/curves/") == []
    assert not job.host().curves.exists()
