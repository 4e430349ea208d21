"""What the jobs of an owner use: each file once, for whom it is, and nothing of others."""

from pathlib import Path
from typing import Any

from tests.jobs.conftest import make_spec
from tests.jobs.test_garbage_collection import fill
from trackside.jobs.garbage_collection import size_of
from trackside.jobs.jobs import Jobs
from trackside.records.layout import Home


def enqueue(jobs: Jobs, name: str, owner: str, **members: Any) -> int:
    """What it uses from the first."""
    jobs.enqueue(make_spec(name, **members), key="K", who=owner)
    return size_of(jobs.settings.layout.job(name).root)


def used(jobs: Jobs, *owners: str) -> dict[str, int]:
    return jobs.disk.used_by(owners)


def test_folders_and_objects_of_the_owner_s_jobs_count(jobs: Jobs, home: Home):
    folder = enqueue(jobs, "job-1", "alice")
    other = enqueue(jobs, "job-2", "bob")
    fill(home.job("job-1").root / "hosts/algo-1/1/ml/model/weights", 10)
    fill(home.buckets / "out/runs/job-1/output/model.tar.gz", 100)
    fill(home.buckets / "out/runs/job-10/output/model.tar.gz", 1000)
    assert used(jobs, "alice", "bob", "carol") == {
        "alice": folder + 110,
        "bob": other,
        "carol": 0,
    }


def test_other_locations_that_a_job_names_count_but_no_whole_bucket(jobs: Jobs, home: Home):
    checkpoints = {"S3Uri": "s3://out/shared/checkpoints"}
    curves = {"S3OutputPath": "s3://curves"}
    members = {"CheckpointConfig": checkpoints, "TensorBoardOutputConfig": curves}
    folder = enqueue(jobs, "job-1", "alice", **members)
    whole = enqueue(jobs, "job-2", "alice", CheckpointConfig={"S3Uri": "s3://data"})
    claim = used(jobs, "alice")["alice"] - folder - whole
    fill(home.buckets / "out/shared/checkpoints/1.pt", 10)
    fill(home.buckets / "curves/job-1/tensorboard-output/events", 100)
    fill(home.buckets / "data/set.csv", 1000)
    assert used(jobs, "alice")["alice"] == folder + whole + claim + 110


def test_what_is_inside_another_owner_s_location_counts_once_for_whom_it_is(jobs: Jobs, home: Home):
    """One names as its checkpoints what has the other's output in it."""
    outer = enqueue(jobs, "job-1", "alice", CheckpointConfig={"S3Uri": "s3://out/runs"})
    inner = enqueue(jobs, "job-2", "bob")
    fill(home.buckets / "out/runs/1.pt", 10)
    fill(home.buckets / "out/runs/job-2/output/model.tar.gz", 100)
    expected = {"alice": outer + 10, "bob": inner + 100}
    assert used(jobs, "alice", "bob") == expected
    assert used(jobs, "bob") == {"bob": expected["bob"]}
    assert used(jobs, "alice") == {"alice": expected["alice"]}


def test_links_are_not_followed(jobs: Jobs, home: Home, tmp_path: Path):
    folder = enqueue(jobs, "job-1", "alice")
    fill(tmp_path / "elsewhere/large", 10_000)
    link = home.job("job-1").root / "link"
    link.symlink_to(tmp_path / "elsewhere")
    assert used(jobs, "alice")["alice"] == folder + link.lstat().st_size


def test_a_job_deleted_since_costs_nothing_and_a_new_one_of_its_name_is_read(
    jobs: Jobs, home: Home
):
    enqueue(jobs, "job-1", "alice", CheckpointConfig={"S3Uri": "s3://out/old"})
    fill(home.buckets / "out/old/1.pt", 10)
    before = used(jobs, "alice")["alice"]
    jobs.stop("job-1")
    jobs.delete("job-1")
    assert used(jobs, "alice")["alice"] == 0 < before
    folder = enqueue(jobs, "job-1", "bob")
    assert used(jobs, "alice", "bob") == {"alice": 0, "bob": folder}
