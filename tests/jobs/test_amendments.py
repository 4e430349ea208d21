"""What is changed about a job just as it ends lasts as long as the job's record does."""

from tests.jobs.conftest import eventually, is_training, make_spec, run_to_end
from trackside.jobs.amendments import note_tags, tags_of
from trackside.jobs.jobs import Jobs
from trackside.jobs.records import read_stored
from trackside.layout import Home


def test_a_tag_of_somebody_who_looked_before_the_end_is_stored_with_the_job(jobs: Jobs, home: Home):
    jobs.submit(make_spec(hyper={"hold": "1"}))
    eventually(lambda: is_training(jobs, "job-1"))
    looked = jobs.record("job-1")
    (home.job("job-1").root / "release").touch()
    run_to_end(jobs)
    note_tags(looked, home, {"team": "vision"}, [])
    assert tags_of(read_stored(looked.keys, home)) == {"team": "vision"}
