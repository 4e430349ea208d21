"""What is watched while a container runs: the flight recorder on request, and live curves."""

import json
from typing import Any

import pytest

from tests.e2e.test_capture import NET
from tests.e2e.test_containers import ContainerMachine, machine, torch_matches, with_torch
from tests.e2e.test_curves import METRICS, TENSORBOARD, WRITES
from tests.wait import until
from trackside import create_trial, curves
from trackside.coordination.coordination import FLIGHT_RECORDER, Request
from trackside.coordination.folder import FolderCoordination
from trackside.records.layout import JobKeys, curves_of
from trackside.records.status import Status
from trackside.supervisor.container_job import LIBRARY

__all__ = ["machine", "torch_matches"]
pytestmark = pytest.mark.timeout(600)

TRAINS_UNTIL_TOLD = """
import os, time
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
step = 0
while not os.path.exists(os.environ["GO"]):
    x = torch.randn(16, 1, 10, 10)
    optimizer.zero_grad()
    criterion(model(x), torch.zeros(16, dtype=torch.long)).backward()
    optimizer.step()
    step += 1
    print("STEP", step, flush=True)
    time.sleep(0.05)
"""
RING: dict[str, Any] = {
    "S3OutputPath": "s3://bucket/debug",
    "HookParameters": {"ring": "5", "save_interval": "1"},
    "CollectionConfigurations": [{"CollectionName": "losses"}],
}


def test_the_flight_recorder_is_written_on_request(
    machine: ContainerMachine, torch_matches: None
) -> None:
    job = machine.submit(NET + TRAINS_UNTIL_TOLD, **with_torch(DebugHookConfig=RING))
    job.wait_for_line("STEP 10\n")
    coordination = FolderCoordination(job.folder, job.spec.hosts, "algo-1", 1)
    coordination.request(Request("one", FLIGHT_RECORDER, "algo-1"))
    where = JobKeys.of(job.spec).under("s3://bucket/debug", "debug-output")
    stored = machine.settings.layout.buckets / where.removeprefix("s3://") / "flight-recorder.json"
    report = until(lambda: json.loads(stored.read_text()))
    machine.go.touch()
    assert job.wait().state.status is Status.COMPLETED, job.log()
    assert len(report) == 1
    steps = create_trial(where, home=machine.settings.home).steps()
    assert len(steps) == 5


def test_curves_are_live(machine: ContainerMachine, torch_matches: None) -> None:
    paths = {"PYTHONPATH": f"/opt/ml/input/data/packages:{LIBRARY}"}
    job = machine.submit(
        WRITES,
        TensorBoardOutputConfig=TENSORBOARD,
        AlgorithmSpecification=METRICS,
        **with_torch(Environment=paths),
    )
    home = machine.settings.home
    follower = curves.Follower("s3://bucket/tb/job-1/tensorboard-output", home=home)
    until(lambda: follower.update() > 0)
    assert not job.history().state.is_final
    machine.go.touch()
    assert job.wait().state.status is Status.COMPLETED, job.log()
    found = curves.read(curves_of(job.spec), home=home).scalars
    assert found[".", "training loss"].steps.tolist() == [*range(40)]
    accuracy = found["trackside/algo-1", "accuracy"].values.round(3)
    assert accuracy.tolist() == [step / 40 for step in range(40)]
