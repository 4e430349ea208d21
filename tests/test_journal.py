"""The journal: ordered, durable, one writer at a time, torn lines forgotten."""

import json
import multiprocessing
from pathlib import Path

import pytest

from trackside.errors import JobNotFound, MoveRefused
from trackside.journal import Journal
from trackside.status import Secondary, Status


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.open()
    return journal


def test_a_history_has_one_entry_per_status_and_the_ends_meet_the_starts(journal: Journal):
    journal.move(Secondary.DOWNLOADING)
    journal.say("Downloading input data: 3 of 9 files")
    journal.move(Secondary.TRAINING)
    journal.move(Secondary.UPLOADING)
    history = journal.move(Secondary.COMPLETED)
    assert [t.secondary for t in history.transitions] == [
        Secondary.STARTING,
        Secondary.DOWNLOADING,
        Secondary.TRAINING,
        Secondary.UPLOADING,
        Secondary.COMPLETED,
    ]
    for before, after in zip(history.transitions, history.transitions[1:], strict=False):
        assert before.end == after.start
    assert history.transitions[1].message == "Downloading input data: 3 of 9 files"
    assert history.transitions[-1].start == history.transitions[-1].end
    assert history == journal.read()


def test_a_failed_job_carries_its_reason(journal: Journal):
    history = journal.move(Secondary.FAILED, reason="AlgorithmError: no")
    assert history.state.status is Status.FAILED
    assert history.failure_reason == "AlgorithmError: no"


def test_a_final_status_stays_but_a_note_may_follow(journal: Journal):
    journal.move(Secondary.STOPPED)
    with pytest.raises(MoveRefused):
        journal.move(Secondary.FAILED, reason="late")
    assert journal.try_move(Secondary.COMPLETED).state.status is Status.STOPPED
    journal.say("never seen")
    journal.note("uploaded", size_bytes=3)
    history = journal.read()
    assert history.message == "Training job stopped"
    assert history.notes[0]["what"] == "uploaded"


def test_a_line_torn_by_a_crash_is_forgotten(journal: Journal):
    with journal.path.open("ab") as file:
        file.write(b'{"kind":"status","secondary":"Compl')
    assert journal.read().state.secondary is Secondary.STARTING
    journal.move(Secondary.DOWNLOADING)
    lines = journal.path.read_text().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [1, 2]


def test_a_clock_that_jumps_back_does_not_change_the_order(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
):
    before = journal.read().modified
    monkeypatch.setattr("trackside.journal.time.time", lambda: before - 86400)
    assert journal.move(Secondary.DOWNLOADING).modified >= before


def test_a_journal_that_is_not_there_is_an_unknown_job(tmp_path: Path):
    with pytest.raises(JobNotFound, match="no-such-job"):
        Journal(tmp_path / "no-such-job" / "journal.jsonl").read()


def test_a_copy_that_is_slow_to_store_does_not_lack_what_came_meanwhile(journal: Journal):
    journal.move(Secondary.STOPPED)
    copies: list[bytes] = []

    def put(data: bytes) -> None:
        if not copies:
            journal.note("tags", put={"team": "vision"})
        copies.append(data)

    journal.send(put)
    assert len(copies) == 2
    assert copies[-1] == journal.path.read_bytes()


def end_as(path: Path, move: Secondary, start: object) -> None:
    start.wait()  # type: ignore[attr-defined]
    for _ in range(20):
        Journal(path).try_move(move, reason=f"by {move}")


def test_racing_processes_agree_on_one_end(journal: Journal):
    context = multiprocessing.get_context("fork")
    start = context.Event()
    moves = [Secondary.STOPPED, Secondary.FAILED, Secondary.MAX_RUNTIME_EXCEEDED]
    racers = [context.Process(target=end_as, args=(journal.path, m, start)) for m in moves]
    for racer in racers:
        racer.start()
    start.set()
    for racer in racers:
        racer.join()
    events = [json.loads(line) for line in journal.path.read_text().splitlines()]
    assert [event["seq"] for event in events] == [1, 2]
    assert journal.read().state.is_final
