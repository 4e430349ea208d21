"""Looking at jobs: one that has not ended is looked after as by `Jobs`."""

from collections.abc import Callable

import pytest

from tests.jobs.conftest import (
    ENVIRON,
    is_training,
    kill_supervisor,
    make_spec,
    placed_host,
    run_to_end,
)
from tests.wait import until
from trackside.jobs.jobs import Jobs
from trackside.jobs.local_reader import LocalReader
from trackside.records import pending_uploads
from trackside.records.layout import Home

LOOKS: list[Callable[[LocalReader], object]] = [
    lambda reader: reader.describe("job-1"),
    lambda reader: reader.list(),
    lambda reader: reader.reconcile("job-1"),
]


@pytest.mark.parametrize("look", LOOKS)
def test_a_killed_supervisor_is_revived_by_who_only_looks(
    jobs: Jobs, home: Home, look: Callable[[LocalReader], object]
):
    jobs.submit(make_spec(hyper={"hold": "yes"}))
    until(lambda: is_training(jobs, "job-1"))
    kill_supervisor(home.job("job-1"))
    look(LocalReader(jobs.settings, ENVIRON))
    assert placed_host(home.job("job-1")).revivals == 1


def test_the_end_of_a_job_is_looked_after_until_all_is_stored(jobs: Jobs, home: Home):
    jobs.submit(make_spec(hyper={"hold": "yes"}))
    until(lambda: is_training(jobs, "job-1"))
    (home.job("job-1").root / "release").touch()
    run_to_end(jobs)
    reader = LocalReader(jobs.settings, ENVIRON)
    reader.describe("job-1")
    assert placed_host(home.job("job-1")).revivals == 0
    pending_uploads.note(home, "job-1", keeps_files=True)
    reader.describe("job-1")
    assert placed_host(home.job("job-1")).revivals == 1


def test_answers_are_those_of_jobs(jobs: Jobs):
    jobs.submit(make_spec(hyper={"say": "hello"}, Tags=[{"Key": "team", "Value": "vision"}]))
    run_to_end(jobs)
    reader = LocalReader(jobs.settings, ENVIRON)
    assert reader.describe("job-1") == jobs.describe("job-1")
    assert reader.list() == jobs.list()
    assert reader.tags("job-1") == {"team": "vision"}
    assert [*reader.logs("job-1")] == [*jobs.logs("job-1")]
    assert reader.artifacts("job-1") == jobs.artifacts("job-1")
    assert reader.jobs().jobs() is not reader
