"""Why a job was stopped is told from its journal, and so is the same to everybody."""

from pathlib import Path

import pytest

from trackside.errors import JobStopped
from trackside.jobs.end_reason import stopped
from trackside.records.journal import Journal
from trackside.records.spec import Stopping
from trackside.records.status import Secondary, StopCause


def ended(tmp_path: Path, *moves: tuple[Secondary, str]) -> JobStopped | None:
    journal = Journal(tmp_path / "journal")
    journal.open()
    for move, rule in moves:
        journal.move(move) if not rule else journal.try_move(move, rule=rule)
    return stopped("job-1", journal.read(), Stopping(max_runtime_seconds=60))


@pytest.mark.parametrize(
    ("moves", "cause", "reason"),
    [
        (
            [(Secondary.STOPPING, "Overfit"), (Secondary.STOPPED, "")],
            StopCause.RULE,
            "the rule 'Overfit' stopped it.",
        ),
        (
            [(Secondary.MAX_RUNTIME_EXCEEDED, "")],
            StopCause.TIME_LIMIT,
            "it reached its time limit of 60 s and was stopped.",
        ),
        (
            [(Secondary.PENDING, ""), (Secondary.MAX_WAIT_EXCEEDED, "")],
            StopCause.TIME_LIMIT,
            "it waited longer than it was allowed to.",
        ),
        (
            [(Secondary.STOPPING, ""), (Secondary.STOPPED, "")],
            StopCause.SOMEBODY,
            "somebody stopped it.",
        ),
    ],
)
def test_each_cause_is_reported(tmp_path: Path, moves, cause: StopCause, reason: str):
    error = ended(tmp_path, *moves)
    assert error is not None
    assert (error.cause, error.reason) == (cause, reason)


def test_what_was_made_is_named_where_something_ran(tmp_path: Path):
    error = ended(tmp_path, (Secondary.DOWNLOADING, ""), (Secondary.MAX_RUNTIME_EXCEEDED, ""))
    assert error is not None
    assert str(error).endswith("What it had made by then is stored.")


@pytest.mark.parametrize("end", [Secondary.FAILED, Secondary.TRAINING])
def test_of_other_jobs_there_is_nothing_to_tell(tmp_path: Path, end: Secondary):
    assert ended(tmp_path, (Secondary.DOWNLOADING, ""), (end, "")) is None


def test_the_first_who_stops_it_is_named(tmp_path: Path):
    journal = Journal(tmp_path / "journal")
    journal.open()
    journal.move(Secondary.STOPPING)
    journal.try_move(Secondary.STOPPING, rule="Overfit")
    journal.move(Secondary.STOPPED)
    error = stopped("job-1", journal.read(), Stopping())
    assert error is not None
    assert error.cause == StopCause.SOMEBODY
