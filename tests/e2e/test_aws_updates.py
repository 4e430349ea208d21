"""Profiler updates, metrics and the end of rules, as AWS's own clients ask for them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.aws_clients import program

TRACKSIDE = [sys.executable, "-m", "trackside.cli"]

TRAIN = """
import os, time
print("loss: 0.25;", flush=True)
time.sleep(float(os.environ.get("PAUSE", "0")))
"""

PRELUDE = """
import boto3, json, sagemaker, time
from sagemaker.debugger import ProfilerRule, rule_configs
from sagemaker.pytorch import PyTorch
session = sagemaker.Session()
bucket = session.default_bucket()
def estimator(**changed):
    return PyTorch(**{
        "entry_point": "train.py", "source_dir": "code", "framework_version": "2.1",
        "py_version": "py310", "instance_count": 1, "instance_type": "ml.m5.large",
        "metric_definitions": [{"Name": "loss", "Regex": "loss: ([0-9.]+);"}],
        "sagemaker_session": session, **changed})
"""

UPDATING = """
client = boto3.client("sagemaker")
trainer = estimator(environment={"PAUSE": "600"}, disable_profiler=True)
trainer.fit(wait=False)
name = trainer.latest_training_job.name
def job():
    return client.describe_training_job(TrainingJobName=name)
def until(condition):
    deadline = time.time() + 120
    while not condition():
        assert time.time() < deadline, job()
        time.sleep(0.2)
until(lambda: job()["SecondaryStatus"] == "Training")
before = job()["ProfilingStatus"]
trainer.enable_default_profiling()
enabled = job()
trainer.update_profiler(
    system_monitor_interval_millis=100,
    rules=[ProfilerRule.sagemaker(rule_configs.CPUBottleneck(), name="cpu")])
rules = [each["RuleConfigurationName"] for each in trainer.latest_training_job.rule_job_summary()]
arn = [e["RuleEvaluationJobArn"] for e in trainer.latest_training_job.rule_job_summary()
       if e["RuleConfigurationName"] == "cpu"][0]
evaluation = arn.rpartition("/")[2]
client.stop_processing_job(ProcessingJobName=evaluation)
until(lambda: client.describe_processing_job(
    ProcessingJobName=evaluation)["ProcessingJobStatus"] == "Stopped")
prefix = f"{name}/profiler-output/system/"
s3 = boto3.client("s3")
trainer.disable_profiling()
disabled = job()["ProfilingStatus"]
session.stop_training_job(name)
until(lambda: job()["TrainingJobStatus"] == "Stopped")
stored = s3.list_objects_v2(Bucket=bucket, Prefix=prefix)["KeyCount"]
print(json.dumps({"before": before, "enabled": enabled["ProfilingStatus"], "rules": rules,
    "interval": job()["ProfilerConfig"]["ProfilingIntervalInMilliseconds"],
    "disabled": disabled, "stored": stored}))
"""

ANALYTICS = """
trainer = estimator()
trainer.fit(logs="None")
frame = trainer.training_job_analytics.dataframe()
print(json.dumps({"name": trainer.latest_training_job.name,
    "rows": frame[["metric_name", "value"]].values.tolist()}))
"""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a shell after `eval "$(trackside env)"`, with a server behind it."""
    ours = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(TRAIN)
    with subprocess.Popen(
        [*TRACKSIDE, "server", "--listen", "127.0.0.1:0", "--quiet"],
        stdout=subprocess.PIPE,
        env=ours,
        text=True,
    ) as server:
        assert server.stdout is not None
        server.stdout.readline()
        lines = subprocess.run([*TRACKSIDE, "env"], env=ours, capture_output=True, check=True)
        shown = subprocess.run(
            ["bash", "-c", lines.stdout.decode() + "env -0"],
            env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]},
            capture_output=True,
            check=True,
        )
        pairs = (entry.partition("=") for entry in shown.stdout.decode().split("\0") if entry)
        variables = {name: value for name, _, value in pairs}
        yield {**variables, "SAGEMAKER_SUPPRESS_V2_WARNING": "1"}
        server.terminate()


def sdk(shell: dict[str, str], folder: Path, code: str) -> Any:
    """The JSON of the last line that the program printed."""
    done = run(shell, program("python"), "-c", PRELUDE + code, folder=folder)
    return json.loads(done.splitlines()[-1])


def run(shell: dict[str, str], *command: str, folder: Path | None = None) -> str:
    done = subprocess.run(
        command, cwd=folder, env=shell, capture_output=True, text=True, timeout=350
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_the_profiler_is_changed_by_the_sdk_while_the_script_runs(shell, tmp_path: Path):
    reported = sdk(shell, tmp_path, UPDATING)
    statuses = (reported["before"], reported["enabled"], reported["disabled"])
    assert statuses == ("Disabled", "Enabled", "Disabled")
    assert reported["interval"] == 100
    assert reported["rules"] == ["cpu"]
    assert reported["stored"] > 0


def test_the_sdk_s_analytics_and_the_cli_read_metrics(shell, tmp_path: Path):
    reported = sdk(shell, tmp_path, ANALYTICS)
    assert reported["rows"] == [["loss", 0.25]]
    cloudwatch = (program("aws"), "cloudwatch")
    job = f"Name=TrainingJobName,Value={reported['name']}"
    [metric] = json.loads(run(shell, *cloudwatch, "list-metrics", "--dimensions", job))["Metrics"]
    assert metric["MetricName"] == "loss"
    metric_of_job = ("--namespace", metric["Namespace"], "--metric-name", "loss")
    time_of_job = ("--start-time", "2026-01-01T00:00:00Z", "--end-time", "2036-01-01T00:00:00Z")
    answer = run(
        shell,
        *(*cloudwatch, "get-metric-statistics", *metric_of_job, "--dimensions", job),
        *(*time_of_job, "--period", "604800", "--statistics", "Maximum", "SampleCount"),
    )
    [point] = json.loads(answer)["Datapoints"]
    assert (point["Maximum"], point["SampleCount"]) == (0.25, 1.0)
