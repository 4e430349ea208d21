"""The journal: ordered, durable, one writer at a time, torn lines forgotten."""

import json
import multiprocessing
import time
from pathlib import Path

import pytest

from tests.suspended_writer import suspended_writer
from trackside.errors import DamagedJob, JobBusy, JobNotFound, MoveRefused
from trackside.records.journal import RETRY, Journal
from trackside.records.layout import FORMAT
from trackside.records.status import Secondary, Status


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


def test_the_first_line_has_the_format_of_the_job_s_folder(journal: Journal):
    first, *_ = journal.path.read_text().splitlines()
    assert json.loads(first)["format"] == FORMAT
    assert journal.move(Secondary.DOWNLOADING).format == FORMAT
    assert '"format"' not in journal.path.read_text().splitlines()[1]


def test_a_journal_from_before_there_was_a_format_is_of_the_first(journal: Journal):
    old = journal.path.read_text().replace(f',"format":{FORMAT}', "")
    assert "format" not in old
    journal.path.write_text(old)
    assert journal.read().format == 1


def test_a_later_format_is_refused_with_the_way_out(journal: Journal):
    later = journal.path.read_text().replace(f'"format":{FORMAT}', f'"format":{FORMAT + 1}')
    journal.path.write_text(later)
    with pytest.raises(DamagedJob, match=rf"of format {FORMAT + 1}, .* install a newer one"):
        journal.read()


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


DAMAGED = {
    "list": b"[1]",
    "rubbish": b"\x00\xff\x00",
    "nothing": b"",
    "deep": b"[" * 100_000,
    "digits": b'{"kind":"status","seq":' + b"2" * 5000 + b"}",
    "no time": b'{"kind":"status","secondary":"Downloading","seq":2}',
    "no clock's time": b'{"kind":"status","secondary":"Downloading","seq":2,"time":NaN}',
    "year 33658": b'{"kind":"status","secondary":"Downloading","seq":2,"time":1e12}',
    "no status": b'{"kind":"status","secondary":"Happy","seq":2,"time":1.0}',
    "attempts": b'{"kind":"status","secondary":"Stopped","seq":2,"time":1,"attempt":100000000000}',
    "message": b'{"kind":"message","message":["x"],"seq":2,"time":1.0}',
    "note": b'{"kind":"note","seq":2,"time":1.0}',
    "submitted": b'{"kind":"note","what":"submitted","who":[],"seq":2,"time":1.0}',
    "number": b'{"kind":"note","what":"x","seq":9000000000000000000,"time":1.0}',
}


def damage_line(journal: Journal, place: int, damaged: bytes) -> None:
    lines = journal.path.read_bytes().split(b"\n")
    lines[place] = damaged
    journal.path.write_bytes(b"\n".join(lines))


@pytest.mark.parametrize("damaged", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_line_is_skipped_and_counted_and_the_later_ones_count(
    journal: Journal, caplog: pytest.LogCaptureFixture, damaged: bytes
):
    for move in (Secondary.DOWNLOADING, Secondary.TRAINING, Secondary.UPLOADING):
        journal.move(move)
    damage_line(journal, 1, damaged)
    for _ in range(2):
        history = journal.read()
    assert history.num_damaged == 1
    assert [t.secondary for t in history.transitions] == [
        Secondary.STARTING,
        Secondary.TRAINING,
        Secondary.UPLOADING,
    ]
    assert caplog.messages == [f"{journal.path} is damaged: 1 damaged line was skipped."]
    assert journal.move(Secondary.COMPLETED).state.status is Status.COMPLETED
    assert journal.read().state.status is Status.COMPLETED


@pytest.mark.parametrize("kept", [1, 2], ids=["last", "before a note"])
def test_the_next_writer_continues_after_what_was_lost(journal: Journal, kept: int):
    journal.move(Secondary.DOWNLOADING)
    if kept == 2:
        journal.note("seen")
    damage_line(journal, 1, b"[1]")
    assert journal.try_move(Secondary.TRAINING).state.secondary is Secondary.TRAINING
    journal.move(Secondary.UPLOADING)
    history = journal.read()
    assert (history.state.secondary, history.num_damaged) == (Secondary.UPLOADING, 1)


def test_without_its_first_line_a_job_began_with_the_next(journal: Journal):
    journal.note("submitted", who="me", key="k")
    journal.move(Secondary.DOWNLOADING)
    damage_line(journal, 0, b"[1]")
    history = journal.read()
    assert [t.secondary for t in history.transitions] == ["Starting", "Downloading"]
    assert (history.num_damaged, len(history.notes)) == (1, 1)


def test_a_damaged_last_line_leaves_the_job_where_it_stood_and_it_goes_on(journal: Journal):
    journal.move(Secondary.DOWNLOADING)
    journal.move(Secondary.STOPPED)
    damage_line(journal, 2, b'{"kind":"sta\xfftus"}')
    assert journal.read().state.secondary is Secondary.DOWNLOADING
    journal.move(Secondary.FAILED, reason="AlgorithmError: no")
    history = journal.read()
    assert (history.state.status, history.num_damaged) == (Status.FAILED, 1)


@pytest.mark.parametrize(
    "line",
    [
        b'{"kind":"status","secondary":"Training","seq":3,"time":1.0}',
        b'{"kind":"status","secondary":"Completed","seq":99,"time":1.0}',
    ],
)
def test_nothing_that_stands_behind_a_final_status_changes_it(journal: Journal, line: bytes):
    journal.move(Secondary.STOPPED)
    with journal.path.open("ab") as file:
        file.write(line + b"\n")
    history = journal.read()
    assert (history.state.status, history.num_damaged) == (Status.STOPPED, 1)


def test_a_move_that_could_not_follow_is_skipped_unless_lines_are_missing(journal: Journal):
    with journal.path.open("ab") as file:
        file.write(b'{"kind":"status","secondary":"Completed","seq":2,"time":1.0}\n')
    assert journal.read().state.secondary is Secondary.STARTING
    assert journal.read().num_damaged == 1


def test_a_line_that_comes_twice_counts_once(journal: Journal):
    journal.move(Secondary.DOWNLOADING)
    first, second, _ = journal.path.read_bytes().split(b"\n")
    journal.path.write_bytes(b"\n".join([first, second, second, first, b""]))
    history = journal.read()
    assert [t.secondary for t in history.transitions] == ["Starting", "Downloading"]
    assert history.num_damaged == 2


@pytest.mark.parametrize("content", [b"[1]\n", b"\xff\n[1]\n", b""])
def test_a_journal_without_a_readable_line_names_which_file_it_is(journal: Journal, content: bytes):
    journal.path.write_bytes(content)
    for ask in (journal.read, lambda: journal.try_move(Secondary.STOPPED)):
        with pytest.raises(DamagedJob) as caught:
            ask()
        assert repr(str(journal.path)) in str(caught.value)


def test_a_clock_that_jumps_back_does_not_change_the_order(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
):
    before = journal.read().modified
    monkeypatch.setattr("trackside.records.journal.time.time", lambda: before - 86400)
    assert journal.move(Secondary.DOWNLOADING).modified >= before


def test_a_clock_that_jumps_back_after_a_note_does_not_change_the_order(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
):
    now = time.time()
    monkeypatch.setattr("trackside.records.journal.time.time", lambda: now + 86400)
    journal.note("tags")
    monkeypatch.setattr("trackside.records.journal.time.time", lambda: now)
    journal.move(Secondary.DOWNLOADING)
    times = [json.loads(line)["time"] for line in journal.path.read_bytes().splitlines()]
    assert times == sorted(times)


def test_an_attempt_whose_end_is_noted_twice_counts_once(journal: Journal):
    """Whoever noted it died before the next attempt began; the next supervisor notes it again."""
    journal.note(RETRY, attempt=1, seconds=20.0)
    journal.note(RETRY, attempt=1, seconds=25.0)
    journal.note(RETRY, attempt=2, seconds=3.0)
    assert journal.read().earlier_seconds == 23.0


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


def test_a_suspended_process_that_keeps_the_lock_is_named(journal: Journal):
    with suspended_writer(journal.path) as pid:
        impatient = Journal(journal.path, lock_seconds=0.05)
        with pytest.raises(JobBusy, match=f"process {pid} has held the lock.*kill -CONT {pid}`"):
            impatient.try_move(Secondary.STOPPING)
        assert journal.read().state.status is Status.IN_PROGRESS
    assert impatient.try_move(Secondary.STOPPING).state.status is Status.STOPPING
