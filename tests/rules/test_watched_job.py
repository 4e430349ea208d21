"""Where an evaluator finds what a job saved."""

from tests.rules.conftest import MakeJob
from trackside.system.run_as import Choice

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
