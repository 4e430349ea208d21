"""Two jobs never mix their event files: the second is refused, with the first one's name."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest

from tests.job_processes import end_processes_of
from tests.jobs.conftest import (
    identity_at,
    is_training,
    kill_supervisor,
    make_jobs,
    make_spec,
    run_to_end,
)
from tests.wait import until
from trackside.errors import AccessRefused, CurvesTaken, StorageError
from trackside.jobs import curve_claims
from trackside.jobs.jobs import Jobs
from trackside.records.layout import Home
from trackside.records.spec import JobSpec
from trackside.records.status import Status
from trackside.settings import Settings


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A TensorBoard location that several homes write to."""
    return tmp_path / "shared"


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Jobs]:
    """Another home, as of another person or machine: the same words, other embedded buckets."""
    settings = Settings.load({"TRACKSIDE_HOME": str(tmp_path / "other")})
    yield make_jobs(settings)
    end_processes_of(settings.home)


def a_spec(place: Path | str, name: str = "job-1", **changes: Any) -> JobSpec:
    return make_spec(name, TensorBoardOutputConfig={"S3OutputPath": str(place)}, **changes)


def claims(place: Path) -> list[Path]:
    return sorted(place.rglob("trackside-claim-*.json"))


def test_a_job_of_the_same_name_elsewhere_is_refused_with_both_names(
    jobs: Jobs, other: Jobs, shared: Path
):
    jobs.submit(a_spec(shared))
    with pytest.raises(CurvesTaken) as caught:
        other.submit(a_spec(f"{shared}/"))
    assert caught.value.owner == "job-1"
    assert "event files of job 'job-1' would be stored in" in str(caught.value)
    output = jobs.settings.home / "buckets" / "out" / "runs" / "job-1"
    assert f"those of job 'job-1' (output \"{gethostname()}:{output}\")" in str(caught.value)
    assert not (other.settings.layout.jobs / "job-1").exists()
    run_to_end(jobs)
    with pytest.raises(CurvesTaken):  # when it has ended it is still its own
        other.submit(a_spec(shared))
    other.submit(a_spec(shared, "job-2"))
    assert len(claims(shared)) == 2


def test_a_location_inside_another_job_s_is_refused(jobs: Jobs, shared: Path):
    jobs.submit(a_spec(shared))
    inside = shared / "job-1" / "tensorboard-output"
    with pytest.raises(CurvesTaken, match="'job-2' would be stored in .* those of job 'job-1'"):
        jobs.submit(a_spec(inside, "job-2"))
    assert len(claims(shared)) == 1


def test_event_files_that_nobody_claims_are_not_mixed_either(jobs: Jobs, home: Home, shared: Path):
    run = shared / "job-1" / "tensorboard-output" / "train"
    run.mkdir(parents=True)
    (run / "notes.txt").write_text("no event file")
    (run / "events.out.tfevents.1.host").write_bytes(b"")
    with pytest.raises(CurvesTaken, match="where others are"):
        jobs.submit(a_spec(shared))
    assert not home.job("job-1").root.exists()
    assert claims(shared) == []
    (run / "events.out.tfevents.1.host").unlink()
    jobs.submit(a_spec(shared))


def test_a_revival_is_the_same_job_s_even_when_it_has_written_already(
    jobs: Jobs, home: Home, shared: Path
):
    jobs.submit(a_spec(shared, hyper={"hold": "yes"}))
    folder = home.job("job-1")
    until(lambda: is_training(jobs, "job-1"))
    place = shared / "job-1" / "tensorboard-output"
    place.mkdir()
    (place / "1.tfevents.1").write_bytes(b"")
    killed = kill_supervisor(folder)
    jobs.reconcile("job-1")
    until(lambda: identity_at(folder.host("algo-1", 1).supervisor) != killed)
    (folder.root / "release").touch()
    assert run_to_end(jobs).state.status is Status.COMPLETED
    assert len(claims(shared)) == 1


def test_a_job_whose_submitter_died_is_started_only_if_nobody_has_come_between(
    jobs: Jobs, home: Home, other: Jobs, shared: Path, monkeypatch: pytest.MonkeyPatch
):
    def die(*_: object) -> None:
        raise KeyboardInterrupt  # and, below, nothing is cleaned up

    with monkeypatch.context() as patch:
        patch.setattr("trackside.jobs.submit.curve_claims.claim", die)
        patch.setattr("trackside.jobs.submit.withdraw", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            jobs.submit(a_spec(shared))
    other.submit(a_spec(shared))
    jobs.reconcile("job-1")
    assert not home.job("job-1").root.exists()
    assert len(claims(shared)) == 1


def test_a_submission_that_fails_leaves_no_claim(
    jobs: Jobs, home: Home, shared: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object) -> None:
        raise AccessRefused("not today")

    monkeypatch.setattr("trackside.jobs.submit.publish_spec", refuse)
    with pytest.raises(StorageError, match="not today"):
        jobs.submit(a_spec(shared))
    assert claims(shared) == []
    assert not home.job("job-1").root.exists()


def test_a_claim_that_a_killed_submitter_left_holds_up_nobody_but_others(
    jobs: Jobs, home: Home, other: Jobs, shared: Path
):
    curve_claims.claim(a_spec(shared), home)
    with pytest.raises(CurvesTaken):
        other.submit(a_spec(shared))
    jobs.submit(a_spec(shared))
    [claim] = claims(shared)
    assert json.loads(claim.read_bytes())["job"] == "job-1"


def test_of_many_that_submit_at_once_one_at_most_succeeds(tmp_path: Path, shared: Path):
    """Each from a home of its own, so that only the claims stand between them."""
    homes = [Home(tmp_path / f"home-{number}") for number in range(8)]
    barrier = threading.Barrier(len(homes))
    won: list[Home] = []

    def submit(home: Home) -> None:
        barrier.wait()
        try:
            curve_claims.check_free(a_spec(shared), home)
            curve_claims.claim(a_spec(shared), home)
        except CurvesTaken:
            return
        won.append(home)

    for _ in range(10):
        won.clear()
        threads = [threading.Thread(target=submit, args=(home,)) for home in homes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) <= 1
        assert len(claims(shared)) == len(won)
        for claim in claims(shared):
            claim.unlink()
