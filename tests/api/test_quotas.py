"""Quotas: who keeps too much loses what may go, and is refused while the rest is too much."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import Server
from tests.api.training import ended, refused, request
from tests.jobs.conftest import is_training
from tests.jobs.test_garbage_collection import fill
from tests.wait import until
from trackside.api import quotas
from trackside.api.keys import Rights
from trackside.errors import ERROR_HEADER
from trackside.jobs import retention
from trackside.jobs.jobs import Jobs

MB = 1_000_000
Owned = Callable[..., Any]


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds follow each other, and no figure is old."""
    monkeypatch.setattr(quotas, "_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(quotas, "_LEAST_REST", 0.0)
    monkeypatch.setattr(quotas, "FRESH_SECONDS", 0.0)


@pytest.fixture
def client_of(service: Server) -> Owned:
    def made(label: str, quota_bytes: int | None = None) -> Any:
        key, secret = service.keys.create(label, Rights.SUBMIT, quota_bytes=quota_bytes)
        changed = {"aws_access_key_id": key.id, "aws_secret_access_key": secret}
        return service.client("sagemaker", **changed)

    return made


def finished(client: Any, jobs: Jobs, name: str, num_bytes: int) -> Path:
    """The file of a job that has ended."""
    client.create_training_job(**request(name))
    ended(client, name)
    return fill(jobs.settings.layout.buckets / f"out/runs/{name}/output/large", num_bytes)


def holding(client: Any, jobs: Jobs, name: str, num_bytes: int) -> Path:
    """The file of a job that runs until it is released."""
    client.create_training_job(**request(name, hyper={"hold": "1"}))
    until(lambda: is_training(jobs, name))
    return fill(jobs.settings.layout.job(name).root / "large", num_bytes)


def is_refused(client: Any, name: str) -> str:
    try:
        code, text = refused(client.create_training_job, **request(name))
    except pytest.fail.Exception:  # it was accepted: not yet measured
        ended(client, name)
        client.delete_training_job(TrainingJobName=name)
        return ""
    assert code == "ResourceLimitExceeded"
    return text


def test_only_the_owners_oldest_data_is_removed(
    jobs: Jobs, client_of: Owned, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(retention, "QUOTA_KEEPS_SECONDS", 0.0)
    alice, bob = client_of("alice", 2 * MB), client_of("bob")
    others = finished(bob, jobs, "bob-1", 3 * MB)
    oldest = finished(alice, jobs, "alice-1", MB)
    newest = finished(alice, jobs, "alice-2", 3 * MB // 2)
    until(lambda: not oldest.exists())
    alice.create_training_job(**request("alice-3"))
    ended(alice, "alice-3")
    assert newest.exists()
    assert others.exists()
    assert ended(alice, "alice-1")["TrainingJobStatus"] == "Completed"


def test_a_running_job_continues_and_the_next_is_refused(jobs: Jobs, client_of: Owned):
    alice = client_of("alice", 2 * MB)
    large = holding(alice, jobs, "alice-1", 3 * MB)
    text = until(lambda: is_refused(alice, "alice-2"))
    assert "'alice'" in text
    assert "keep 0.003 GB" in text
    assert "quota of 0.002 GB" in text
    assert "trackside delete --data" in text
    assert is_training(jobs, "alice-1")
    assert large.exists()
    code, _ = refused(alice.create_training_job, **request("alice-1"))
    assert code == "ResourceInUse"  # a retry gets the same error
    client_of("bob").create_training_job(**request("bob-1"))
    large.unlink()
    alice.create_training_job(**request("alice-2"))  # measured again before it is refused
    (jobs.settings.layout.job("alice-1").root / "release").touch()
    for name in ("alice-1", "alice-2", "bob-1"):
        ended(alice, name)


def test_data_of_the_last_day_stays_and_new_jobs_are_refused(jobs: Jobs, client_of: Owned):
    alice = client_of("alice", MB)
    newest = finished(alice, jobs, "alice-1", 2 * MB)
    until(lambda: is_refused(alice, "alice-2"))
    assert newest.exists()
    alice.delete_training_job(TrainingJobName="alice-1")  # its data has no owner now
    alice.create_training_job(**request("alice-2"))
    ended(alice, "alice-2")


def test_a_quota_set_while_the_server_runs_counts(
    jobs: Jobs, service: Server, client_of: Owned, monkeypatch: pytest.MonkeyPatch
):
    alice = client_of("alice")
    large = holding(alice, jobs, "alice-1", 3 * MB)
    [key] = [key for key in service.keys.all() if key.label == "alice"]
    service.keys.set_quota(key.id, MB)
    second = client_of("alice")  # a key without a quota does not lift it
    until(lambda: is_refused(second, "alice-2"))
    service.keys.set_quota(key.id, None)
    second.create_training_job(**request("alice-2"))
    (large.parent / "release").touch()
    for name in ("alice-1", "alice-2"):
        ended(alice, name)


def test_our_own_clients_learn_which_error_it_is(jobs: Jobs, client_of: Owned):
    alice = client_of("alice", MB)
    large = holding(alice, jobs, "alice-1", 2 * MB)
    seen: list[str] = []

    def note(http_response: Any, **given: Any) -> None:
        seen.append(http_response.headers.get(ERROR_HEADER, ""))

    alice.meta.events.register("after-call.sagemaker.CreateTrainingJob", note)
    until(lambda: is_refused(alice, "alice-2"))
    assert seen[-1] == "quota_exceeded"
    (large.parent / "release").touch()
    ended(alice, "alice-1")
