"""The first cells of AWS's profiling notebooks: a job by its name, its readers, its tables."""

import io
import json
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client_shell import ClientShell, client_shell

TRAIN = """
import time
from smdebug.profiler.utils import str2bool
assert str2bool("True")
time.sleep(3)
"""

NOTEBOOK = """
import boto3, json
client, s3 = boto3.client("sagemaker"), boto3.client("s3")
s3.create_bucket(Bucket="trackside")
s3.upload_file("source.tar.gz", "trackside", "source.tar.gz")
client.create_training_job(
    TrainingJobName="profiled",
    AlgorithmSpecification={"TrainingInputMode": "File", "TrainingImage": "pytorch-training:2"},
    RoleArn="arn:aws:iam::000000000000:role/trackside",
    HyperParameters={"sagemaker_program": "train.py",
                     "sagemaker_submit_directory": "s3://trackside/source.tar.gz"},
    OutputDataConfig={"S3OutputPath": "s3://trackside/out"},
    ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
    ProfilerConfig={"S3OutputPath": "s3://trackside/profiles",
                    "ProfilingIntervalInMilliseconds": 500},
    StoppingCondition={"MaxRuntimeInSeconds": 600})

from smdebug.profiler.analysis.notebook_utils.training_job import TrainingJob
tj = TrainingJob("profiled", "us-east-1")
tj.wait_for_sys_profiling_data_to_be_available()
system_metrics_reader = tj.get_systems_metrics_reader()
system_metrics_reader.refresh_event_file_list()
last_timestamp = system_metrics_reader.get_timestamp_of_latest_available_file()
events = system_metrics_reader.get_events(0, last_timestamp + 1)
client.get_waiter("training_job_completed_or_stopped").wait(
    TrainingJobName="profiled", WaiterConfig={"Delay": 1})
tj.wait_for_framework_profiling_data_to_be_available()  # ends, though there is none

from smdebug.profiler.analysis.utils.profiler_data_to_pandas import PandasFrame
pf = PandasFrame(tj.profiler_s3_output_path)
figures = pf.get_all_system_metrics()
print(json.dumps({
    "path": tj.profiler_s3_output_path,
    "nodes": sorted({each.node_id for each in events}),
    "kinds": sorted({each.type for each in events}),
    "columns": sorted(figures.columns), "rows": len(figures) >= len(events) > 0,
    "status": tj.describe_training_job()["TrainingJobStatus"]}))
"""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[ClientShell]:
    with tarfile.open(tmp_path / "source.tar.gz", "w:gz") as archive:
        info = tarfile.TarInfo("train.py")
        info.size = len(TRAIN)
        archive.addfile(info, io.BytesIO(TRAIN.encode()))
    with client_shell(tmp_path) as shell:
        yield shell


def test_a_job_s_machine_is_read_as_the_notebook_does(shell: ClientShell):
    done = shell.run(sys.executable, "-c", NOTEBOOK)
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout.splitlines()[-1])
    assert reported["status"] == "Completed"
    assert reported["path"] == "s3://trackside/profiles/profiled/profiler-output"
    assert reported["nodes"] == ["algo-1"]
    assert "cpu" in reported["kinds"]
    assert reported["rows"]
    assert {"timestamp_us", "value", "system_metric", "nodeID"} < set(reported["columns"])
