"""An image with SageMaker's own toolkit, Open MPI and sshd: its `train`, and MPI between hosts."""

import json
from collections.abc import Callable

import pytest

from tests.docker_engine import TOOLKIT
from tests.e2e.test_containers import ContainerMachine, machine, make_image, run_image
from tests.e2e.test_hosts import TWO
from tests.wait import until
from trackside.records.status import Status

__all__ = ["machine", "make_image"]
pytestmark = pytest.mark.timeout(600)

TRAIN = """
import json, os, sys
print("ARGUMENTS", json.dumps(sys.argv[1:]), flush=True)
open(os.path.join(os.environ["SM_MODEL_DIR"], "m"), "w").write(os.environ["SM_CURRENT_HOST"])
if "--fail" in sys.argv:
    raise ValueError("as asked")
"""
MPI = {"sagemaker_mpi_enabled": "true", "sagemaker_mpi_num_of_processes_per_host": "1"}
RANKS = """
import os, signal, socket, sys, time
host = socket.gethostname()
def save(*_):
    open(f"/opt/ml/model/{host}", "w").write(os.environ["OMPI_COMM_WORLD_RANK"])
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
rank, total = os.environ["OMPI_COMM_WORLD_RANK"], os.environ["OMPI_COMM_WORLD_SIZE"]
print("RANK", rank, total, host, flush=True)
if "--wait" in sys.argv:
    time.sleep(600)
save()
"""


@pytest.mark.parametrize("fails", [False, True])
def test_sagemaker_s_toolkit_runs_the_script_of_its_image(
    machine: ContainerMachine, make_image: Callable[..., str], fails: bool
) -> None:
    lines = "COPY train.py /opt/ml/code/train.py\nENV SAGEMAKER_PROGRAM train.py"
    image = make_image(lines, TOOLKIT, **{"train.py": TRAIN})
    parameters = {"epochs": "3", **({"fail": "1"} if fails else {})}
    job = run_image(
        machine, AlgorithmSpecification={"TrainingImage": image}, HyperParameters=parameters
    )
    history = job.history()
    assert "sagemaker-training-toolkit INFO     Invoking user script" in job.log()
    assert json.loads(job.said("ARGUMENTS"))[:2] == ["--epochs", "3"]
    assert history.state.status is (Status.FAILED if fails else Status.COMPLETED)
    if fails:
        reason = history.failure_reason or ""
        assert reason.startswith("AlgorithmError: ExecuteUserScriptError:\nExitCode 1")
    else:
        assert job.model() == {"m": b"algo-1"}


def test_sagemaker_s_toolkit_runs_a_script_that_is_sent(machine: ContainerMachine) -> None:
    machine.image = TOOLKIT
    job = machine.run(TRAIN, AlgorithmSpecification={"ContainerEntrypoint": ["train"]})
    assert job.history().state.status is Status.COMPLETED, job.log()
    assert "sagemaker-training-toolkit INFO     Reporting training SUCCESS" in job.log()
    assert job.model() == {"m": b"algo-1"}


@pytest.mark.parametrize(("is_stopped", "is_read_only"), [(False, True), (True, False)])
def test_mpi_works_between_containers(
    machine: ContainerMachine, is_stopped: bool, is_read_only: bool
) -> None:
    machine.image = TOOLKIT
    parameters = {**MPI, **({"wait": "1"} if is_stopped else {})}
    job = machine.submit(
        RANKS,
        hyperparameters=parameters,
        ResourceConfig=TWO,
        Trackside={"ReadOnlyRoot": is_read_only},
    )
    if is_stopped:
        until(lambda: job.log().count(":RANK ") == 2, seconds=120)
        machine.jobs.stop(job.name)
    history = job.wait()
    assert history.state.status is (Status.STOPPED if is_stopped else Status.COMPLETED), job.log()
    for rank in (0, 1):
        assert f"[1,{rank}]<stdout>:RANK {rank} 2 algo-{rank + 1}\n" in job.log()
    assert job.model() == {"algo-1": b"0", "algo-2": b"1"}
