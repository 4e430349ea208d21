"""How a job that waits ends without ever having begun; its store is real, and goes away."""

import json
from typing import Any

import pytest

from tests.conftest import environment_for
from tests.fault_proxy import Fault, FaultProxy
from tests.jobs.conftest import make_jobs, make_spec
from tests.rules.action.receivers import web_server
from tests.wait import until
from trackside.api.upkeep import Upkeep
from trackside.errors import ObjectNotFound
from trackside.jobs import pending_jobs, reconcile
from trackside.jobs.jobs import Jobs
from trackside.jobs.records import read_stored
from trackside.records import pending_uploads
from trackside.records.journal import Journal
from trackside.records.layout import Home, JobKeys
from trackside.records.rule_status import RuleStatus
from trackside.records.spec import JobSpec
from trackside.records.status import Secondary
from trackside.settings import Settings
from trackside.storage.locate import locate_object

RULE = {
    "RuleConfigurationName": "LossNotDecreasing",
    "RuleEvaluatorImage": "trackside",
    "RuleParameters": {"rule_to_invoke": "LossNotDecreasing"},
}


@pytest.fixture(autouse=True)
def store(
    embedded_buckets: None, faulty: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> FaultProxy:
    """`s3://` is a server behind a proxy. What was away is tried again at once."""
    monkeypatch.delenv("TRACKSIDE_S3")
    for name, value in environment_for(faulty.url).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(reconcile, "STORE_AWAY_SECONDS", 0.0)
    return faulty


def is_stored(jobs: Jobs, uri: str) -> bool:
    place = locate_object(uri, home=jobs.settings.home)
    try:
        place.store.stat(place.key)
    except ObjectNotFound:
        return False
    return True


def stopped_while_the_store_is_away(
    jobs: Jobs, store: FaultProxy, bucket: str, name: str = "job-1", **changes: Any
) -> JobSpec:
    spec = make_spec(name, OutputDataConfig={"S3OutputPath": f"s3://{bucket}/out"}, **changes)
    jobs.enqueue(spec, key="K", who="team")
    store.inject(Fault(times=10_000, status=503))
    assert jobs.stop(name).state.secondary is Secondary.STOPPED
    store.clear()
    assert not is_stored(jobs, JobKeys.of(spec).journal)
    return spec


def test_the_end_gets_to_storage_with_the_next_command(
    jobs: Jobs, home: Home, settings: Settings, store: FaultProxy, bucket: str
):
    spec = stopped_while_the_store_is_away(jobs, store, bucket)
    assert pending_uploads.noted(home) == ["job-1"]
    [row] = make_jobs(settings).list()  # another process's, as `trackside jobs`
    assert row.name == "job-1"
    stored = read_stored(JobKeys.of(spec), home)
    assert stored.history == Journal(home.job("job-1").journal).read()
    assert stored.spec == spec
    assert pending_uploads.noted(home) == []


def test_a_server_sends_it_by_itself(jobs: Jobs, home: Home, store: FaultProxy, bucket: str):
    spec = stopped_while_the_store_is_away(jobs, store, bucket)
    upkeep = Upkeep(jobs)
    upkeep.start()
    try:
        until(lambda: is_stored(jobs, JobKeys.of(spec).journal))
        until(lambda: not pending_uploads.noted(home))
    finally:
        upkeep.close(timeout=60)


def test_the_rules_of_such_a_job_end_too(jobs: Jobs, home: Home, store: FaultProxy, bucket: str):
    hook = {"S3OutputPath": f"s3://{bucket}/out"}
    rules: dict[str, Any] = {"DebugRuleConfigurations": [RULE], "DebugHookConfig": hook}
    spec = stopped_while_the_store_is_away(jobs, store, bucket, **rules)
    jobs.reconcile()
    assert is_stored(jobs, f"{JobKeys.of(spec).rules}/statuses.json")
    [rule] = jobs.evaluations_of(jobs.record("job-1"))
    assert (rule.status, rule.details) == (RuleStatus.STOPPED, "The job never started.")


def test_a_store_that_stays_away_is_asked_once_for_all_jobs(
    jobs: Jobs, home: Home, store: FaultProxy, bucket: str, monkeypatch: pytest.MonkeyPatch
):
    for number in range(3):
        stopped_while_the_store_is_away(jobs, store, bucket, f"job-{number}")
    monkeypatch.setattr(reconcile, "STORE_AWAY_SECONDS", 3600.0)
    store.inject(Fault(times=10_000, status=503))
    before = len(store.requests)
    jobs.reconcile()
    asked = {request.line for request in store.requests[before:]}
    assert len(asked) == 1
    assert len(pending_uploads.noted(home)) == 3


def test_one_that_begins_meanwhile_is_not_ended_and_loses_nothing(
    jobs: Jobs, home: Home, bucket: str, monkeypatch: pytest.MonkeyPatch
):
    """Who ends it has seen it wait; then its supervisor notes that there are files to keep."""
    spec = make_spec(OutputDataConfig={"S3OutputPath": f"s3://{bucket}/out"})
    jobs.enqueue(spec, key="K", who="team")
    folder = home.job("job-1")
    read = Journal.read

    def read_then_begun(journal: Journal) -> Any:
        history = read(journal)
        monkeypatch.setattr(Journal, "read", read)
        journal.move(Secondary.STARTING)
        pending_uploads.note(home, "job-1", keeps_files=True)
        return history

    monkeypatch.setattr(Journal, "read", read_then_begun)
    history = pending_jobs.end(folder, home, Secondary.STOPPED)
    assert history.state.secondary is Secondary.STARTING
    assert pending_uploads.keeps_files(home, "job-1") is True


def test_the_end_of_a_job_that_never_began_is_reported_to_whom_it_names(jobs: Jobs, bucket: str):
    with web_server() as hooks:
        output = {"S3OutputPath": f"s3://{bucket}/out"}
        wish = {"Notify": [f"webhook:{hooks.url}"]}
        jobs.enqueue(make_spec(OutputDataConfig=output, Trackside=wish), key="", who="")
        assert jobs.stop("job-1").state.secondary is Secondary.STOPPED
        rules = jobs.settings.layout.job("job-1").rules

        def is_notified() -> bool:
            jobs.reconcile()
            return rules.notified.exists() and not rules.evaluator.exists()

        until(is_notified)
        jobs.reconcile()
        assert "job-1" not in pending_uploads.noted(jobs.settings.layout)
        [(_, body)] = hooks.calls
    reported = json.loads(body)
    assert (reported["event"], reported["status"], reported["reason"]) == (
        "end",
        "Stopped",
        "Somebody stopped it.",
    )
