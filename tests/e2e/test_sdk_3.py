"""Version 3 of SageMaker's SDK, unmodified: `ModelTrainer` on its plain path."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client_shell import ClientShell, client_shell, loopback_alone

TRAIN = """
import argparse, importlib.util, os, sys, time
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
arguments = parser.parse_args()
print("base", sys.base_prefix, "torch", importlib.util.find_spec("torch") is not None)
print("begun", arguments.epochs, os.listdir(os.environ["SM_CHANNEL_TRAINING"]))
for number in range(200):
    print(f"line {number};")
sys.stdout.flush()
time.sleep(float(os.environ.get("PAUSE", "0")))
if os.environ.get("FAIL"):
    sys.exit(3)
with open(os.path.join(os.environ["SM_MODEL_DIR"], "weights"), "w") as file:
    file.write("w")
"""

PRELUDE = """
import boto3, json, logging, sys
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, InputData, SourceCode
logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
def trainer(**changed):
    return ModelTrainer(**{
        "training_image": "1.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.1-cpu-py310",
        "source_code": SourceCode(source_dir="code", entry_script="train.py"),
        "compute": Compute(instance_type="ml.m5.xlarge", instance_count=1),
        "hyperparameters": {"epochs": 3}, "base_job_name": "third", **changed})
data = [InputData(channel_name="training", data_source="data")]
"""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClientShell]:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(TRAIN)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("x")
    folders = os.environ["PATH"].split(os.pathsep)
    without = [each for each in folders if not os.path.exists(os.path.join(each, "torchrun"))]
    monkeypatch.setenv("PATH", os.pathsep.join(without))
    with loopback_alone() as prefix, client_shell(tmp_path, prefix=prefix) as shell:
        yield shell


def test_train_shows_the_log_leaves_a_model_and_reaches_nothing_but_the_server(shell: ClientShell):
    code = """
model = trainer()
model.train(input_data_config=data, wait=True, logs=True)
job = model._latest_training_job
job.refresh()
where = job.model_artifacts.s3_model_artifacts
found = boto3.client("s3").get_object(Bucket="trackside", Key=where.split("/", 3)[3])
print(json.dumps({"status": job.training_job_status, "bytes": found["ContentLength"]}))
"""
    shown, reported, contacts = shell.traced(PRELUDE + code, sdk=3)
    assert contacts == {shell.address}
    assert reported["status"] == "Completed"
    assert reported["bytes"] > 0
    assert "begun 3 ['a.txt']" in shown
    assert f"base {sys.base_prefix} torch True\n" in shown
    for number in range(200):
        assert shown.count(f"line {number};") == 1, number


@pytest.mark.nightly
def test_a_script_that_fails_is_raised(shell: ClientShell):
    code = """
from sagemaker.core.utils.exceptions import FailedStatusError
try:
    trainer(environment={"FAIL": "1"}).train(input_data_config=data)
except FailedStatusError as error:
    print(json.dumps(str(error)))
"""
    _, reported = shell.python(PRELUDE + code, sdk=3)
    assert "exit code: 3" in reported


def test_two_hosts_and_the_calls_on_a_job(shell: ClientShell):
    code = """
from sagemaker.core.resources import TrainingJob
compute = Compute(instance_type="ml.m5.xlarge", instance_count=2)
model = trainer(compute=compute, environment={"PAUSE": "600"})
model.train(input_data_config=data, wait=False)
name = model._latest_training_job.training_job_name
job = TrainingJob.get(name)
listed = [each.training_job_name for each in TrainingJob.get_all(name_contains="third")]
job.stop()
job.wait(poll=1, logs=False)
status = TrainingJob.get(name).training_job_status
job.delete()
job.wait_for_delete(poll=1)
left = [each.training_job_name for each in TrainingJob.get_all()]
print()  # the SDK's own last line has no end
print(json.dumps({"listed": listed == [name], "status": status, "left": left,
    "hosts": job.resource_config.instance_count}))
"""
    _, reported = shell.python(PRELUDE + code, sdk=3)
    assert reported == {"listed": True, "status": "Stopped", "left": [], "hosts": 2}


RANKS = """
import os, shutil, sys
import torch
import torch.distributed
torch.distributed.init_process_group("gloo")
total = torch.ones(1)
torch.distributed.all_reduce(total)
if torch.distributed.get_rank() == 0:
    programs = [shutil.which(name) for name in ("python", "pip", "torchrun")]
    print("ranks", int(total), "in", sys.prefix, programs)
torch.distributed.destroy_process_group()
"""
"""Without its last line torch's own threads may abort a rank at its exit ("terminate called without
an active exception"): on a busy machine in 4 of 15 runs, with torchrun alone as well."""


def test_torchrun_is_that_of_the_job_wherever_the_server_was_started(shell: ClientShell):
    """The server is started by its path: PATH has no torchrun, and no Python with torch."""
    assert shutil.which("torchrun") is None
    (shell.folder / "code" / "ranks.py").write_text(RANKS)
    code = """
from sagemaker.train.distributed import Torchrun
model = trainer(
    source_code=SourceCode(source_dir="code", entry_script="ranks.py"),
    distributed=Torchrun(process_count_per_node=2), hyperparameters={})
model.train(wait=True, logs=True)
model._latest_training_job.refresh()
print()
print(json.dumps(model._latest_training_job.training_job_status))
"""
    shown, reported = shell.python(PRELUDE + code, sdk=3)
    assert reported == "Completed"
    overlay = "/opt/ml/.overlay"
    programs = [f"{overlay}/bin/{name}" for name in ("python", "pip", "torchrun")]
    assert f"ranks 2 in {overlay} {programs}" in shown
