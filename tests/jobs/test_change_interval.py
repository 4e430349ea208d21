"""Pauses of a process that follows a job: they end with a change, where it is reported."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trackside.jobs import change_interval
from trackside.jobs.change_interval import ChangeInterval

FAR_SECONDS = 600.0


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.touch()
    return path


@pytest.fixture
def interval(log: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChangeInterval]:
    """One that waits for changes already."""
    monkeypatch.setattr(change_interval, "QUIET_SECONDS", 0.0)
    made = ChangeInterval(0.001, FAR_SECONDS, lambda: [str(log), f"{log}.late"])
    made.wait(has_changed=False)
    made.wait(has_changed=True)
    yield made
    made.close()


def append(log: Path) -> None:
    with log.open("a") as file:
        file.write("line\n")


def test_a_change_ends_a_pause_during_it_or_before(interval: ChangeInterval, log: Path):
    append(log)
    interval.wait(has_changed=False)
    interval.wait(has_changed=False)  # short: the line may not be finished
    with ThreadPoolExecutor() as pool:
        pause = pool.submit(interval.wait, has_changed=False)
        append(log)
        pause.result()


def test_a_pause_is_short_when_something_is_about_to_change(interval: ChangeInterval):
    interval.wait(has_changed=False, is_soon=True)
    interval.wait(has_changed=False, most=0.001)


def test_a_file_that_comes_later_is_watched_from_the_next_change_on(
    interval: ChangeInterval, log: Path
):
    late = log.with_name("log.late")
    append(late)
    interval.wait(has_changed=True)  # not reported, for the file is new
    append(late)
    interval.wait(has_changed=False)


def test_changes_that_are_not_reported_are_polled_for(interval: ChangeInterval, log: Path):
    append(log)
    interval.wait(has_changed=False)
    for _ in range(2):  # the first was reported
        interval.wait(has_changed=True)
    for _ in range(3):
        interval.wait(has_changed=False)  # short, or the test would not end


def test_without_inotify_changes_are_polled_for(log: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(change_interval, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr("trackside.system.file_changes.libc", object())
    interval = ChangeInterval(0.001, FAR_SECONDS, lambda: [str(log)])
    for _ in range(3):
        interval.wait(has_changed=False)
    interval.close()


def test_a_job_that_changes_often_is_polled(log: Path):
    interval = ChangeInterval(0.001, FAR_SECONDS, lambda: [str(log)])
    for _ in range(10):
        interval.wait(has_changed=True)
    assert interval._changes is None
