"""Which rank died, how and where, from what all of them and their launcher wrote; and silence where
all end alike."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.rules.checkup.test_hang import C10D, standing, waiting
from trackside.capture.reading.hang_files import Place, Standing
from trackside.records.finding import Finding
from trackside.rules.checkup.diagnosis import diagnose
from trackside.rules.checkup.rank_death import RankDied, died_first, message_of
from trackside.storage.locate import locate

CLOSED = "RuntimeError: Connection closed by peer [127.0.0.1]:4711"
KILLED, SEGMENT, ENDED = -9, -11, -15


def ended(rank: int, code: int | None, error: str = "", at: float = 100.0) -> Standing:
    here = waiting(40 + rank, "", Place(C10D, 83, "wrapper"), Place(C10D, 3252, "all_reduce"))
    state = standing(rank, here if error else waiting(0, ""), "ended" if error else "runs", 3)
    return replace(state, error=error, exit_code=code, exit_time=at)


def first(*group: Standing) -> int | None:
    found = died_first(group)
    return None if found is None else found.rank


def test_a_rank_that_is_killed():
    group = [ended(0, 1, CLOSED), ended(1, KILLED), ended(2, ENDED, at=100.4)]
    assert first(*group) == 1
    said = message_of(group[1], [group[0], group[2]])
    assert "Rank 1 on algo-1 was ended by SIGKILL (signal 9)" in said
    assert "in step 41" in said
    assert "rank 0 waited in all_reduce at train.py:40 and failed (RuntimeError: Conn" in said
    assert "rank 2 then ended by the launcher" in said


@pytest.mark.parametrize(
    ("group", "rank"),
    [
        ([ended(0, 1, CLOSED), ended(1, 1, "KeyError: 7"), ended(2, ENDED)], 1),
        ([ended(0, ENDED), ended(1, ENDED), ended(2, 3)], 2),
        ([ended(0, None, CLOSED), ended(1, None, "KeyError: 7")], 1),
        ([ended(0, None, CLOSED), ended(2, SEGMENT)], 2),
    ],
)
def test_the_one_whose_end_is_its_own(group, rank):
    assert first(*group) == rank


@pytest.mark.parametrize(
    "group",
    [
        [],
        [ended(0, None), ended(1, None), ended(2, None)],
        [ended(0, ENDED), ended(1, ENDED), ended(2, ENDED)],
        [ended(0, KILLED), ended(1, KILLED), ended(2, KILLED)],
        [ended(rank, 1, "ValueError: shapes") for rank in range(3)],
        [ended(0, ENDED, at=100.0), ended(1, ENDED, at=100.0), ended(2, KILLED, at=130.0)],
        [ended(0, 1, CLOSED), ended(1, 1, CLOSED), ended(2, ENDED)],
    ],
    ids=["none", "well", "stopped", "killed", "one error", "stopped by force", "no cause"],
)
def test_nobody_in_particular(group):
    assert first(*group) is None


def written(folder: Path, pid: int, **facts: object) -> None:
    place = folder / "hangs"
    place.mkdir(exist_ok=True)
    content = {"pid": pid, "num_workers": 2, "time": 1.0, "state": "runs", "step": 3, **facts}
    (place / f"algo-1-{pid}.json").write_text(json.dumps(content))


def found(rule: RankDied, folder: Path) -> list[Finding]:
    return list(rule.check_before_start(locate(str(folder), home=folder)))


def test_files_of_processes_become_one_finding(tmp_path: Path):
    rule, hangs = RankDied(), tmp_path / "hangs"
    written(tmp_path, 10, rank=0)
    written(tmp_path, 11, rank=1)
    (hangs / "algo-1-11.step").write_bytes((57).to_bytes(8, "little"))
    (hangs / "algo-1-11.fatal").write_text(
        "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n"
        '  File "/opt/ml/code/train.py", line 33 in train\n'
    )
    assert found(rule, tmp_path) == []
    (hangs / "algo-1-11.exit").write_text('{"code": -11, "time": 5.0}')
    assert found(rule, tmp_path) == [], "the other one is not done yet"
    (hangs / "algo-1-10.exit").write_text('{"code": -15, "time": 5.2}')
    (reported,) = found(rule, tmp_path)
    assert (reported.step, reported.worker, reported.subject) == (57, "worker_1", "train.py:33")
    assert "SIGSEGV" in reported.message
    assert found(rule, tmp_path) == []
    hang = Finding(rule="Hang", message="Nothing has happened.", step=57)
    (diagnosis,) = diagnose([hang, reported])
    assert (diagnosis.cause, diagnosis.confidence) == ("RankDied", "certain")


def test_damaged_files_are_left_out(tmp_path: Path):
    written(tmp_path, 10, rank=0)
    (tmp_path / "hangs" / "algo-1-10.exit").write_text("{")
    (tmp_path / "hangs" / "algo-1-12.exit").write_text('{"code": -9, "time": 1.0}')
    assert found(RankDied(), tmp_path) == []
