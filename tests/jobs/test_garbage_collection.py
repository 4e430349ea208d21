"""Freeing a home: what ended goes, and nothing of what runs, waits, or is only here."""

import fcntl
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.conftest import is_training, make_spec, run_to_end
from tests.wait import until
from trackside.files.overlays import open_lock
from trackside.jobs.jobs import Jobs
from trackside.jobs.local_controller import delete
from trackside.jobs.retention import Item, Keep, Kind
from trackside.records import pending_uploads
from trackside.records.journal import Journal
from trackside.records.layout import Home
from trackside.toolkit.overlay import cached_overlay

ALL = Keep(age_seconds=0.0)
"""Whatever has ended is too old."""
NO_ROOM = Keep(size_bytes=0.0)


def finished(jobs: Jobs, name: str, **members: Any) -> None:
    jobs.submit(make_spec(name, **members))
    run_to_end(jobs, name)


def cleared(jobs: Jobs, keep: Keep) -> list[tuple[Kind, str]]:
    disk = jobs.disk
    return [(item.kind, item.name) for item in disk.find(keep) if disk.remove(item)]


def fill(path: Path, size_bytes: int = 1000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size_bytes))
    return path


def age(path: Path, seconds: float = 7200.0) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_a_job_whose_folder_went_is_still_listed_described_and_read(jobs: Jobs, home: Home):
    finished(jobs, "job-1")
    log = b"".join(line.data for line in jobs.logs("job-1"))
    reported = jobs.describe("job-1")["TrainingJobStatus"]
    fill(home.job("job-1").host("algo-1", 1).ml / "model" / "weights")
    assert cleared(jobs, ALL) == [(Kind.WORKING, "job-1"), (Kind.FOLDER, "job-1")]
    assert not home.job("job-1").root.exists()
    assert [row.name for row in jobs.list()] == ["job-1"]
    assert jobs.describe("job-1")["TrainingJobStatus"] == reported
    assert b"".join(line.data for line in jobs.logs("job-1")) == log != b""
    assert jobs.stored("job-1")
    assert cleared(jobs, ALL) == []


def test_a_job_may_be_deleted_while_its_folder_goes(jobs: Jobs, home: Home):
    finished(jobs, "job-1")
    record = jobs.record("job-1")
    assert cleared(jobs, ALL) == [(Kind.FOLDER, "job-1")]
    delete(record, home)
    assert not (home.buckets / "out/runs/job-1/trackside").exists()


def test_looking_removes_nothing(jobs: Jobs, home: Home):
    finished(jobs, "job-1")
    [found] = jobs.disk.find(ALL)
    assert (found.kind, found.name) == (Kind.FOLDER, "job-1")
    assert found.size_bytes > 0
    assert home.job("job-1").journal.exists()


def test_a_job_that_runs_is_left_alone(jobs: Jobs, home: Home):
    jobs.submit(make_spec("job-1", hyper={"hold": "1"}))
    until(lambda: is_training(jobs, "job-1"))
    fill(home.job("job-1").host("algo-1", 1).ml / "x")
    assert cleared(jobs, Keep(0.0, 0.0)) == []


def test_one_that_came_to_life_since_it_was_found_is_left_alone(jobs: Jobs, home: Home):
    finished(jobs, "job-1")
    [found] = jobs.disk.find(ALL)
    pending_uploads.note(home, "job-1", keeps_files=True)  # as its next supervisor would see it
    assert not jobs.disk.remove(found)
    assert home.job("job-1").journal.exists()


def test_a_job_whose_last_upload_is_not_done_is_not_finished(jobs: Jobs, home: Home):
    finished(jobs, "job-1")
    pending_uploads.note(home, "job-1", keeps_files=False)
    assert cleared(jobs, Keep(0.0, 0.0)) == []
    pending_uploads.forget(home, "job-1")
    assert (Kind.FOLDER, "job-1") in cleared(jobs, ALL)


def test_output_that_is_only_here_stays_until_it_was_uploaded(jobs: Jobs, home: Home):
    reason = "InternalServerError: the output could not be uploaded to s3://out: away."
    finished(jobs, "job-1", hyper={"failure": reason})
    weights = fill(home.job("job-1").host("algo-1", 1).ml / "model" / "weights")
    assert cleared(jobs, Keep(0.0, 0.0)) == []
    assert weights.exists()
    Journal(home.job("job-1").journal).note("uploaded", artifacts=[])
    assert (Kind.FOLDER, "job-1") in cleared(jobs, ALL)


def test_a_job_whose_rules_have_no_verdict_yet_is_left_alone(jobs: Jobs, home: Home):
    rule = {"RuleConfigurationName": "r", "RuleEvaluatorImage": "sagemaker-debugger-rules"}
    rule["RuleParameters"] = {"rule_to_invoke": "LossNotDecreasing"}  # type: ignore[assignment]
    finished(jobs, "job-1", DebugRuleConfigurations=[rule])
    assert cleared(jobs, ALL) == []
    assert home.job("job-1").journal.exists()


def test_a_folder_stays_when_the_record_is_not_in_storage(jobs: Jobs, home: Home):
    finished(jobs, "job-1")
    (home.buckets / "out/runs/job-1/trackside/journal.jsonl").unlink()
    assert cleared(jobs, ALL) == []
    assert home.job("job-1").journal.exists()


def test_data_goes_last_the_oldest_first_and_the_record_stays(jobs: Jobs, home: Home):
    for name in ("old", "new"):
        finished(jobs, name)
        fill(home.buckets / f"out/runs/{name}/debug-output/x", 5000)
    fill(home.buckets / "out/of-mine", 300_000)
    used = sum(path.stat().st_size for path in home.root.rglob("*") if path.is_file())
    folders = sum(path.stat().st_size for path in home.jobs.rglob("*") if path.is_file())
    done = cleared(jobs, Keep(size_bytes=used - folders - 4000))
    assert done == [(Kind.FOLDER, "old"), (Kind.FOLDER, "new"), (Kind.DATA, "old")]
    assert not (home.buckets / "out/runs/old/debug-output").exists()
    assert (home.buckets / "out/runs/new/debug-output/x").exists()
    assert jobs.describe("old")["TrainingJobStatus"] == "Completed"
    assert jobs.artifacts("old") == []
    cleared(jobs, NO_ROOM)
    assert (home.buckets / "out/of-mine").stat().st_size == 300_000
    assert {row.name for row in jobs.list()} == {"old", "new"}


def test_nothing_outside_the_home_goes(jobs: Jobs, home: Home, tmp_path: Path):
    outside = tmp_path / "outside"
    finished(jobs, "job-1", OutputDataConfig={"S3OutputPath": str(outside)})
    model = outside / "job-1" / "output" / "model.tar.gz"
    assert cleared(jobs, NO_ROOM) == [(Kind.FOLDER, "job-1")]
    assert model.exists()


def test_a_part_of_the_home_that_is_a_link_is_left_alone(jobs: Jobs, home: Home, tmp_path: Path):
    finished(jobs, "job-1")
    elsewhere = tmp_path / "elsewhere"
    os.rename(home.buckets, elsewhere)
    home.buckets.symlink_to(elsewhere)
    assert cleared(jobs, NO_ROOM) == [(Kind.FOLDER, "job-1")]
    assert (elsewhere / "out/runs/job-1/output/model.tar.gz").exists()


def overlay(home: Home, key: str) -> Path:
    """One that no process uses any more."""
    folder = home.overlays / key
    fill(folder / "lib" / "package.py")
    fill(folder / ".complete", 0)
    open_lock(str(folder)).close()
    return folder


def test_an_overlay_goes_when_no_job_uses_it(jobs: Jobs, home: Home):
    unused, used = overlay(home, "unused"), overlay(home, "used")
    with open_lock(str(used)) as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)  # as the toolkit of a job does
        assert cleared(jobs, ALL) == [(Kind.OVERLAY, "unused")]
    assert not unused.exists()
    assert (used / "lib" / "package.py").exists()
    assert cleared(jobs, ALL) == [(Kind.OVERLAY, "used")]


def test_an_overlay_counts_from_its_last_use_and_is_held_by_who_uses_it(jobs: Jobs, home: Home):
    folder = overlay(home, "key")
    age(folder / ".complete", 10 * 86400.0)
    week = Keep(age_seconds=7 * 86400.0)
    assert [item.name for item in jobs.disk.find(week)] == ["key"]
    given = cached_overlay(str(home.overlays), "key", [], lambda folder: None)
    assert given == str(folder)
    assert jobs.disk.find(week) == []
    assert cleared(jobs, ALL) == []  # this process is the one that uses it


def test_what_killed_processes_left_goes_after_an_hour_without_any_limit(jobs: Jobs, home: Home):
    finished(jobs, "job-1")
    fresh = fill(home.buckets / "out" / ".trackside-1-2-fresh.part")
    left = [
        fill(home.buckets / "out" / ".trackside-1-2-old.part"),
        fill(home.jobs / ".job-9.abc" / "job.json").parent,
        fill(home.overlays / "half" / "lib" / "x").parents[1],
        fill(home.root / ".profiles.json.123-0.part"),
    ]
    for path in left:
        age(path)
    written = fill(home.buckets / "out" / ".trackside-1-2-locked.part")
    age(written)
    with written.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = cleared(jobs, Keep())
    assert {name for _, name in done} == {str(path.relative_to(home.root)) for path in left}
    assert {kind for kind, _ in done} == {Kind.LEFTOVER}
    assert fresh.exists()
    assert written.exists()
    assert home.job("job-1").journal.exists()


@pytest.mark.parametrize("broken", [b"", b"not json\n"])
def test_a_folder_that_cannot_be_read_is_left_alone(jobs: Jobs, home: Home, broken: bytes):
    finished(jobs, "job-1")
    home.job("job-1").journal.write_bytes(broken)
    assert cleared(jobs, Keep(0.0, 0.0)) == []
    assert home.job("job-1").spec.exists()


def test_a_file_that_is_gone_by_now_is_no_error(jobs: Jobs, home: Home):
    gone = home.root / ".x.1-1.part"
    assert jobs.disk.remove(Item(Kind.LEFTOVER, gone.name, 0.0, 1, gone))
