"""The one cause of a death follows from the evidence, and what is tried again from the cause."""

import pytest

from trackside.records.death import (
    MOST_OF_INFRASTRUCTURE,
    WORDS,
    Cause,
    Death,
    Evidence,
    Gone,
    MemoryKiller,
    cause_of,
    may_try_again,
)
from trackside.records.journal import RETRY, Journal
from trackside.records.status import Secondary

KILLER = MemoryKiller.KERNEL


@pytest.mark.parametrize(
    ("seen", "cause"),
    [
        (Evidence(exit_code=1), Cause.CODE),
        (Evidence(exit_code=-11), Cause.CODE),
        (Evidence(exit_code=-9), Cause.SIGNAL),
        (Evidence(exit_code=143), Cause.SIGNAL),
        (Evidence(exit_code=-9, memory=KILLER), Cause.OUT_OF_MEMORY),
        (Evidence(exit_code=1, memory=MemoryKiller.LIMIT), Cause.OUT_OF_MEMORY),
        (Evidence(memory=MemoryKiller.ENGINE), Cause.OUT_OF_MEMORY),
        (Evidence(exit_code=1, is_disk_full=True), Cause.DISK),
        (Evidence(exit_code=1, is_disk_full=True, memory=KILLER), Cause.OUT_OF_MEMORY),
        (Evidence(exit_code=-15, is_time_over=True), Cause.TIME_LIMIT),
        (Evidence(gone=Gone.MACHINE), Cause.NODE_LOST),
        (Evidence(gone=Gone.TAKEN, exit_code=-15), Cause.PREEMPTED),
        (Evidence(gone=Gone.ENGINE), Cause.ENGINE_GONE),
        (Evidence(gone=Gone.PROCESSES), Cause.SIGNAL),
        (Evidence(gone=Gone.MEMORY), Cause.OUT_OF_MEMORY),
        (Evidence(gone=Gone.RECORD), Cause.DEFECT),
        (Evidence(error="image"), Cause.IMAGE),
        (Evidence(error="container_refused"), Cause.IMAGE),
        (Evidence(error="image", exit_code=127), Cause.IMAGE),
        (Evidence(error="engine_gone"), Cause.ENGINE_GONE),
        (Evidence(error="store_unreachable"), Cause.STORE),
        (Evidence(error="disk_full"), Cause.DISK),
        (Evidence(error="store_unreachable", is_disk_full=True), Cause.DISK),
        (Evidence(error="input"), Cause.REQUEST),
        (Evidence(error="sandbox"), Cause.DEFECT),
        (Evidence(error="of a later version"), Cause.DEFECT),
        (Evidence(), Cause.DEFECT),
    ],
)
def test_one_cause_follows_from_the_evidence(seen: Evidence, cause: Cause):
    assert cause_of(seen) is cause


def test_there_are_twelve_and_each_has_words():
    assert len(Cause) == 12
    assert [*WORDS] == [*Cause]


@pytest.mark.parametrize(
    ("cause", "earlier", "most", "again"),
    [
        (Cause.SIGNAL, [], 1, False),
        (Cause.SIGNAL, [], 2, True),
        (Cause.SIGNAL, [Cause.SIGNAL], 2, False),
        (Cause.SIGNAL, [Cause.PREEMPTED, Cause.NODE_LOST, Cause.ENGINE_GONE], 2, True),
        (Cause.NODE_LOST, [], 1, False),
        (Cause.NODE_LOST, [Cause.SIGNAL, Cause.NODE_LOST], 2, True),
        (Cause.PREEMPTED, [Cause.SIGNAL], 1, True),
        (Cause.PREEMPTED, MOST_OF_INFRASTRUCTURE * [Cause.NODE_LOST], 2, False),
        (Cause.SIGNAL, MOST_OF_INFRASTRUCTURE * [Cause.NODE_LOST], 2, True),
    ],
)
def test_what_is_no_fault_of_the_job_does_not_use_up_its_retries(cause, earlier, most, again):
    deaths = [Death(cause=each, attempt=number) for number, each in enumerate(earlier, 1)]
    assert may_try_again(cause, deaths, most) is again


def test_the_journal_has_the_death_of_each_attempt(tmp_path):
    journal = Journal(tmp_path / "journal.jsonl")
    journal.open()
    lost = Death(cause=Cause.NODE_LOST, host="algo-2")
    for _ in range(2):  # by a successor again, who does not know whether it was
        journal.note(RETRY, attempt=1, reason="x", seconds=1.0, **lost.line)
    journal.note(RETRY, attempt=2, reason="of an earlier version", seconds=1.0)
    journal.try_move(Secondary.STARTING, attempt=3)
    journal.try_move(Secondary.RESTARTING)
    journal.try_move(Secondary.STARTING, attempt=3)
    last = Death(cause=Cause.OUT_OF_MEMORY, host="algo-1", memory=MemoryKiller.LIMIT)
    journal.try_move(Secondary.FAILED, reason="AlgorithmError: x", death=last)
    history = journal.read()
    assert [(each.attempt, each.cause) for each in history.earlier_deaths] == [
        (1, Cause.NODE_LOST),
        (2, Cause.SIGNAL),
    ]
    assert history.death == Death(
        cause=Cause.OUT_OF_MEMORY, host="algo-1", memory="limit", attempt=3
    )


def test_a_cause_of_a_later_version_is_no_damage(tmp_path):
    journal = Journal(tmp_path / "journal.jsonl")
    journal.open()
    journal.move(Secondary.FAILED, reason="x")
    line = (tmp_path / "journal.jsonl").read_text().replace('"reason"', '"cause":"new","reason"')
    (tmp_path / "journal.jsonl").write_text(line)
    history = journal.read()
    assert history.death is None
    assert history.num_damaged == 0
    assert history.failure_reason == "x"
