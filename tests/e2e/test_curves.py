"""Curves of whole jobs: event files while the script runs, metrics from its log."""

import os
import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import trackside
from tests.e2e.conftest import Machine
from tests.wait import until
from trackside import curves
from trackside.curves.chunks import by_source
from trackside.curves.event_locations import list_event_files
from trackside.records.layout import curves_of
from trackside.storage.locate import locate

WRITES = """
import os, time, trackside
writer = trackside.SummaryWriter("/opt/ml/output/tensorboard")
for step in range(40):
    writer.add_scalar("training loss", 1 / (step + 1), step)
    writer.flush()
    print(f"epoch {step}: accuracy={step / 40:.3f}", flush=True)
    while step == 20 and not os.path.exists(os.environ["GO"]):
        time.sleep(0.05)
"""
TENSORBOARD = {"S3OutputPath": "s3://bucket/tb", "LocalPath": "/opt/ml/output/tensorboard"}
TRACKSIDE: Any = {"Environment": {"PYTHONPATH": str(Path(trackside.__file__).parent.parent)}}
"""The script imports the tree under test, wherever it is."""
METRICS = {"MetricDefinitions": [{"Name": "accuracy", "Regex": "accuracy=([0-9.]+)"}]}


def test_curves_are_there_while_the_script_runs_and_whole_when_it_has_ended(machine: Machine):
    job = machine.submit(
        WRITES, TensorBoardOutputConfig=TENSORBOARD, AlgorithmSpecification=METRICS, **TRACKSIDE
    )
    home = machine.settings.home
    follower = curves.Follower("s3://bucket/tb/job-1/tensorboard-output", home=home)
    until(lambda: follower.update() > 0)
    assert not job.history().state.is_final
    machine.go.touch()
    assert job.wait().state.status == "Completed"
    found = curves.read(curves_of(job.spec), home=home)
    assert found.scalars[".", "training loss"].steps.tolist() == [*range(40)]
    accuracy = found.scalars["trackside/algo-1", "accuracy"]
    assert accuracy.values.round(3).tolist() == [step / 40 for step in range(40)]
    assert abs(accuracy.times[-1] - time.time()) < 3600
    (final,) = machine.jobs.describe(job.name)["FinalMetricDataList"]
    assert (final["MetricName"], final["Value"]) == ("accuracy", 0.975)
    syncs = job.describe()["Trackside"]["syncs"]["algo-1"]
    stored = home / "buckets/bucket/tb/job-1/tensorboard-output"
    sizes = [path.stat().st_size for path in stored.iterdir() if path.is_file()]
    assert syncs["/opt/ml/output/tensorboard (event files)"]["uploaded_bytes"] == sum(sizes)


def test_a_supervisor_that_is_killed_and_revived_sends_no_record_twice(machine: Machine):
    job = machine.submit(
        WRITES, TensorBoardOutputConfig=TENSORBOARD, AlgorithmSpecification=METRICS, **TRACKSIDE
    )
    place = locate(curves_of(job.spec), home=machine.settings.home)

    def folders() -> set[str]:
        return {source.folder for source in by_source(list_event_files(place))}

    until(lambda: {"", "trackside/algo-1"} <= folders())
    os.kill(job.supervisor_pid(), signal.SIGKILL)
    machine.go.touch()
    assert job.wait().state.status == "Completed"
    objects = list(list_event_files(place))
    pieces = [piece for found in by_source(objects).values() for piece in found]
    assert len(pieces) == len(objects)
    starts = [piece.chunk.source.folder for piece in pieces if piece.chunk.offset == 0]
    # The script's file, and ours; of the machine, each supervisor begins one.
    assert sorted(folder for folder in starts if folder != "system/algo-1") == [
        "",
        "trackside/algo-1",
    ]
    for found in by_source(objects).values():
        assert all(one.end == other.chunk.offset for one, other in pairwise(found))
    read = curves.read(place)
    assert read.scalars[".", "training loss"].steps.tolist() == [*range(40)]
    assert read.scalars["trackside/algo-1", "accuracy"].steps.tolist() == [*range(40)]


def test_final_metrics_are_known_when_the_job_s_folder_is_gone(machine: Machine):
    job = machine.run("print('accuracy=0.5')", AlgorithmSpecification=METRICS)
    folder = job.folder.root
    folder.rename(folder.parent.parent / "moved")
    machine.jobs.reindex(["s3://bucket/out"])
    (final,) = machine.jobs.describe(job.name)["FinalMetricDataList"]
    assert final["Value"] == 0.5
