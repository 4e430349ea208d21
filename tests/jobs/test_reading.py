"""Looking at jobs: one that has not ended is looked after as by `Jobs`."""

from collections.abc import Callable

import pytest

from tests.jobs.conftest import ENVIRON, is_training, kill_supervisor, make_spec, run_to_end
from tests.wait import until
from trackside.jobs.jobs import Jobs
from trackside.jobs.reading import Reading
from trackside.jobs.start_supervisor import Placed
from trackside.records import pending_uploads
from trackside.records.layout import Home, JobFolder

LOOKS: list[Callable[[Reading], object]] = [
    lambda reading: reading.describe("job-1"),
    lambda reading: reading.list(),
    lambda reading: reading.reconcile("job-1"),
]


def num_revivals(folder: JobFolder) -> int:
    placed = Placed.read(folder.host("algo-1", 1).placed)
    assert placed is not None
    return placed.revivals


@pytest.mark.parametrize("look", LOOKS)
def test_a_killed_supervisor_is_revived_by_who_only_looks(
    jobs: Jobs, home: Home, look: Callable[[Reading], object]
):
    jobs.submit(make_spec(hyper={"hold": "yes"}))
    until(lambda: is_training(jobs, "job-1"))
    kill_supervisor(home.job("job-1"))
    look(Reading(jobs.settings, ENVIRON))
    assert num_revivals(home.job("job-1")) == 1


def test_the_end_of_a_job_is_looked_after_until_all_is_stored(jobs: Jobs, home: Home):
    jobs.submit(make_spec(hyper={"hold": "yes"}))
    until(lambda: is_training(jobs, "job-1"))
    (home.job("job-1").root / "release").touch()
    run_to_end(jobs)
    reading = Reading(jobs.settings, ENVIRON)
    reading.describe("job-1")
    assert num_revivals(home.job("job-1")) == 0
    pending_uploads.note(home, "job-1", keeps_files=True)
    reading.describe("job-1")
    assert num_revivals(home.job("job-1")) == 1


def test_answers_are_those_of_jobs(jobs: Jobs):
    jobs.submit(make_spec(hyper={"say": "hello"}, Tags=[{"Key": "team", "Value": "vision"}]))
    run_to_end(jobs)
    reading = Reading(jobs.settings, ENVIRON)
    assert reading.describe("job-1") == jobs.describe("job-1")
    assert reading.list() == jobs.list()
    assert reading.tags("job-1") == {"team": "vision"}
    assert [*reading.logs("job-1")] == [*jobs.logs("job-1")]
    assert reading.artifacts("job-1") == jobs.artifacts("job-1")
    assert reading.jobs().jobs() is not reading
