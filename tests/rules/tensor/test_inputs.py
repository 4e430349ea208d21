from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.rules.recording import Recording, judge, steps_of
from trackside.capture.trial import Trial
from trackside.rules.parameters import InvalidParameters, build
from trackside.rules.tensor.inputs import CheckInputImages, NLPSequenceRatio

IMAGE, SEQUENCE = "hybridsequential0_input_0", "embedding0_input_0"


def recorded(folder: Path, values: Any, name: str, **options: Any) -> Trial:
    recording = Recording(folder, **options)
    for step, value in enumerate(values):
        recording.step(step, {name: value})
    return recording.end()


def images(num: int, *means: float) -> Any:
    return np.broadcast_to(np.array(means)[None, :, None, None], (num, len(means), 4, 4))


@pytest.mark.parametrize(
    ("batches", "steps"),
    [
        ([images(500, 0.0, 0.0, 0.19)], []),
        ([images(500, 0.0, 0.0, 0.21)], [0]),
        ([images(500, 0.0, 0.0, -0.21)], [0]),
        ([images(500, 0.3, -0.3)], [0]),  # the mean of all is zero
        ([images(499, 9.0)], []),
        ([images(200, 0.5)] * 6, [2]),
        ([images(250, 0.5), images(250, -0.5)], []),
    ],
)
def test_the_mean_of_each_channel_is_judged_over_enough_images(tmp_path, batches, steps):
    assert steps_of(judge(CheckInputImages(), recorded(tmp_path, batches, IMAGE))) == steps


def test_the_axis_of_the_channels_can_be_reported(tmp_path):
    last = np.moveaxis(images(500, 0.3, -0.3), 1, 3)
    trial = recorded(tmp_path, [last], IMAGE)
    assert judge(CheckInputImages(), trial) == []
    (found,) = judge(CheckInputImages(channel=3), trial)
    assert "channel 0 over 500 images is 0.3" in found.message


def test_images_of_a_pytorch_model_are_its_input(tmp_path):
    collections = {"input_image": "^Net_input_0$"}
    trial = recorded(tmp_path, [images(500, 0.5)], "Net_input_0", collections=collections)
    (found,) = judge(CheckInputImages(), trial)
    assert "Found by module type" in found.message


def test_grey_images_without_a_channel_are_one_channel(tmp_path):
    grey = np.zeros((500, 8, 8))
    grey[:, 0], grey[:, 7] = 1.0, -1.0
    assert judge(CheckInputImages(), recorded(tmp_path / "well", [grey], IMAGE)) == []
    assert len(judge(CheckInputImages(), recorded(tmp_path / "raw", [grey + 1], IMAGE))) == 1


def test_tokens_that_a_model_gets_are_no_images(tmp_path):
    collections = {"input_image": "^Net_input_0$"}
    tokens = np.full((600, 12), 7)
    trial = recorded(tmp_path, [tokens], "Net_input_0", collections=collections)
    assert judge(CheckInputImages(), trial) == []


@pytest.mark.parametrize(
    ("texts", "num_zeros", "fires"),
    [
        ({}, 50, False),
        ({}, 51, True),
        ({"token_values": "0, 7", "token_thresholds_percent": "60, 30"}, 60, True),
        ({"token_values": "0, 7", "token_thresholds_percent": "60, 30"}, 70, True),
        ({"token_values": "0, 7", "token_thresholds_percent": "70, 30"}, 70, False),
    ],
)
def test_the_share_of_a_token_is_judged_at_its_threshold(tmp_path, texts, num_zeros, fires):
    tokens = np.array([0] * num_zeros + [7] * (100 - num_zeros)).reshape(10, 10)
    found = judge(build(NLPSequenceRatio, texts), recorded(tmp_path, [tokens], SEQUENCE))
    assert bool(found) is fires


def test_two_tokens_at_one_step_are_two_findings(tmp_path):
    texts = {"token_values": "0, 7", "token_thresholds_percent": "30, 30"}
    tokens = np.array([0] * 50 + [7] * 50).reshape(10, 10)
    zero, seven = judge(build(NLPSequenceRatio, texts), recorded(tmp_path, [tokens], SEQUENCE))
    assert (zero.subject, seven.subject) == ("token 0", "token 7")
    assert zero.identity != seven.identity


def test_tokens_and_thresholds_must_pair_up():
    with pytest.raises(InvalidParameters, match="2 tokens and token_thresholds_percent 1"):
        build(NLPSequenceRatio, {"token_values": "0,1"})
