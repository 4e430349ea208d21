"""Profiler updates, metrics and the end of rules, as AWS's own clients ask for them."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.aws_clients import program
from tests.e2e.test_aws_clients import sdk, shell

__all__ = ["shell"]

pytestmark = pytest.mark.timeout(240)

UPDATING = """
import time
from sagemaker.debugger import ProfilerRule
client = boto3.client("sagemaker")
trainer = estimator(environment={"PAUSE": "25"}, disable_profiler=True)
trainer.fit(data, wait=False)
name = trainer.latest_training_job.name
def job():
    return client.describe_training_job(TrainingJobName=name)
def until(condition):
    deadline = time.time() + 60
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
trainer.fit(data, logs="None")
frame = trainer.training_job_analytics.dataframe()
print(json.dumps({"name": trainer.latest_training_job.name,
    "rows": frame[["metric_name", "value"]].values.tolist()}))
"""


def test_the_profiler_is_changed_by_the_sdk_while_the_script_runs(shell, tmp_path: Path):
    _, told = sdk(shell, tmp_path, UPDATING)
    assert (told["before"], told["enabled"], told["disabled"]) == (
        "Disabled",
        "Enabled",
        "Disabled",
    )
    assert told["interval"] == 100
    assert told["rules"] == ["cpu"]
    assert told["stored"] > 0


def test_the_sdk_s_analytics_and_the_cli_read_metrics(shell, tmp_path: Path):
    _, told = sdk(shell, tmp_path, ANALYTICS)
    assert told["rows"] == [["loss", 0.25]]
    job = f"Name=TrainingJobName,Value={told['name']}"
    listed = subprocess.run(
        [program("aws"), "cloudwatch", "list-metrics", "--dimensions", job],
        env=shell,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert listed.returncode == 0, listed.stderr
    [metric] = json.loads(listed.stdout)["Metrics"]
    assert metric["MetricName"] == "loss"
    asked = subprocess.run(
        [program("aws"), "cloudwatch", "get-metric-statistics", "--namespace"]
        + [metric["Namespace"], "--metric-name", "loss", "--dimensions", job]
        + ["--start-time", "2026-01-01T00:00:00Z", "--end-time", "2036-01-01T00:00:00Z"]
        + ["--period", "604800", "--statistics", "Maximum", "SampleCount"],
        env=shell,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert asked.returncode == 0, asked.stderr
    [point] = json.loads(asked.stdout)["Datapoints"]
    assert (point["Maximum"], point["SampleCount"]) == (0.25, 1.0)
