"""Programs as people have them for AWS, unmodified, in an environment of their own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.aws_clients import program

pytestmark = pytest.mark.timeout(240)

TRAIN = """
import argparse, os, sys, time
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
parser.add_argument("--name")
arguments = parser.parse_args()
print("begun", arguments.epochs, arguments.name, os.listdir(os.environ["SM_CHANNEL_TRAINING"]))
for number in range(200):
    print(f"line {number};")
print("loss: 0.25;", flush=True)
time.sleep(float(os.environ.get("PAUSE", "0")))
if os.environ.get("FAIL"):
    sys.exit(3)
with open(os.path.join(os.environ["SM_MODEL_DIR"], "weights"), "w") as file:
    file.write("w")
"""

PRELUDE = """
import boto3, json, sagemaker, sys
from sagemaker.debugger import Rule, TensorBoardOutputConfig, rule_configs
from sagemaker.pytorch import PyTorch
session = sagemaker.Session()
bucket = session.default_bucket()
boto3.client("s3").put_object(Bucket=bucket, Key="data/a.txt", Body=b"x")
def estimator(**changed):
    return PyTorch(**{
        "entry_point": "train.py", "source_dir": "code", "framework_version": "2.1",
        "py_version": "py310", "instance_count": 1, "instance_type": "ml.g4dn.xlarge",
        "hyperparameters": {"epochs": 3, "name": "a b"}, "volume_size": 400,
        "metric_definitions": [{"Name": "loss", "Regex": "loss: ([0-9.]+);"}],
        "sagemaker_session": session, **changed})
data = {"training": f"s3://{bucket}/data"}
"""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a shell after `eval "$(trackside env)"`, with a server behind it."""
    trackside = [sys.executable, "-m", "trackside.cli"]
    ours = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(TRAIN)
    with subprocess.Popen(
        [*trackside, "server", "--listen", "127.0.0.1:0", "--quiet"],
        stdout=subprocess.PIPE,
        env=ours,
        text=True,
    ) as server:
        assert server.stdout is not None
        server.stdout.readline()
        shown = subprocess.run(
            [*trackside, "env"], env=ours, capture_output=True, text=True, check=True
        )
        exports = dict(
            line.removeprefix("export ").split("=", 1) for line in shown.stdout.splitlines()
        )
        yield {
            "PATH": os.environ["PATH"],
            "HOME": os.environ["HOME"],
            "SAGEMAKER_SUPPRESS_V2_WARNING": "1",
            **{name: value.strip("'") for name, value in exports.items()},
        }
        server.terminate()


def sdk(shell: dict[str, str], folder: Path, code: str) -> tuple[str, Any]:
    """What the program printed, and the JSON of its last line."""
    done = subprocess.run(
        [program("python"), "-c", PRELUDE + code],
        cwd=folder,
        env=shell,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout, json.loads(done.stdout.splitlines()[-1])


def test_fit_with_rules_and_tensorboard_then_attach(shell, tmp_path):
    code = """
trainer = estimator(
    tags=[{"Key": "team", "Value": "vision"}],
    tensorboard_output_config=TensorBoardOutputConfig(s3_output_path=f"s3://{bucket}/tb"),
    rules=[Rule.sagemaker(rule_configs.loss_not_decreasing())])
trainer.fit(data, logs="None")
job = trainer.latest_training_job
again = PyTorch.attach(job.name, sagemaker_session=session)
found = boto3.client("s3").get_object(Bucket=bucket, Key=again.model_data.split("/", 3)[3])
print(json.dumps({
    "rules": [each["RuleConfigurationName"] for each in job.rule_job_summary()],
    "metrics": job.describe()["FinalMetricDataList"][0]["Value"],
    "hyperparameters": again.hyperparameters(), "tags": again.tags,
    "model_bytes": found["ContentLength"]}))
"""
    _, told = sdk(shell, tmp_path, code)
    assert told["rules"] == ["LossNotDecreasing"]
    assert told["metrics"] == 0.25
    assert told["hyperparameters"]["epochs"] == "3"
    assert told["hyperparameters"]["name"] == '"a b"'
    assert told["tags"] == [{"Key": "team", "Value": "vision"}]
    assert told["model_bytes"] > 0


def test_every_line_of_the_log_is_shown_once(shell, tmp_path):
    code = """
estimator(environment={"PAUSE": "8"}).fit(data, logs="All")
print("{}")
"""
    shown, _ = sdk(shell, tmp_path, code)
    lines = [line.split("m")[-1].removesuffix("\x1b[0") for line in shown.splitlines()]
    for number in range(200):
        assert sum(f"line {number};" in line for line in lines) == 1, number
    assert "Training seconds: " in shown


def test_a_script_that_fails_is_raised_with_its_exit_code(shell, tmp_path):
    code = """
try:
    estimator(environment={"FAIL": "1"}).fit(data, logs="None")
except sagemaker.exceptions.UnexpectedStatusException as error:
    print(json.dumps(str(error)))
"""
    _, told = sdk(shell, tmp_path, code)
    assert "AlgorithmError" in told
    assert "exit code: 3" in told


def test_the_command_line_lists_waits_stops_and_reads_errors(shell, tmp_path):
    code = """
trainer = estimator(environment={"PAUSE": "600"})
trainer.fit(data, wait=False)
print(json.dumps(trainer.latest_training_job.name))
"""
    _, name = sdk(shell, tmp_path, code)

    def aws(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program("aws"), *arguments], env=shell, capture_output=True, text=True, timeout=60
        )

    listed = json.loads(aws("sagemaker", "list-training-jobs", "--max-items", "5").stdout)
    assert [job["TrainingJobName"] for job in listed["TrainingJobSummaries"]] == [name]
    assert aws("sagemaker", "stop-training-job", "--training-job-name", name).returncode == 0
    streams = aws(
        *("logs", "describe-log-streams", "--log-group-name", "/aws/sagemaker/TrainingJobs")
    )
    assert f"{name}/algo-1-" in streams.stdout
    unknown = aws("sagemaker", "describe-training-job", "--training-job-name", "nobody")
    assert unknown.returncode != 0
    assert "(ValidationException)" in unknown.stderr
    assert "Requested resource not found." in unknown.stderr
