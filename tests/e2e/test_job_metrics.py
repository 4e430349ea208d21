"""A script that puts metrics by boto3, in a job of a real server: its curves, who reads them."""

import time
from datetime import UTC, datetime
from pathlib import Path

import boto3
import pytest

from tests.server_process import ServerProcess
from trackside import Estimator

TRAIN = """
import boto3
client = boto3.client("cloudwatch", region_name="eu-central-1")
for value in (4.0, 2.0):
    datum = {"MetricName": "score", "Value": value, "Dimensions": [{"Name": "Fold", "Value": "1"}]}
    client.put_metric_data(Namespace="MyModel", MetricData=[datum])
"""


def test_what_a_script_puts_is_a_curve_of_its_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAIN)
    with ServerProcess(tmp_path / "server home") as server:
        server.use(monkeypatch)
        estimator = Estimator(entry_point="train.py", debugger_hook_config=False)
        estimator.fit(job_name="job-1", logs=False)
        client = boto3.client(
            "cloudwatch",
            endpoint_url=server.url,
            region_name="eu-central-1",
            aws_access_key_id=server.key.id,
            aws_secret_access_key=server.secret,
        )
        of_job = {"Name": "TrainingJobName", "Value": "job-1"}
        [listed] = client.list_metrics(Namespace="MyModel")["Metrics"]
        assert listed["MetricName"] == "score (Fold=1)"
        now = time.time()
        points = client.get_metric_statistics(
            Namespace="MyModel",
            MetricName="score",
            Dimensions=[{"Name": "Fold", "Value": "1"}, of_job],
            StartTime=datetime.fromtimestamp(now - 3600, UTC),
            EndTime=datetime.fromtimestamp(now + 3600, UTC),
            Period=7200,
            Statistics=["Sum", "SampleCount"],
        )["Datapoints"]
        assert sum(point["Sum"] for point in points) == 6.0
        assert sum(point["SampleCount"] for point in points) == 2.0  # in one period or two
        assert estimator.latest_training_job is not None
        [final] = estimator.latest_training_job.describe()["FinalMetricDataList"]
        assert (final["MetricName"], final["Value"]) == ("MyModel/score (Fold=1)", 2.0)
