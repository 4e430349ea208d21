from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.rules.recording import Recording, judge, judge_as_it_grows, steps_of
from trackside.capture.trial import Trial
from trackside.rules.onsets import HEALTHY_CHECKS
from trackside.rules.tensor.weights import (
    PoorWeightInitialization,
    VanishingGradient,
    WeightUpdateRatio,
)


def test_a_vanished_gradient_is_found_where_it_starts(tmp_path):
    recording = Recording(tmp_path)
    for step, size in enumerate(
        [1e-3, 1e-6, 1e-8, 1e-9, 1e-5, 1e-8, *[1e-5] * HEALTHY_CHECKS, 1e-8]
    ):
        recording.step(step * 10, {"gradient/deep": [size, -size], "gradient/near": [0.1, 0.2]})
    found = judge(VanishingGradient(), recording.end())
    assert [(each.tensor, each.step) for each in found] == [
        ("gradient/deep", 20),
        ("gradient/deep", 60 + 10 * HEALTHY_CHECKS),
    ]
    assert found[0].value is not None
    assert abs(found[0].value - 1e-8) < 1e-12
    assert found[0].mode == "TRAIN"


def test_the_threshold_itself_is_still_healthy(tmp_path):
    recording = Recording(tmp_path)
    recording.step(0, {"gradient/a": [0.5]})
    assert judge(VanishingGradient(threshold=0.5), recording.end()) == []


def recorded(folder: Path, values: Any, *, every: int = 10) -> Trial:
    recording = Recording(folder)
    for step, value in enumerate(values):
        recording.step(step * every, {"Net_fc.weight": value})
    return recording.end()


@pytest.mark.parametrize(
    ("values", "steps"),
    [
        ([[1, 1], [1.5, 1.5], [2, 2]], []),
        ([[1, 1], [12, 12], [13, 13]], [10]),  # 11 times its size
        ([[1, 1], [11, 11]], []),  # 10 times: not above
        ([[1, 1], [1, 1]], [10]),  # 0: below 1e-8
        ([[1, 1], [-1, -1], [-1, -1], [1, 1], [1, 1]], [20]),
        ([[0, 0], [1, 1]], [10]),
        ([[1, 1]], []),
    ],
)
@pytest.mark.parametrize("live", [False, True], ids=["finished", "live"])
def test_updates_are_judged_by_their_ratio_to_the_weights(tmp_path, values, steps, live):
    if live:
        grown = [{"Net_fc.weight": value} for value in values]
        found = judge_as_it_grows(WeightUpdateRatio(), tmp_path, grown)
        assert [each.step * 10 for each in found if each.step is not None] == steps
    else:
        assert steps_of(judge(WeightUpdateRatio(), recorded(tmp_path, values))) == steps


def test_exactly_the_large_threshold_passes(tmp_path):
    trial = recorded(tmp_path, [[1, 1], [11, 11]])
    assert judge(WeightUpdateRatio(epsilon=0), trial) == []
    assert steps_of(judge(WeightUpdateRatio(epsilon=0, large_threshold=9.99), trial)) == [10]


def test_weights_rest_during_evaluation(tmp_path):
    recording = Recording(tmp_path)
    for step, mode in enumerate(["TRAIN", "EVAL", "EVAL", "TRAIN"]):
        recording.step(step, {"Net_fc.weight": [1.0 + (step > 0)]}, mode=mode)
    assert judge(WeightUpdateRatio(), recording.end()) == []


def test_with_num_steps_the_first_saved_step_in_reach_is_compared_with(tmp_path):
    values = [[1.0], [2.0], [4.0], [8.0]]  # at 0 10 20 30
    trial = recorded(tmp_path, values)
    assert judge(WeightUpdateRatio(large_threshold=2.9), trial) == []
    (found,) = judge(WeightUpdateRatio(num_steps=25, large_threshold=2.9), trial)
    assert found.step == 20
    assert found.value == pytest.approx(3)


@pytest.mark.parametrize(("rate", "fires"), [(1e-3, False), (1e-10, True)])
def test_a_learning_rate_of_nothing_is_found(tmp_path, rate, fires):
    """The original's own test; in float32 a rate of 1e-10 changes nothing at all."""
    random = np.random.default_rng(0)
    weights = random.standard_normal((20, 5))
    values = []
    for _ in range(5):
        values.append(weights.astype(np.float32))
        weights = weights - rate * random.standard_normal(weights.shape)
    assert bool(judge(WeightUpdateRatio(), recorded(tmp_path, values))) is fires


def test_a_frozen_weight_is_none_of_its_business(tmp_path):
    recording = Recording(tmp_path)
    for step in range(3):
        recording.step(
            step,
            {
                "Net_frozen.weight": [1.0],
                "Net_fc.weight": [1.0 + step],
                "gradient/Net_fc.weight": [1.0],
            },
        )
    assert judge(WeightUpdateRatio(), recording.end()) == []


def test_layers_of_very_different_variance_are_found(tmp_path):
    recording = Recording(tmp_path)
    spread = np.array([-1.0, 1.0])
    for step, ratio in enumerate([9, 11, 12]):
        recording.step(step, {"a.relu_input_0": spread, "b.relu_input_0": spread * np.sqrt(ratio)})
    (found,) = judge(PoorWeightInitialization(), recording.end())
    assert (found.step, found.tensor) == (1, "b.relu_input_0")
    assert found.value == pytest.approx(11, rel=1e-5)


def test_only_the_first_saved_training_steps_count(tmp_path):
    recording = Recording(tmp_path)
    for step in range(12):
        size = 100.0 if step > 10 else 1.0
        tensors = {"a.relu_input_0": [-1.0, 1.0], "b.relu_input_0": [-size, size]}
        recording.step(step, tensors, mode="EVAL" if step == 0 else "TRAIN")
    trial = recording.end()
    assert judge(PoorWeightInitialization(), trial) == []
    assert steps_of(judge(PoorWeightInitialization(steps=11), trial)) == [11]


def test_steps_at_which_only_other_things_were_saved_do_not_count(tmp_path):
    recording = Recording(tmp_path)
    for step in range(30):
        recording.step(step, {"scalar/lr": [0.1]})
    recording.step(30, {"a.relu_input_0": [-1.0, 1.0], "b.relu_input_0": [-9.0, 9.0]})
    assert steps_of(judge(PoorWeightInitialization(), recording.end())) == [30]


def test_the_first_steps_are_counted_over_several_checks(tmp_path):
    def layers(size: float) -> dict[str, Any]:
        return {"a.relu_input_0": [-1.0, 1.0], "b.relu_input_0": [-size, size]}

    rule = PoorWeightInitialization(steps=2)
    assert judge_as_it_grows(rule, tmp_path, [layers(1), layers(1), layers(100)]) == []


@pytest.mark.parametrize(("width", "fires"), [(0.00095, True), (0.0012, False)])
def test_a_gradient_whose_values_are_all_alike_is_found(tmp_path, width, fires):
    recording = Recording(tmp_path)
    gradient = np.linspace(0, width / 0.9, 1001)  # nine in ten lie within `width`
    recording.step(0, {"gradient/Net_fc.weight": gradient})
    found = judge(PoorWeightInitialization(), recording.end())
    assert bool(found) is fires


@pytest.mark.parametrize(
    ("losses", "steps"),
    [([3, 3, 3, 3, 3, 3], [5]), ([3, 4, 5, 4, 5, 2.9, 3], []), ([9, 8, 7, 6, 5, 4, 3], [])],
)
def test_a_loss_without_a_new_minimum_at_the_start_is_found(tmp_path, losses, steps):
    recording = Recording(tmp_path)
    for step, loss in enumerate(losses):
        recording.step(step, {"CrossEntropyLoss_output_0": [loss]})
    assert steps_of(judge(PoorWeightInitialization(), recording.end())) == steps
