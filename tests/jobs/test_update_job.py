"""What is changed about a job just as it ends lasts as long as the job's record does."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.jobs.conftest import is_training, make_spec, run_to_end
from tests.wait import until
from trackside.errors import InputError
from trackside.jobs.jobs import Jobs
from trackside.jobs.records import read_stored
from trackside.jobs.update_job import note_of, note_tags, tags_of
from trackside.records.job_updates import Update
from trackside.records.journal import Journal
from trackside.records.layout import Home
from trackside.records.spec import DebugHook, RuleConfiguration


def test_a_tag_of_somebody_who_looked_before_the_end_is_stored_with_the_job(jobs: Jobs, home: Home):
    jobs.submit(make_spec(hyper={"hold": "1"}))
    until(lambda: is_training(jobs, "job-1"))
    looked = jobs.record("job-1")
    (home.job("job-1").root / "release").touch()
    run_to_end(jobs)
    note_tags(looked, home, {"team": "vision"}, [])
    assert tags_of(read_stored(looked.keys, home)) == {"team": "vision"}


def test_no_tag_of_several_who_set_them_at_once_is_lost(jobs: Jobs, home: Home):
    jobs.submit(make_spec())
    run_to_end(jobs)
    jobs.list()  # it is in the index by now
    shutil.rmtree(home.job("job-1").root)

    def tag(number: int) -> None:
        jobs.change_tags("job-1", put={f"tag-{number}": "x"})

    with ThreadPoolExecutor(8) as together:
        list(together.map(tag, range(24)))
    assert set(jobs.tags("job-1")) == {f"tag-{number}" for number in range(24)}


@pytest.mark.parametrize(
    "put",
    [
        {"": "x"},
        {"k" * 129: "x"},
        {"team": "v" * 257},
        {f"tag-{number}": "" for number in range(51)},
    ],
)
def test_a_tag_that_no_request_could_have_is_refused(jobs: Jobs, put: dict[str, str]):
    jobs.submit(make_spec())
    run_to_end(jobs)
    with pytest.raises(InputError, match="tag"):
        jobs.change_tags("job-1", put=put)
    assert jobs.tags("job-1") == {}


def test_a_job_may_have_fifty_tags(jobs: Jobs):
    jobs.submit(make_spec())
    run_to_end(jobs)
    jobs.change_tags("job-1", put={f"tag-{number}": "v" * 256 for number in range(50)})
    jobs.change_tags("job-1", put={"tag-0": "other"})
    with pytest.raises(InputError, match="more than 50 tags"):
        jobs.change_tags("job-1", put={"one-more": ""})
    jobs.change_tags("job-1", put={"one-more": ""}, remove=["tag-0"])
    assert len(jobs.tags("job-1")) == 50


def test_the_last_note_counts_and_outlives_the_folder(jobs: Jobs, home: Home):
    jobs.submit(make_spec())
    run_to_end(jobs)
    jobs.set_note("job-1", "first")
    jobs.list()
    shutil.rmtree(home.job("job-1").root)
    assert jobs.describe("job-1")["Trackside"]["note"] == "first"
    assert jobs.set_note("job-1", "second") == "second"
    assert note_of(read_stored(jobs.record("job-1").keys, home)) == "second"


@pytest.mark.parametrize(
    "note",
    [
        {"what": "note", "text": 5},
        {"what": "note"},
        {"what": "tags", "put": ["a"], "removed": []},
        {"what": "tags", "put": {"a": "b"}},
        {"what": "update", "profiler": 5, "rules": []},
        {"what": "update", "profiler": {}, "rules": [{"RuleConfigurationName": 5}]},
        {"what": "update", "profiler": {}, "rules": [], "debug_hook": {"S3OutputPath": 5}},
        {"what": "update", "profiler": {}, "rules": [], "debug_rules": ["Checkup"]},
        {"what": "stopped_rule"},
    ],
)
def test_a_damaged_note_costs_itself(jobs: Jobs, home: Home, note: dict[str, Any]):
    jobs.submit(make_spec())
    run_to_end(jobs)
    journal = Journal(home.job("job-1").journal)
    journal.note(**note)
    jobs.change_tags("job-1", put={"team": "vision"})
    assert jobs.tags("job-1") == {"team": "vision"}
    assert jobs.describe("job-1")["TrainingJobStatus"] == "Completed"


def test_a_hook_and_rules_come_to_a_job_that_has_none(jobs: Jobs, home: Home):
    jobs.submit(make_spec(hyper={"hold": "1"}))
    rules = [RuleConfiguration(name=name) for name in ("Checkup", "Overfit")]
    hook = DebugHook(uri="s3://out/runs")
    jobs.update("job-1", Update(debug_hook=hook, debug_rules=rules[:1]))
    jobs.update("job-1", Update(debug_hook=DebugHook(uri="s3://other"), debug_rules=rules[1:]))
    spec = jobs.record("job-1").spec
    assert spec.debug_hook == hook
    assert spec.debug_rules == (rules[0],)
    (home.job("job-1").root / "release").touch()
    run_to_end(jobs)
