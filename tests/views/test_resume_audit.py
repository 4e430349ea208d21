"""What was not restored is named, and nothing where a resumed run is the same."""

from typing import Any

import pytest

from trackside.errors import AuditFailed
from trackside.views.job.resume_audit import Run, audit

SEAM = 3


def step(done: int, **changes: Any) -> dict[str, Any]:
    """Of a training in which everything changes from step to step."""
    return {
        "kind": "step",
        "done": done,
        "parameters": {"a": f"a{done}", "b": f"b{done}"},
        "buffers": {"mean": f"m{done}"},
        "state": {"exp_avg": f"e{done}"},
        "rates": [0.1 / (done + 1)],
        "scaler": [8.0, float(done)],
        "random": {"torch": f"t{done}", "numpy": "n"},
        "batches": [f"batch {done}"],
        "loss": 1.0,
        **changes,
    }


def run(first: int, last: int, ended_by: str = "over") -> Run:
    return Run(tuple(step(done) for done in range(first, last)), (), ended_by)


STOPPED = run(0, SEAM + 1, "seam")
UNBROKEN = run(0, 9)


def resumed(changed: dict[int, dict[str, Any]] | None = None, **saved: Any) -> Run:
    changed = changed or {}
    steps = [
        step(n + SEAM, **changed.get(n, {})) | {"done": n}
        for n in range(len(UNBROKEN.steps) - SEAM)
    ]
    return Run(tuple(steps), tuple(saved.get("saves", ())), "over")


def parts(run: Run, unbroken: Run = UNBROKEN) -> list[str]:
    return [each.part for each in audit(unbroken, STOPPED, run).differences]


def test_the_same_run():
    found = audit(UNBROKEN, STOPPED, resumed())
    assert found.is_same
    assert (found.seam, found.num_compared, found.notes) == (SEAM, 6, ())
    assert found.to_json()["same"] is True


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"parameters": {"a": "a0", "b": "b0"}}, "parameters"),
        ({"buffers": {"mean": "m0"}}, "buffers"),
        ({"state": {}}, "optimizer"),
        ({"rates": [0.1]}, "schedule"),
        ({"scaler": [65536.0, 0.0]}, "scaler"),
        ({"batches": ["batch 0"]}, "data"),
    ],
)
def test_each_part(change, part):
    assert parts(resumed({0: change})) == [part]


def test_where_what_came_back_is_from():
    found = audit(UNBROKEN, STOPPED, resumed({0: {"parameters": {"a": "a0", "b": "b0"}}}))
    assert "They are the first ones: nothing was loaded." in found.differences[0].message
    found = audit(UNBROKEN, STOPPED, resumed({0: {"batches": ["batch 1"]}}))
    assert "that of step 1" in found.differences[0].message


def test_a_schedule_that_differs_later():
    (found,) = audit(UNBROKEN, STOPPED, resumed({2: {"rates": [0.5]}})).differences
    assert (found.part, found.step) == ("schedule", SEAM + 2)


def test_an_update_that_is_lost():
    late = {n: {"batches": [f"batch {n + SEAM + 1}"]} for n in range(6)}
    assert parts(resumed(late)) == ["update"]


def test_random_states_count_where_they_are_used():
    lost = {"random": {"torch": "other", "numpy": "n"}}
    found = audit(UNBROKEN, STOPPED, resumed({0: lost}))
    assert found.is_same
    assert "torch" in found.notes[0]
    drawn = {0: {**lost, "batches": ["drawn"]}}
    assert parts(resumed(drawn)) == ["rng", "data"]
    taken_again = {0: {**lost, "batches": ["batch 0"]}}
    assert parts(resumed(taken_again)) == ["data", "rng"], "the position in the data was lost"
    dropped = {0: lost, 1: {"parameters": {"a": "x", "b": "y"}}}
    assert parts(resumed(dropped)) == ["rng"]


def test_statistics_of_another_batch_are_no_state_that_was_lost():
    drawn = {0: {"buffers": {"mean": "x"}, "batches": ["drawn"], "random": {"torch": "other"}}}
    assert parts(resumed(drawn)) == ["rng", "data"]


def test_averages_that_only_checkpoints_hold():
    saves = ({"kind": "save", "done": 6, "path": "last.pt", "content": {"ema.a": "1", "m": "2"}},)
    unbroken = Run(UNBROKEN.steps, saves, "over")
    other = ({**saves[0], "done": 3, "content": {"ema.a": "9", "m": "2"}},)
    assert parts(resumed(saves=other), unbroken) == ["average"]
    assert parts(resumed(saves=({**saves[0], "done": 3},)), unbroken) == []


def test_a_script_that_is_not_deterministic_is_judged_by_its_seam():
    drawn = Run(tuple(step(n, batches=[f"other {n}"]) for n in range(9)), (), "over")
    found = audit(drawn, STOPPED, resumed())
    assert found.is_same
    assert "not deterministic" in found.notes[0]
    assert parts(resumed({0: {"state": {}}}), drawn) == ["optimizer"]


def test_nothing_to_resume_from_and_nothing_resumed():
    with pytest.raises(AuditFailed, match="wrote no checkpoint"):
        audit(UNBROKEN, run(0, 9, ""), Run())
    with pytest.raises(AuditFailed, match="made no update"):
        audit(UNBROKEN, STOPPED, Run())
