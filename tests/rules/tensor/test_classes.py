from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.rules.recording import Recording, judge, steps_of
from trackside.capture.trial import Trial
from trackside.rules.onsets import HEALTHY_CHECKS
from trackside.rules.tensor.class_pairs import as_classes
from trackside.rules.tensor.classes import ClassImbalance, Confusion


def recorded(
    folder: Path,
    steps: Any,
    *,
    labels: str = "labels",
    predictions: str = "predictions",
    mode: str = "TRAIN",
) -> Trial:
    """Each step: its number, labels, predictions."""
    recording = Recording(folder)
    for number, true, predicted in steps:
        recording.step(number, {labels: true, predictions: predicted}, mode=mode)
    return recording.end()


def counted(*numbers: int) -> Any:
    return np.repeat(np.arange(len(numbers)), numbers)


def test_the_original_s_own_test_of_imbalance(tmp_path):
    labels = counted(990, 10)
    found = judge(ClassImbalance(), recorded(tmp_path, [(3, labels, labels)]))
    assert [(each.step, each.value) for each in found] == [(3, 99.0)]


@pytest.mark.parametrize(
    ("numbers", "fires"), [((500, 50), False), ((501, 50), True), ((400, 4), False)]
)
def test_imbalance_needs_enough_labels_and_is_judged_at_its_border(tmp_path, numbers, fires):
    labels = counted(*numbers)
    assert bool(judge(ClassImbalance(), recorded(tmp_path, [(0, labels, labels)]))) is fires


def test_labels_are_gathered_over_steps(tmp_path):
    labels = counted(99, 1)
    steps = [(number, labels, labels) for number in range(12)]
    assert steps_of(judge(ClassImbalance(), recorded(tmp_path, steps))) == [4]


@pytest.mark.parametrize(("num_wrong", "fires"), [(175, False), (176, True)])
def test_a_class_that_is_mostly_mispredicted_is_found(tmp_path, num_wrong, fires):
    labels = counted(250, 250)
    predictions = labels.copy()
    predictions[250 : 250 + num_wrong] = 0
    found = judge(ClassImbalance(), recorded(tmp_path, [(0, labels, predictions)]))
    assert bool(found) is fires
    if fires:
        assert "class 1 is predicted wrongly" in found[0].message


def test_what_was_mispredicted_long_ago_does_not_count_for_ever(tmp_path):
    labels = counted(250, 250)
    wrong, right = 1 - labels, labels
    reported = [wrong, *[right] * HEALTHY_CHECKS, wrong]
    steps = [(step, labels, predictions) for step, predictions in enumerate(reported)]
    assert steps_of(judge(ClassImbalance(), recorded(tmp_path, steps))) == [0, 1 + HEALTHY_CHECKS]


def test_on_pytorch_the_inputs_of_the_loss_are_judged_and_the_finding_states_so(tmp_path):
    labels = counted(990, 10)
    scores = np.eye(2)[labels]
    trial = recorded(
        tmp_path,
        [(0, labels, scores)],
        labels="CrossEntropyLoss_input_1",
        predictions="CrossEntropyLoss_input_0",
    )
    (found,) = judge(ClassImbalance(), trial)
    assert found.tensor == "CrossEntropyLoss_input_1"
    assert "are what the loss was given" in found.message


@pytest.mark.parametrize(
    ("labels", "predictions", "argmax", "expected"),
    [
        ([0, 1], [0, 1], False, ([0, 1], [0, 1])),
        ([0, 1], [[0.9, 0.1], [0.2, 0.8]], False, ([0, 1], [0, 1])),
        ([[0], [1]], [[0.1], [0.9]], False, ([0, 1], [0, 1])),
        ([0, 1], [0.2, 0.7], False, ([0, 1], [0, 1])),
        ([[1, 0], [0, 1]], [[3, 1], [4, 2]], True, ([0, 1], [0, 0])),
        ([0, -100, 1], [0, 0, 1], False, ([0, 1], [0, 1])),
        ([0.5, 1.5], [0, 1], False, None),
        ([0, 1, 1], [0, 1], False, None),
        ([[[1]]], [[[[0.1]], [[0.9]]]], False, ([1], [1])),
    ],
)
def test_scores_and_classes_are_converted_to_the_same_form(labels, predictions, argmax, expected):
    found = as_classes(np.array(labels), np.array(predictions, float), argmax=argmax)
    assert (None if found is None else tuple(each.tolist() for each in found)) == expected


def test_texts_are_no_classes():
    assert as_classes(np.array(["cat"]), np.array([0.0]), argmax=False) is None


def test_maps_of_scores_have_their_classes_on_the_second_axis():
    labels = np.random.default_rng(0).integers(0, 3, (2, 4, 5))
    scores = np.moveaxis(np.eye(3)[labels], -1, 1)
    found = as_classes(labels, scores, argmax=False)
    assert found is not None
    assert (found[0] == found[1]).all()


CLASSES = np.arange(10)
ONE_WRONG = np.where(CLASSES == 4, 7, CLASSES)


def test_the_original_s_own_tests_of_confusion(tmp_path):
    assert judge(Confusion(), recorded(tmp_path / "1", [(0, CLASSES, CLASSES)])) == []
    diagonal, other = judge(Confusion(), recorded(tmp_path / "2", [(0, CLASSES, ONE_WRONG)]))
    assert (diagonal.value, diagonal.threshold) == (0, 0.9)
    assert "class 4 is predicted as it" in diagonal.message
    rule = Confusion(min_diag=0, max_off_diag=0.01)
    (found,) = judge(rule, recorded(tmp_path / "3", [(0, CLASSES, ONE_WRONG)]))
    assert found.value == other.value == 0.5
    assert diagonal.identity != other.identity


@pytest.mark.parametrize(("num_wrong", "fires"), [(10, False), (11, True)])
def test_the_diagonal_is_judged_at_its_border(tmp_path, num_wrong, fires):
    labels = counted(100, 1000)
    predictions = labels.copy()
    predictions[:num_wrong] = 1
    found = judge(Confusion(), recorded(tmp_path, [(0, labels, predictions)]))
    assert bool(found) is fires


def test_an_evaluation_is_one_matrix_and_a_training_step_is_one(tmp_path):
    steps = [(number, CLASSES, ONE_WRONG if number == 0 else CLASSES) for number in range(20)]
    assert judge(Confusion(), recorded(tmp_path / "eval", steps, mode="EVAL")) == []
    found = judge(Confusion(), recorded(tmp_path / "train", steps))
    assert set(steps_of(found)) == {0}


def test_tensors_may_be_named(tmp_path):
    trial = recorded(tmp_path, [(0, CLASSES, ONE_WRONG)], labels="y", predictions="y_hat")
    assert judge(Confusion(), trial) == []
    assert len(judge(Confusion(labels="y", predictions="y_hat"), trial)) == 2


def test_a_class_above_category_no_is_left_out(tmp_path):
    trial = recorded(tmp_path, [(0, CLASSES, np.where(CLASSES > 7, 0, CLASSES))])
    assert len(judge(Confusion(), trial)) == 2
    assert judge(Confusion(category_no=8), trial) == []


def test_a_vocabulary_is_no_set_of_categories(tmp_path):
    tokens = np.arange(50_000)
    assert judge(Confusion(), recorded(tmp_path, [(0, tokens, tokens[::-1])])) == []
