"""The decisions of a job under a few hundred seeds of faults; `make drill` plays ten thousand."""

from collections.abc import Callable
from typing import Any

import pytest
from benchmarks.drill.simulation import play

from trackside.jobs import reconcile
from trackside.supervisor import outcome


def test_no_seed_breaks_an_invariant():
    played = play(range(300))
    assert played.violations == []
    assert set(played.ends) >= {"Completed", "Failed", "Stopped", "MaxRuntimeExceeded"}
    assert len(played.faults) >= 9


def test_a_seed_plays_the_same_way_each_time():
    assert play([7, 8]) == play([7, 8])


def one_attempt_more(
    *reported: Any, max_attempts: int, decide: Callable[..., Any] = outcome.decide, **more: Any
):
    return decide(*reported, max_attempts=max_attempts + 1, **more)


@pytest.mark.parametrize(
    ("module", "decision", "broken", "seen"),
    [
        (outcome, "decide", one_attempt_more, "attempt 2 of 1"),
        (outcome, "must_end", lambda *reported: False, "did not reach the script"),
        (outcome, "why_end", lambda *reported, **limits: None, "no MaxRuntime after"),
        (reconcile, "decide", lambda *reported: [], "no path to an end"),
    ],
    ids=["one attempt more", "no order obeyed", "no time limit", "nobody revived"],
)
def test_a_broken_decision_is_found(module, decision, broken, seen, monkeypatch):
    monkeypatch.setattr(module, decision, broken)
    violations = (violation for seed in range(100) for violation in play([seed]).violations)
    assert seen in next(violation for violation in violations if seen in violation)
