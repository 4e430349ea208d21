"""Which jobs of a script are good ones to learn from."""

from tests.jobs.conftest import embedded_buckets as embedded_buckets
from tests.jobs.conftest import home as home
from tests.jobs.conftest import jobs as jobs
from tests.jobs.conftest import settings as settings
from tests.views.many_jobs import CREATED, ended_job
from tests.views.tensor_jobs import HOOK
from trackside.jobs.jobs import Jobs
from trackside.records.finding import Finding
from trackside.records.layout import Home
from trackside.records.status import Secondary
from trackside.views.learnt.good_jobs import good_jobs

FINDING = Finding(rule="DeadLayer", configuration="Checkup", message="Dead.", step=0, time=CREATED)


def test_the_last_that_were_captured_and_completed_without_a_finding(jobs: Jobs, home: Home):
    other = {"sagemaker_program": "other.py"}
    for number, name in enumerate(("first", "second", "third")):
        ended_job(home, name, created=CREATED + number, DebugHookConfig=HOOK)
    ended_job(home, "not-captured", created=CREATED + 10)
    ended_job(home, "failed", created=CREATED + 11, as_=Secondary.FAILED, DebugHookConfig=HOOK)
    ended_job(home, "sick", created=CREATED + 12, findings=[FINDING], DebugHookConfig=HOOK)
    ended_job(home, "other", created=CREATED + 13, hyper=other, DebugHookConfig=HOOK)
    ended_job(home, "asked", created=CREATED + 14, DebugHookConfig=HOOK)
    jobs.reindex()
    assert good_jobs(jobs, "asked", 2) == ["third", "second"]
    assert good_jobs(jobs, "other", 2) == []
