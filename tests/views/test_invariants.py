"""What held in good runs, and what of it does not hold in another."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.views.learnt.invariants import FEWEST_POINTS, Observed, check, infer

STEPS = FEWEST_POINTS + 4


def run_of(**parts: Any) -> Observed:
    return Observed(
        **{
            "facts": {"losses[cross_entropy].reduction": "mean", "head.training": True},
            "counts": {"num_clipped_late": 0, "num_clipped": 40},
            "events": {"backwards": 40, "updates": 40, "schedule": 10},
            "series": {
                "head.weight:l2": [1 + 0.1 * step for step in range(STEPS)],
                "frozen.weight:l2": [2.0] * STEPS,
                "dead": [0.0] * STEPS,
            },
            "ranks": {
                "weights": [[step, step] for step in range(STEPS)],
                "batch": [[step, step + 1] for step in range(STEPS)],
            },
            **parts,
        }
    )


def broken(run: Observed, *good: Observed) -> list[tuple[str, str]]:
    found = check(infer(good or [run_of()]), run)
    return [(each.invariant.text, each.found) for each in found]


def test_nothing_is_learnt_of_no_run():
    assert infer([]) == []


def test_a_run_breaks_nothing_that_it_taught():
    assert broken(run_of()) == []


@pytest.mark.parametrize(
    ("parts", "text", "found"),
    [
        (
            {"facts": {"losses[cross_entropy].reduction": "sum", "head.training": True}},
            "losses[cross_entropy].reduction is mean",
            "it is sum",
        ),
        (
            {"facts": {"head.training": True}},
            "losses[cross_entropy].reduction is mean",
            "it is not there",
        ),
        ({"counts": {"num_clipped_late": 3, "num_clipped": 9}}, "num_clipped_late is 0", "it is 3"),
        ({"counts": {"num_clipped": 0}}, "num_clipped is not 0", "it is 0"),
        (
            {"events": {"backwards": 40, "updates": 20, "schedule": 5}},
            "backwards is 1 times updates",
            "they are 40 and 20",
        ),
        (
            {"series": {"head.weight:l2": [1.0] * STEPS}},
            "head.weight:l2 changes from each point to the next",
            f"not so at {STEPS - 1} of {STEPS - 1} points",
        ),
        (
            {"series": {"frozen.weight:l2": [float(step + 1) for step in range(STEPS)]}},
            "frozen.weight:l2 stays the same",
            f"not so at {STEPS - 1} of {STEPS - 1} points",
        ),
        (
            {"series": {"head.weight:l2": [*map(float, range(1, STEPS)), math.nan]}},
            "head.weight:l2 is finite",
            f"not so at 1 of {STEPS} points",
        ),
        (
            {"ranks": {"weights": [[step, -1 - step] for step in range(STEPS)]}},
            "weights is the same on all ranks",
            f"not so at {STEPS} of {STEPS} points",
        ),
        (
            {"ranks": {"batch": [[step, step] for step in range(STEPS)]}},
            "batch differs between ranks",
            f"not so at {STEPS} of {STEPS} points",
        ),
    ],
)
def test_what_does_not_hold_is_named(parts: dict[str, Any], text: str, found: str):
    assert (text, found) in broken(run_of(**parts))


def test_what_one_good_run_breaks_is_not_learnt():
    other = run_of(facts={"losses[cross_entropy].reduction": "sum", "head.training": True})
    assert broken(other, run_of(), other) == []


def test_a_run_of_another_length_keeps_how_often_a_thing_happens():
    shorter = run_of(events={"backwards": 22, "updates": 22, "schedule": 5})
    assert broken(shorter) == []


def test_another_seed_may_break_a_relation_at_a_few_points():
    dead = [0.0] * (STEPS - 2) + [0.1, 0.1]
    assert broken(run_of(series={**run_of().series, "dead": dead})) == []


def test_few_points_say_nothing():
    short = {name: values[: FEWEST_POINTS - 1] for name, values in run_of().series.items()}
    assert broken(run_of(series={"head.weight:l2": [1.0] * 3})) == []
    learnt = infer([replace(run_of(), series=short)])
    assert not [each for each in learnt if each.name in short]


figures = st.lists(st.sampled_from([0.0, 0.0, 1.0, 2.5, math.inf, math.nan]), max_size=14)
names = st.sampled_from(["a", "b", "c"])
observed = st.builds(
    Observed,
    facts=st.dictionaries(names, st.sampled_from([True, False, None, "x"])),
    counts=st.dictionaries(names, st.integers(0, 3)),
    events=st.dictionaries(names, st.integers(0, 200)),
    series=st.dictionaries(names, figures),
    ranks=st.dictionaries(names, st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)))),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(observed, min_size=1, max_size=3), observed)
def test_no_run_breaks_what_it_taught_and_more_runs_teach_less(runs: list[Observed], new: Observed):
    learnt = infer(runs)
    assert not [each for run in runs for each in check(learnt, run)]
    assert {*infer([*runs, new])} <= {*learnt}
    assert {each.invariant for each in check(learnt, new)} <= {*learnt}
