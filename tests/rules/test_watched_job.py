"""Where an evaluator finds what a job saved, and where it leaves a word for its hook."""

import os
from pathlib import Path

import pytest

from tests.rules.conftest import MakeJob
from trackside.rules.action.job_actions import ask_for_recorder
from trackside.system.run_as import Choice

RING = {"S3OutputPath": "s3://bucket/debug", "HookParameters": {"ring": "3"}}
PROFILE = {"S3OutputPath": "s3://bucket/profile"}


def test_what_a_job_of_our_own_user_saves_is_read_where_it_is_written(make_job: MakeJob) -> None:
    job = make_job(ProfilerConfig=PROFILE)
    host = job.folder.host("algo-1", 1)
    trial, profile = job.trial(), job.profile()
    assert trial is not None
    assert trial.local == host.inside("/opt/ml/output/tensors")
    assert profile is not None
    assert profile.local == host.inside("/opt/ml/output/profiler")


def test_in_the_folders_of_another_user_s_job_may_be_links_so_storage_is_read(
    make_job: MakeJob,
) -> None:
    job = make_job(ProfilerConfig=PROFILE)
    job.journal.note_run_as(Choice("alice"))
    assert job.refresh()
    assert str(job.trial()) == "s3://bucket/debug/job-1/debug-output"
    assert str(job.profile()) == "s3://bucket/profile/job-1/profiler-output"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_request_to_another_user_s_hook_is_written_nowhere_else(
    make_job: MakeJob, tmp_path: Path
) -> None:
    job = make_job(DebugHookConfig=RING)
    ml = job.folder.host("algo-1", 1).ml
    for path in (ml, *ml.rglob("*")):
        os.chown(path, 65531, 65531)
    tensors = ml / "output" / "tensors"
    ask_for_recorder(job)
    [request] = tensors.iterdir()
    assert request.stat().st_uid == 65531
    request.unlink()
    request.symlink_to(tmp_path / "made")
    ask_for_recorder(job)
    assert not request.is_symlink()
    assert not (tmp_path / "made").exists()
    tensors.rename(tmp_path / "moved")
    kept = tmp_path / "kept"
    kept.mkdir()
    tensors.symlink_to(kept)
    with pytest.raises(Exception, match="not on this machine"):
        ask_for_recorder(job)
    assert list(kept.iterdir()) == []
