"""What a job has stored, and that deleting it removes this and nothing else."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import S3Server
from tests.jobs.conftest import ENVIRON, STAND_IN, is_training, make_spec, run_to_end
from tests.wait import until
from trackside.errors import JobNotFinished, JobNotFound
from trackside.jobs.jobs import Jobs
from trackside.records.layout import Home
from trackside.settings import Settings
from trackside.storage.locate import locate


def put(home: Home, uri: str, data: bytes = b"12345") -> None:
    folder, _, name = uri.rpartition("/")
    place = locate(folder, home=home.root).child(name)
    place.store.put(place.key, data)


def keys(home: Home, bucket: str) -> set[str]:
    return {entry.key for entry in locate(f"s3://{bucket}", home=home.root).store.list()}


def finished(jobs: Jobs, name: str, **members: Any) -> None:
    jobs.submit(make_spec(name, **members))
    run_to_end(jobs, name)


def checkpoints(uri: str) -> dict[str, Any]:
    return {"CheckpointConfig": {"S3Uri": uri}}


EVERYWHERE = {
    "TensorBoardOutputConfig": {"S3OutputPath": "s3://curves/all"},
    "DebugHookConfig": {"S3OutputPath": "s3://debug"},
    "ProfilerConfig": {"S3OutputPath": "s3://profile"},
}
MADE = (
    "s3://curves/all/job-1/tensorboard-output/events.out.tfevents.1",
    "s3://debug/job-1/debug-output/index/1",
    "s3://profile/job-1/profiler-output/system/1",
    "s3://out/runs/job-1/rule-output/r/report.html",
)


def test_all_that_a_job_made_is_reported_with_its_size(jobs: Jobs, home: Home):
    finished(jobs, "job-1", **EVERYWHERE, **checkpoints("s3://ckpt/mine"))
    for uri in (*MADE, "s3://ckpt/mine/1.pt"):
        put(home, uri)
    reported = {each.kind: (each.uri, each.size_bytes) for each in jobs.delete("job-1")}
    assert reported == {
        "output": ("s3://out/runs/job-1/output", 7),
        "rules": ("s3://out/runs/job-1/rule-output", 5),
        "curves": ("s3://curves/all/job-1/tensorboard-output", 5),
        "tensors": ("s3://debug/job-1/debug-output", 5),
        "profile": ("s3://profile/job-1/profiler-output", 5),
        "checkpoints": ("s3://ckpt/mine", 5),
    }


def test_data_goes_with_the_job_and_nothing_else_does(jobs: Jobs, home: Home):
    finished(jobs, "job-1", **EVERYWHERE)
    finished(jobs, "job-10", **EVERYWHERE)
    neighbours = {uri.replace("/job-1/", "/job-10/") for uri in MADE}
    for uri in (*MADE, *neighbours, "s3://out/runs/of-mine", "s3://debug/job-1/notes"):
        put(home, uri)
    assert jobs.delete("job-1", data=True) == []
    assert not [key for key in keys(home, "out") if key.startswith("runs/job-1/")]
    assert "runs/of-mine" in keys(home, "out")
    assert keys(home, "debug") == {"job-1/notes", "job-10/debug-output/index/1"}
    assert "all/job-10/tensorboard-output/events.out.tfevents.1" in keys(home, "curves")
    assert not [key for key in keys(home, "curves") if key.startswith("all/job-1/")]
    assert not (home.buckets / "out/runs/job-1").exists()
    finished(jobs, "job-1", **EVERYWHERE)  # the name is free, its TensorBoard location too


def test_checkpoints_without_the_job_s_name_stay_unless_they_are_named(jobs: Jobs, home: Home):
    for name in ("job-1", "job-2"):
        finished(jobs, name, **checkpoints(f"s3://ckpt/{name}-of-mine"))
        put(home, f"s3://ckpt/{name}-of-mine/1.pt")
    [kept] = jobs.delete("job-1", data=True)
    assert (kept.kind, kept.uri, kept.is_own) == ("checkpoints", "s3://ckpt/job-1-of-mine", False)
    assert jobs.delete("job-2", data=True, checkpoints=True) == []
    assert keys(home, "ckpt") == {"job-1-of-mine/1.pt"}


def test_checkpoints_below_the_job_s_output_are_its_own(jobs: Jobs, home: Home):
    finished(jobs, "job-1", **checkpoints("s3://out/runs/job-1/checkpoints"))
    put(home, "s3://out/runs/job-1/checkpoints/1.pt")
    assert jobs.delete("job-1", data=True) == []
    assert keys(home, "out") == set()


@pytest.mark.parametrize("shared", ["s3://ckpt/shared", "s3://ckpt", "s3://ckpt/shared/deep"])
def test_checkpoints_that_another_job_names_stay(jobs: Jobs, home: Home, shared: str):
    finished(jobs, "job-1", **checkpoints("s3://ckpt/shared/"))
    finished(jobs, "job-2", **checkpoints(shared))
    put(home, "s3://ckpt/shared/1.pt")
    [kept] = jobs.delete("job-1", data=True, checkpoints=True)
    assert kept.kept == f"job 'job-2' writes to {shared}"
    assert keys(home, "ckpt") == {"shared/1.pt"}


def test_a_path_into_an_embedded_bucket_is_the_same_place(jobs: Jobs, home: Home):
    finished(jobs, "job-1", **checkpoints("s3://ckpt/shared"))
    finished(jobs, "job-2", **checkpoints(str(home.buckets / "ckpt" / "shared")))
    put(home, "s3://ckpt/shared/1.pt")
    [kept] = jobs.delete("job-1", data=True, checkpoints=True)
    assert "job-2" in kept.kept


def test_a_whole_bucket_is_never_emptied(jobs: Jobs, home: Home):
    finished(jobs, "job-1", **checkpoints("s3://ckpt"))
    put(home, "s3://ckpt/1.pt")
    [kept] = jobs.delete("job-1", data=True, checkpoints=True)
    assert kept.kept == "it is a whole bucket"
    assert keys(home, "ckpt") == {"1.pt"}


def test_what_a_running_job_reads_stays(jobs: Jobs, home: Home):
    finished(jobs, "job-1")
    model = "s3://out/runs/job-1/output/model.tar.gz"
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": model}}
    channel = {"ChannelName": "model", "DataSource": source}
    jobs.submit(make_spec("job-2", hyper={"hold": "1"}, InputDataConfig=[channel]))
    until(lambda: is_training(jobs, "job-2"))
    [kept] = jobs.delete("job-1", data=True)
    assert kept.kept == f"job 'job-2' is running and reads {model}"
    assert "runs/job-1/output/model.tar.gz" in keys(home, "out")


def test_another_job_s_output_below_this_one_s_stays(jobs: Jobs, home: Home):
    finished(jobs, "job-1")
    below = {"OutputDataConfig": {"S3OutputPath": "s3://out/runs/job-1/output/next"}}
    finished(jobs, "job-2", **below)
    [kept] = jobs.delete("job-1", data=True)
    assert "job-2" in kept.kept
    assert "runs/job-1/output/next/job-2/output/model.tar.gz" in keys(home, "out")


def test_a_file_right_below_the_job_s_prefix_goes_and_its_claim_is_no_data(jobs: Jobs, home: Home):
    beside = {"TensorBoardOutputConfig": {"S3OutputPath": "s3://out/runs"}}
    finished(jobs, "job-1", **beside)
    put(home, "s3://out/runs/job-1/notes.txt")
    put(home, "s3://out/runs/job-1/tensorboard-output/events.out.tfevents.1")
    assert {each.kind for each in jobs.stored("job-1")} == {"output", "curves", "notes.txt"}
    assert jobs.delete("job-1", data=True) == []
    assert keys(home, "out") == set()
    finished(jobs, "job-1", **beside)


def test_nothing_goes_while_the_job_runs(jobs: Jobs, home: Home):
    jobs.submit(make_spec("job-1", hyper={"hold": "1"}))
    until(lambda: is_training(jobs, "job-1"))
    put(home, MADE[3])
    with pytest.raises(JobNotFinished):
        jobs.delete("job-1", data=True)
    assert "runs/job-1/rule-output/r/report.html" in keys(home, "out")


def test_a_job_with_a_folder_for_its_output_leaves_no_empty_one(
    jobs: Jobs, home: Home, tmp_path: Path
):
    out = tmp_path / "my output"
    finished(jobs, "job-1", OutputDataConfig={"S3OutputPath": str(out)})
    (out / "mine").write_text("mine")
    assert jobs.delete("job-1", data=True) == []
    assert [path.name for path in out.iterdir()] == ["mine"]


def test_data_in_an_object_store_goes_too(
    settings: Settings,
    home: Home,
    s3_server: S3Server,
    bucket: str,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.delenv("TRACKSIDE_S3")
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    jobs = Jobs(settings, {**ENVIRON, **s3_server.environment}, supervisor_command=STAND_IN)
    output = {"OutputDataConfig": {"S3OutputPath": f"s3://{bucket}/runs"}}
    finished(jobs, "job-1", **output)
    for number in range(25):  # more than a page
        put(home, f"s3://{bucket}/runs/job-1/debug-output/{number}")
    put(home, f"s3://{bucket}/runs/other")
    reported = {each.kind: each.num_files for each in jobs.stored("job-1")}
    assert reported == {"output": 1, "tensors": 25}
    assert jobs.delete("job-1", data=True) == []
    listed = s3_server.client().list_objects_v2(Bucket=bucket)["Contents"]
    assert [item["Key"] for item in listed] == ["runs/other"]
    with pytest.raises(JobNotFound):
        jobs.describe("job-1")
