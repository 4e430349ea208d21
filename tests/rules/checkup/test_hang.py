"""Who hangs, who is to blame and at which line, from where each process stands; and silence while
any of them may be alive."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from trackside.capture.reading.hang_files import (
    Collective,
    Place,
    Standing,
    Waiting,
    read_standings,
)
from trackside.capture.reading.trial_folder import TrialFolder
from trackside.rules.checkup.diagnosis import diagnose
from trackside.rules.checkup.hang import Hang
from trackside.rules.checkup.hang_text import Hung, hung
from trackside.storage.locate import locate

C10D = "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"


def waiting(line: int, waits: str, *inner: Place, function: str = "train") -> Waiting:
    script = Place("/opt/ml/code/train.py", line, function)
    return Waiting("MainThread", waits, script, (script, *inner))


def in_call(line: int, name: str) -> Waiting:
    return waiting(line, "collective", Place(C10D, 3252, name))


def standing(rank: int, here: Waiting, state: str = "still", workers: int = 2) -> Standing:
    return Standing(
        process=f"algo-1-{rank + 10}",
        rank=rank,
        num_workers=workers,
        state=state,
        step=41,
        steps=42,
        time=100.0,
        quiet=12.0,
        limit=10.0,
        here=here,
        pid=rank + 10,
        parent=1,
        host="algo-1",
    )


def named(*standings: Standing) -> Hung:
    found = hung(standings)
    assert found is not None
    return found


def test_ranks_that_wait_together_and_the_one_that_never_came():
    waits = [standing(rank, in_call(41, "all_reduce"), workers=4) for rank in range(3)]
    saves = standing(3, waiting(55, "sleep", function="save_checkpoint"), workers=4)
    found = named(*waits, saves)
    assert (found.rank, found.place, found.cause) == (3, "train.py:55", "sleep")
    assert found.message == (
        "Nothing has happened for 12 s since step 41: ranks 0-2 wait in all_reduce at train.py:41; "
        "rank 3 never came: it is at train.py:55 in save_checkpoint and sleeps, again and again or "
        "for very long."
    )


def test_collectives_of_different_kinds_are_told_apart_by_the_flight_recorder():
    pairs = [("broadcast", 47), ("all_reduce", 48)]
    first, second = (
        replace(
            standing(rank, in_call(10 + rank, name)),
            collectives=(Collective("0", number, False, name, "[[4]]"),),
        )
        for rank, (name, number) in enumerate(pairs)
    )
    message = named(first, second).message
    assert "rank 0 waits in broadcast at train.py:10; rank 1 waits in all_reduce" in message
    assert "different collectives (rank 0 broadcast no. 47, rank 1 all_reduce no. 48)" in message


@pytest.mark.parametrize("state", ["busy", "runs"])
def test_a_process_that_may_be_alive_means_silence(state: str):
    alive = replace(standing(1, waiting(9, "")), state=state, time=90.0)
    assert hung([standing(0, in_call(41, "barrier")), alive]) is None


def test_a_rank_that_has_not_written_yet_is_waited_for():
    one = standing(0, in_call(41, "barrier"))
    assert hung([one]) is None
    assert hung([replace(one, quiet=21.0)]) is not None


def test_a_rank_that_shows_nothing_long_after_the_limit_has_died():
    gone = replace(standing(1, waiting(9, "")), state="runs", time=50.0)
    found = named(replace(standing(0, in_call(41, "barrier")), quiet=25.0), gone)
    assert found.rank == 1
    assert "rank 1 shows no sign of life: it has died" in found.message
    ended = replace(gone, state="ended")
    assert "rank 1 has ended" in named(standing(0, in_call(41, "barrier")), ended).message


def test_a_restarted_rank_replaces_the_one_before_it():
    old = standing(0, in_call(41, "barrier"), workers=2)
    new = replace(old, process="algo-1-90", state="runs", time=200.0)
    other = replace(standing(1, waiting(9, "lock")), time=150.0)
    assert hung([old, new, other]) is None


def test_of_a_data_loader_the_line_of_its_worker_is_named():
    loop = Place("/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", 300, "loop")
    inside = Place("/opt/ml/code/train.py", 33, "__getitem__")
    idle = Waiting("python", "poll", None, (loop,))
    blocked = Waiting("python", "lock", inside, (loop, inside))
    main = waiting(50, "data loader")
    found = named(replace(standing(0, main, workers=1), rank=None, workers=(idle, blocked)))
    assert found.place == "train.py:33"
    assert "whose worker is at train.py:33 and waits for a lock" in found.message


def test_before_the_first_step_a_launcher_is_no_part_of_it():
    script = replace(standing(0, waiting(7, "lock"), workers=1), rank=None, steps=0, step=-1)
    launcher = replace(script, process="algo-1-1", pid=1, parent=0, here=waiting(1, "sleep"))
    found = named(script, launcher)
    assert found.place == "train.py:7"
    assert "before the first step" in found.message


def write(folder: Path, name: str, **facts: object) -> None:
    (folder / "hangs").mkdir(exist_ok=True)
    (folder / "hangs" / name).write_text(json.dumps(facts))


FACTS = {
    "state": "still",
    "rank": None,
    "num_workers": 1,
    "step": 3,
    "steps": 4,
    "time": 5.0,
    "quiet": 12.0,
    "limit": 10.0,
    "waits": "lock",
    "host": "a",
    "pid": 7,
    "parent": 1,
    "frames": [["/code/train.py", 8, "<module>"], ["/usr/lib/python3.11/threading.py", 3, "wait"]],
}


def test_the_rule_reports_a_hang_once_and_again_at_another_step(tmp_path: Path):
    rule, place = Hang(), locate(tmp_path, home=tmp_path)
    assert list(rule.check_before_start(place)) == []
    write(tmp_path, "a-7.json", **FACTS)
    (finding,) = rule.check_before_start(place)
    assert (finding.step, finding.value, finding.threshold) == (3, 12.0, 10.0)
    assert "the script is at train.py:8 and waits for a lock" in finding.message
    assert "taken twice" in finding.advice
    assert list(rule.check_before_start(place)) == []
    write(tmp_path, "a-7.json", **{**FACTS, "step": 9})
    assert [each.step for each in rule.check_before_start(place)] == [9]


def test_a_hang_explains_that_nothing_is_saved_and_is_no_consequence_of_a_bad_loss(tmp_path: Path):
    write(tmp_path, "a-7.json", **FACTS)
    (finding,) = Hang().check_before_start(locate(tmp_path, home=tmp_path))
    stalled = replace(finding, rule="StalledTrainingRule")
    rising = replace(finding, rule="LossRising")
    first, second = diagnose([stalled, rising, finding])
    assert (first.cause, first.confidence, first.explains) == (
        "Hang",
        "likely",
        ("StalledTrainingRule",),
    )
    assert second.cause == "LossRising"


def test_damaged_files_are_left_out_and_the_dump_of_a_locked_process_is_read(tmp_path: Path):
    write(tmp_path, "a-7.json", **{**FACTS, "state": "runs"})
    write(tmp_path, "b-1.json", state="still")
    (tmp_path / "hangs" / "c-1.json").write_text("{")
    (tmp_path / "hangs" / "a-7.stacks").write_text(
        "Timeout (0:01:00)!\nThread 0x1 (most recent call first):\n"
        '  File "/usr/lib/python3.11/threading.py", line 324 in wait\n\n'
        'Thread 0x2 (most recent call first):\n  File "/code/train.py", line 12 in stuck\n'
        '  File "/code/train.py", line 20 in <module>\n'
    )
    (only,) = read_standings(TrialFolder(locate(tmp_path, home=tmp_path)))
    assert (only.state, only.quiet) == ("locked", 60)
    found = named(only)
    assert found.place == "train.py:12"
    assert "holds the interpreter's lock" in found.message
