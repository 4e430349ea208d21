"""What the hook saved, as curves: written by the real writer."""

from pathlib import Path
from typing import Any

import pytest

from tests.views.curves.conftest import stored_curves, write
from tests.wait import until
from trackside.capture.selection.collection import CollectionManager
from trackside.capture.writing.segments import StepRecord
from trackside.capture.writing.writer import SegmentWriter, WriterLimits
from trackside.jobs.jobs import Jobs
from trackside.records.layout import tensors_of
from trackside.storage.locate import locate
from trackside.views.curves.curve_list import curve_id, vital_id
from trackside.views.curves.series import CurveReader, CurveRef, SeriesRequest, View

HOOK: dict[str, Any] = {"DebugHookConfig": {"S3OutputPath": "s3://debug"}}


def writer_of(jobs: Jobs, name: str) -> SegmentWriter:
    uri = tensors_of(jobs.record(name).spec)
    assert uri is not None
    folder = locate(uri, home=jobs.settings.home).local
    assert folder is not None
    writer = SegmentWriter(
        str(folder), "worker_0", home=Path(folder), limits=WriterLimits(age_seconds=0.005)
    )
    manager = CollectionManager()
    manager.get("vitals").include(["^vitals/"])
    writer.put_collections(manager.to_json_dict())
    return writer


def step(number: int, mode: str, **figures: float) -> StepRecord:
    scalars = {name.replace("__", "/"): value for name, value in figures.items()}
    return StepRecord(number, mode, number, 100.0 + number, scalars=scalars)


@pytest.fixture
def job(jobs: Jobs, finished: Any) -> str:
    losses = [(0, 1.5), (1, 1.25), (3, 0.75), (4, 0.5)]
    finished("job-1", {"": {"train/loss": losses}}, **HOOK)
    writer = writer_of(jobs, "job-1")
    for number, value in losses:
        gradient = {"vitals__gradient_norm": number * 2.0}
        writer.add(step(number, "TRAIN", loss_output_0=value, **gradient))
    writer.add(step(2, "EVAL", loss_output_0=7.0, vitals__gradient_norm=9.0))
    writer.close(end_marker=True)
    hook = {"vitals/gradient_norm": [(0, 0.0), (1, 2.0)]}
    write(stored_curves(jobs, "job-1") / "TRAIN", hook).close()
    return "job-1"


def test_batches_of_training_and_evaluation_are_kept_apart(jobs: Jobs, job: str) -> None:
    found = {info.name: info for info in CurveReader(jobs).curves(job)}
    vitals = {name: info for name, info in found.items() if info.kind == "vital"}
    assert {*vitals} == {
        "TRAIN/vitals/gradient_norm",
        "EVAL/vitals/gradient_norm",
        "TRAIN/loss_output_0",
        "EVAL/loss_output_0",
    }
    train, val = vitals["TRAIN/vitals/gradient_norm"], vitals["EVAL/vitals/gradient_norm"]
    assert (train.phase, val.phase) == ("train", "val")
    assert train.chart == val.chart
    assert (train.count, train.last, val.count, val.last) == (4, 8.0, 1, 9.0)
    assert train.id == vital_id("vitals/gradient_norm")
    assert vitals["TRAIN/loss_output_0"].same_as == "train/loss"
    assert [info.kind for info in found.values()].count("metric") == 1


def test_their_points_are_read_like_any_other_s(jobs: Jobs, job: str) -> None:
    refs = [CurveRef(job, vital_id("vitals/gradient_norm", mode)) for mode in ("TRAIN", "EVAL")]
    items = CurveReader(jobs).series(SeriesRequest(tuple(refs), View(100)))
    points = {item.id: [*zip(item.x, item.y, strict=True)] for item in items}
    assert points[refs[0].id] == [(0.0, 0.0), (1.0, 2.0), (3.0, 6.0), (4.0, 8.0)]
    assert points[refs[1].id] == [(2.0, 9.0)]
    [item] = CurveReader(jobs).series(SeriesRequest((refs[1],), View(100, "time")))
    assert item.x.tolist() == [102.0]


def test_without_them_the_hook_s_event_files_are_listed(jobs: Jobs, job: str) -> None:
    found = {info.id: info for info in CurveReader(jobs).curves(job, vitals=False)}
    assert found[curve_id("TRAIN", "vitals/gradient_norm")].kind == "vital"
    assert vital_id("vitals/gradient_norm") not in found


def test_vitals_of_a_running_job_appear_as_they_are_saved(jobs: Jobs, running: Any) -> None:
    running("job-1", **HOOK)
    reader = CurveReader(jobs)
    assert reader.curves("job-1") == []
    live = reader.live([CurveRef("job-1", vital_id("vitals/gradient_norm"))])
    writer = writer_of(jobs, "job-1")
    writer.add(step(0, "TRAIN", vitals__gradient_norm=1.5))
    [new] = until(live.poll)
    assert (new.steps, new.values) == ([0], [1.5])
    writer.close(end_marker=True)


def test_a_model_without_vitals_has_none(jobs: Jobs, finished: Any) -> None:
    finished("job-1", {"": {"loss": [(0, 1.0)]}}, **HOOK)
    assert [info.kind for info in CurveReader(jobs).curves("job-1")] == ["metric"]


def test_a_damaged_trial_hides_no_other_curve(jobs: Jobs, job: str, caplog: Any) -> None:
    uri = tensors_of(jobs.record(job).spec)
    folder = locate(uri or "", home=jobs.settings.home).local
    assert folder is not None
    for path in [*folder.rglob("*.safetensors"), *folder.rglob("*.json")]:
        path.write_bytes(b"{damaged")
    found = [info.name for info in CurveReader(jobs).curves(job)]
    assert "train/loss" in found
