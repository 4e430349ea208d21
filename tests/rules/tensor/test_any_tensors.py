from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.rules.recording import Recording, judge, judge_as_it_grows, steps_of
from trackside.capture.trial import Trial, create_trial
from trackside.rules.onsets import HEALTHY_CHECKS
from trackside.rules.parameters import InvalidParameters, build
from trackside.rules.saved.evidence import Evidence
from trackside.rules.tensor.any_tensors import (
    AllZero,
    ExplodingTensor,
    TensorVariance,
    UnchangedTensor,
)

NAN, INF = float("nan"), float("inf")


def recorded(folder: Path, values: Any, name: str = "t", **options: Any) -> Trial:
    recording = Recording(folder, **options)
    for step, value in enumerate(values):
        recording.step(step, {name: value})
    return recording.end()


@pytest.mark.parametrize(
    ("only_nan", "values", "steps"),
    [
        (False, [[1, NAN], [1, 2], [NAN, NAN]], [0]),
        (False, [[1, INF], [1, 2], [-INF, 0]], [0]),
        (True, [[1, INF], [1, NAN], [NAN, NAN]], [1]),
        (False, [[3e38, -3e38], [0, 0]], []),
    ],
)
def test_not_a_number_and_infinities_are_found_where_they_begin(tmp_path, only_nan, values, steps):
    found = judge(ExplodingTensor(only_nan=only_nan), recorded(tmp_path, values))
    assert steps_of(found) == steps


def test_restarted_after_a_finding_it_finds_the_next(tmp_path):
    """The original's own test: NaN at 0 and 2, finite at 1, restarted at 1."""
    recorded(tmp_path, [[1, NAN], [1, 2], [NAN, NAN]])
    rest = create_trial(str(tmp_path), range_steps=(1, None))
    assert steps_of(judge(ExplodingTensor(), rest)) == [2]


def test_what_is_found_states_what_it_was(tmp_path):
    (nan,) = judge(ExplodingTensor(), recorded(tmp_path / "1", [[1, NAN]]))
    (infinite,) = judge(ExplodingTensor(), recorded(tmp_path / "2", [[1, -INF]]))
    assert "holds NaN" in nan.message
    assert "an infinity" in infinite.message
    assert infinite.value == INF


def test_stored_figures_are_enough_to_find_it(tmp_path):
    recording = Recording(tmp_path)
    recording.figures(0, ("abs_max",), {"gradient/a": [1], "gradient/b": [INF]})
    (found,) = judge(ExplodingTensor(), recording.end())
    assert (found.tensor, found.value) == ("gradient/b", INF)


def test_an_empty_tensor_holds_nothing(tmp_path):
    assert judge(ExplodingTensor(), recorded(tmp_path, [np.zeros((0, 4)), [1.0]])) == []


def test_only_selected_tensors_are_judged(tmp_path):
    recording = Recording(tmp_path)
    recording.step(0, {"gradient/a": [NAN], "b": [NAN], "c": [NAN]})
    trial = recording.end()
    rule = ExplodingTensor(collection_names=("gradients",), tensor_regex=("^b",))
    assert [each.tensor for each in judge(rule, trial)] == ["gradient/a", "b"]


@pytest.mark.parametrize(
    ("threshold", "zeros", "fires"),
    [(100, 10, True), (100, 9, False), (90, 9, True), (90.1, 9, False), (0, 0, True)],
)
def test_the_share_of_zeros_is_judged_at_its_border(tmp_path, threshold, zeros, fires):
    value = np.array([0.0] * zeros + [1.0] * (10 - zeros))
    rule = AllZero(tensor_regex=("t",), threshold=threshold)
    assert bool(judge(rule, recorded(tmp_path, [value]))) is fires


def test_values_are_requested_only_where_statistics_are_not_enough():
    assert AllZero(tensor_regex=("t",)).needs()[0].reductions == ("abs_max",)
    assert AllZero(tensor_regex=("t",), threshold=99).needs()[0].reductions == ()


@pytest.mark.parametrize("threshold", [100, 50])
def test_zeros_are_reported_once_while_they_last(tmp_path, threshold):
    values = [[0, 0], [0, 0], [1, 1], [0, 0], *[[1, 1]] * HEALTHY_CHECKS, [0, 0]]
    rule = AllZero(tensor_regex=("t",), threshold=threshold)
    assert steps_of(judge(rule, recorded(tmp_path, values))) == [0, 4 + HEALTHY_CHECKS]


def test_a_tensor_that_stays_the_same_is_found_at_the_last_of_its_steps(tmp_path):
    """The original's own test: the same ones at 0 1 2, another name at 5."""
    recording = Recording(tmp_path)
    for step in range(3):
        recording.step(step, {"foo": np.ones((10, 2))})
    recording.step(5, {"bar": np.ones((10, 2))})
    found = judge(UnchangedTensor(tensor_regex=(".*",), num_steps=3), recording.end())
    assert [(each.tensor, each.step) for each in found] == [("foo", 2)]


@pytest.mark.parametrize(
    ("options", "values", "steps"),
    [
        ({}, [1, 1, 2, 2, 2, 2], [4]),
        ({"num_steps": 2}, [1, 1, 2, 2, *range(HEALTHY_CHECKS), 3, 3], [1, 5 + HEALTHY_CHECKS]),
        ({"rtol": 0.1}, [100, 109, 101], [2]),
        ({"rtol": 0.1}, [100, 109, 118], []),  # the first is no longer close to the last
        ({"rtol": 0, "atol": 0}, [1, 1, 1], [2]),
        ({}, [NAN, NAN, NAN], []),
        ({"equal_nan": True}, [NAN, NAN, NAN], [2]),
        ({"num_steps": 4}, [1, 1, 1], []),
    ],
)
@pytest.mark.parametrize("live", [False, True], ids=["finished", "live"])
def test_closeness_is_judged_against_the_newest_value(tmp_path, options, values, steps, live):
    rule = UnchangedTensor(tensor_regex=("t",), **options)
    if live:
        found = judge_as_it_grows(rule, tmp_path, [{"t": [value]} for value in values])
    else:
        found = judge(rule, recorded(tmp_path, [[value] for value in values]))
    assert steps_of(found) == steps


def test_weights_that_do_not_change_during_evaluation_are_accepted(tmp_path):
    recording = Recording(tmp_path)
    for step, mode in enumerate(["TRAIN", "EVAL", "EVAL", "EVAL", "TRAIN"]):
        recording.step(step, {"w": [float(mode == "TRAIN") * step]}, mode=mode)
    assert judge(UnchangedTensor(tensor_regex=("w",)), recording.end()) == []


@pytest.mark.parametrize(
    ("options", "fires"),
    [
        ({"max_threshold": 2.4}, True),
        ({"max_threshold": 2.5}, False),
        ({"min_threshold": 2.6}, True),
        ({"min_threshold": 2.5}, False),
        ({"min_threshold": 1, "max_threshold": 3}, False),
    ],
)
def test_variance_is_judged_at_its_border(tmp_path, options, fires):
    values = [[1, 2, 3, 4, 5]]  # variance 2.5
    rule = TensorVariance(tensor_regex=("t",), **options)
    assert bool(judge(rule, recorded(tmp_path, values))) is fires


@pytest.mark.parametrize(
    ("rule", "texts", "reported"),
    [
        (AllZero, {}, "AllZero needs collection_names or tensor_regex"),
        (UnchangedTensor, {}, "UnchangedTensor needs collection_names or tensor_regex"),
        (TensorVariance, {"max_threshold": "1"}, "needs collection_names or tensor_regex"),
        (TensorVariance, {"tensor_regex": "t"}, "needs max_threshold or min_threshold"),
    ],
)
def test_a_required_parameter_is_demanded(rule, texts, reported):
    with pytest.raises(InvalidParameters, match=reported):
        build(rule, texts)


def test_a_rule_without_its_figures_states_which(tmp_path):
    recording = Recording(tmp_path)
    recording.figures(0, ("l2",), {"gradient/a": [1.0]})
    evidence = Evidence(recording.end())
    evidence.advance()
    reported = TensorVariance(collection_names=("gradients",), max_threshold=1).missing(evidence)
    assert "1 tensors are saved, but not variance" in reported
