from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.rules.recording import Recording, judge, steps_of
from trackside.capture.trial import Trial
from trackside.rules.onsets import HEALTHY_CHECKS
from trackside.rules.parameters import InvalidParameters, build
from trackside.rules.profiler.steps import StepOutlier
from trackside.rules.tensor.losses import LossNotDecreasing, Overfit, Overtraining

LOSS = "CrossEntropyLoss_output_0"
T1 = [0.30, 0.33, 0.31, 0.30, 0.28]


def recorded(folder: Path, losses: Any, *, every: int = 1, mode: str = "TRAIN") -> Trial:
    recording = Recording(folder)
    for number, loss in enumerate(losses):
        recording.step(number * every, {LOSS: [loss]}, mode=mode)
    return recording.end()


def recorded_globally(folder: Path, losses: Any, *, every: int) -> Trial:
    """As scripts do that set no mode: their steps are the global ones."""
    recording = Recording(folder)
    for number, loss in enumerate(losses):
        recording._mode_steps["GLOBAL"] = number * every
        recording.step(number * every, {LOSS: [loss]}, mode="GLOBAL")
    return recording.end()


def test_the_original_s_first_oracle(tmp_path):
    trial = recorded_globally(tmp_path, T1, every=4)
    assert steps_of(judge(LossNotDecreasing(diff_percent=0), trial)) == [12]


def test_the_original_s_second_oracle_differs_as_intended(tmp_path):
    """It fired at 24: it compared rises. We follow the documentation, and 0 % at 12 is no fall."""
    trial = recorded_globally(tmp_path, [*T1, 0.20, 0.42], every=4)
    assert steps_of(judge(LossNotDecreasing(diff_percent=20), trial)) == [12]


def test_checks_are_at_least_num_steps_apart(tmp_path):
    """The documentation's own example: saved every 3, the checks are at 12, 24 and 36."""
    losses = [1.0] * 13
    losses[8], losses[11] = 0.5, 2.0  # at 24 all is well, at 33 nobody looks
    losses[12] = 0.4
    found = judge(LossNotDecreasing(), recorded_globally(tmp_path, losses, every=3))
    assert steps_of(found) == [12]


@pytest.mark.parametrize(
    ("later", "fires"),
    [
        (99.8, False),
        (99.9, True),  # 0.1 % is not more than 0.1 %
        (100, True),
        (104, False),  # a small rise passes
        (105, False),
        (105.1, True),
        (float("nan"), True),
    ],
)
def test_the_borders_of_falling_and_rising(tmp_path, later, fires):
    losses = [100.0] + [100.0] * 9 + [later]
    found = judge(LossNotDecreasing(), recorded(tmp_path, losses))
    assert bool(found) is fires


@pytest.mark.parametrize(("later", "fires"), [(50, True), (49.5, False)])
def test_a_fall_by_exactly_the_percentage_is_too_small(tmp_path, later, fires):
    losses = [100.0] * 10 + [later]
    found = judge(LossNotDecreasing(diff_percent=50), recorded(tmp_path, losses))
    assert bool(found) is fires


def test_a_stall_is_reported_once_and_again_after_it_was_over(tmp_path):
    falling = [4 * 0.9**number for number in range(HEALTHY_CHECKS)]
    losses = [8, 8, 8, 4.5, 4.5, *falling, falling[-1]]
    found = judge(LossNotDecreasing(num_steps=1), recorded(tmp_path, losses))
    assert steps_of(found) == [1, len(losses) - 1]


def test_each_mode_is_compared_with_itself(tmp_path):
    recording = Recording(tmp_path)
    for number in range(10):
        recording.step(2 * number, {LOSS: [10 / (number + 1)]}, mode="TRAIN")
        recording.step(2 * number + 1, {LOSS: [5.0]}, mode="EVAL")
    trial = recording.end()
    found = judge(LossNotDecreasing(num_steps=2), trial)
    assert [(each.mode, each.step) for each in found] == [("EVAL", 5)]
    assert judge(LossNotDecreasing(num_steps=2, mode="TRAIN"), trial) == []
    assert len(judge(LossNotDecreasing(num_steps=2, mode="EVAL"), trial)) == 1
    assert len(judge(LossNotDecreasing(num_steps=2, mode=None), trial)) == 1


def test_other_tensors_of_one_element_can_be_judged_too(tmp_path):
    recording = Recording(tmp_path)
    for step in range(3):
        recording.step(step, {"scalar/mine": [1.0], "vector": [1.0, 1.0]})
    trial = recording.end()
    rule = LossNotDecreasing(tensor_regex=("mine", "vector"), num_steps=1)
    assert [each.tensor for each in judge(rule, trial)] == ["scalar/mine"]
    rule = LossNotDecreasing(use_losses_collection=False, num_steps=1)
    assert judge(rule, trial) == []


@pytest.mark.parametrize("rule", [LossNotDecreasing, StepOutlier])
def test_a_mode_is_known_in_any_letter_case_and_an_unknown_one_refused(rule):
    assert build(rule, {"mode": "eval"}).mode == "EVAL"
    assert build(rule, {"mode": "None"}).mode is None
    with pytest.raises(InvalidParameters, match="mode = 'TRIAN': one of TRAIN, EVAL, PREDICT, GLO"):
        build(rule, {"mode": "TRIAN"})


def evaluated(folder: Path, epochs: Any, train_name: str = LOSS, eval_name: str = LOSS) -> Trial:
    """Each epoch: losses in training, losses in evaluation."""
    recording = Recording(folder, collections={"losses": "loss"})
    step = 0
    for train, validation in epochs:
        for mode, name, losses in (
            ("TRAIN", train_name, train),
            ("EVAL", eval_name, validation),
        ):
            for loss in losses:
                recording.step(step, {name: [loss]}, mode=mode)
                step += 1
    return recording.end()


@pytest.mark.parametrize(
    ("options", "epochs", "steps"),
    [
        ({}, [([1, 1], [1.1, 1.0])], []),
        ({}, [([1, 1], [1.2, 1.2])], [3]),
        ({}, [([10], [11])], []),  # exactly 0.1 more
        ({"ratio_threshold": 0.5}, [([1], [1.4]), ([1], [1.6])], [3]),
        ({}, [([1], [2]), ([1], [1]), ([1], [2])], [1]),
        ({}, [([1], [2]), *[([1], [1])] * HEALTHY_CHECKS, ([1], [2])], [1, 3 + 2 * HEALTHY_CHECKS]),
        ({"patience": 2}, [([1], [2]), ([1], [1]), ([1], [2]), ([1], [2])], [7]),
        ({"start_step": 2}, [([1], [2]), ([1], [1])], []),
        ({}, [([-1], [-0.5])], [1]),
        ({}, [([1, 1, 1], [])], []),
    ],
)
def test_the_gap_between_training_and_evaluation_is_judged(tmp_path, options, epochs, steps):
    assert steps_of(judge(Overfit(**options), evaluated(tmp_path, epochs))) == steps


def test_losses_of_two_names_are_taken_together(tmp_path):
    trial = evaluated(tmp_path, [([1], [2])], "train_loss", "val_loss")
    (found,) = judge(Overfit(), trial)
    assert (found.tensor, found.value) == ("val_loss", 1.0)


@pytest.mark.parametrize(
    ("losses", "mode", "steps"),
    [
        ([1, 1, 1, 1, 1, 1], "TRAIN", [5]),
        ([1, 1, 1, 1, 1, 0.9], "TRAIN", []),
        ([1, 1, 1, 1, 1, 0.995], "TRAIN", [5]),  # not better by more than 0.01
        ([1] * 10, "EVAL", []),
        ([1] * 11, "EVAL", [10]),
        ([1] * 6 + [0.5] + [0.6] * 5, "TRAIN", [5]),
        (
            [30] * 6 + [*range(29, 29 - HEALTHY_CHECKS, -1)] + [20] * 5,
            "TRAIN",
            [5, 10 + HEALTHY_CHECKS],
        ),
        ([1] * 20, "PREDICT", []),
    ],
)
def test_a_loss_that_no_longer_improves_is_found(tmp_path, losses, mode, steps):
    assert steps_of(judge(Overtraining(), recorded(tmp_path, losses, mode=mode))) == steps


def test_what_losses_are_given_is_no_loss(tmp_path):
    recording = Recording(tmp_path, collections={"losses": "Loss"})
    for step in range(12):
        recording.step(step, {LOSS: [1 / (step + 1)], "CrossEntropyLoss_input_0": np.ones(8)})
    trial = recording.end()
    assert judge(LossNotDecreasing(num_steps=1), trial) == []
