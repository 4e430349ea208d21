"""SIGKILL at each line: of who accepts a job, and of who begins or ends one that waits."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import trackside
from tests.jobs.conftest import make_jobs, make_spec, num_starts, run_to_end
from tests.wait import until
from trackside.jobs import pending_jobs
from trackside.jobs.jobs import Jobs
from trackside.jobs.queue import no_limit
from trackside.records import pending_uploads
from trackside.records.layout import Home
from trackside.records.status import Secondary, Status
from trackside.settings import Settings

SOURCE = Path(trackside.__file__).parent
ACCEPTING = ("jobs/submit.py",)
BEGINNING = ("jobs/pending_jobs.py", "jobs/start_supervisor.py")
ENDING = ("jobs/pending_jobs.py", "pending_uploads.py")


def kill_points(
    files: tuple[str, ...], act: Callable[[], None], distance: int = 1
) -> Iterator[int]:
    """Do it in a child that is killed before its first line in these files, then before its
    second or one at a greater distance, and so on. Ends when it came to its own end."""
    names = {str(SOURCE / file) for file in files}
    number = 1
    while _is_killed(names, act, number):
        yield number
        number += distance


def _is_killed(names: set[str], act: Callable[[], None], number: int) -> bool:
    pid = os.fork()
    if pid == 0:
        left = number

        def count(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal left
            if frame.f_code.co_filename not in names:
                return None
            if event == "line":
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)
            return count

        try:
            sys.settrace(count)
            act()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


each_or_some = pytest.mark.parametrize("distance", [3, pytest.param(1, marks=pytest.mark.nightly)])


def jobs_of(home: Home) -> list[str]:
    return [name for name in os.listdir(home.jobs) if name[0] != "."] if home.jobs.exists() else []


@each_or_some
def test_a_kill_while_accepting_leaves_nothing_or_a_job_that_starts(
    settings: Settings, distance: int
):
    curves = {"S3OutputPath": "s3://out/curves"}
    spec = make_spec(TensorBoardOutputConfig=curves)
    jobs = jobs_that_leave_at_once(settings, "first")

    def accept() -> None:
        jobs.enqueue(spec, key="K", who="team")

    seen = set()
    for number in kill_points(ACCEPTING, accept, distance):
        home = jobs.settings.layout
        found = jobs_of(home)
        seen.add(bool(found))
        if not found:
            accept()  # the name is free, and so are its places
        folder = home.job("job-1")
        begun = pending_jobs.begin(folder, home, jobs._launcher)
        assert begun is pending_jobs.Begun.YES, f"killed at line {number}"
        stored = home.buckets / "out/runs/job-1/trackside/job.json"
        assert stored.read_bytes() == folder.spec.read_bytes()
        jobs = jobs_that_leave_at_once(settings, f"after line {number}")
    assert seen == {False, True}
    assert jobs_of(jobs.settings.layout) == ["job-1"]


def jobs_that_leave_at_once(settings: Settings, home: str) -> Jobs:
    """Whose supervisors do: only that they are started is of interest."""
    environ = {"PATH": os.environ["PATH"]}
    changed = replace(settings, home=settings.home / home)
    return Jobs(changed, environ, supervisor_command=["true"])


@pytest.mark.usefixtures("home")
@each_or_some
def test_a_kill_while_beginning_costs_a_job_nothing(settings: Settings, distance: int):
    """A home for each line: a supervisor that came second may still look around in the last."""
    jobs = jobs_with_one_that_waits(settings, "whole")

    def begin() -> None:
        layout = jobs.settings.layout
        assert (
            pending_jobs.begin(layout.job("job-1"), layout, jobs._launcher)
            is pending_jobs.Begun.YES
        )

    for number in kill_points(BEGINNING, begin, distance):
        with jobs.scheduler(no_limit):
            jobs.reconcile()
            until(partial(has_begun, jobs))
            assert run_to_end(jobs).state.status is Status.COMPLETED, f"killed at line {number}"
        assert num_starts(jobs.settings.layout.job("job-1")) == 1, f"killed at line {number}"
        jobs = jobs_with_one_that_waits(settings, f"killed at {number}")
    assert run_to_end(jobs).state.status is Status.COMPLETED


def test_a_kill_while_ending_leaves_a_job_that_waits_or_an_end_that_is_stored(settings: Settings):
    jobs = jobs_with_one_that_waits(settings, "whole")

    def end() -> None:
        pending_jobs.end(jobs.settings.layout.job("job-1"), jobs.settings.layout, Secondary.STOPPED)

    seen = set()
    for number in kill_points(ENDING, end):
        jobs.reconcile()
        home = jobs.settings.layout
        state = jobs.record("job-1").history.state
        seen.add(state.secondary)
        if state.is_final:
            stored = home.buckets / "out/runs/job-1/trackside/journal.jsonl"
            assert stored.read_bytes() == home.job("job-1").journal.read_bytes(), number
            assert pending_uploads.noted(home) == [], f"killed at line {number}"
        jobs = jobs_with_one_that_waits(settings, f"killed at {number}")
    assert seen == {Secondary.PENDING, Secondary.STOPPED}


def has_begun(jobs: Jobs) -> bool:
    return not jobs.record("job-1").history.state.is_queued


def jobs_with_one_that_waits(settings: Settings, home: str) -> Jobs:
    jobs = make_jobs(replace(settings, home=settings.home / home))
    jobs.enqueue(make_spec(), key="K", who="team")
    return jobs
