from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.rules.recording import Recording, judge, judge_as_it_grows, steps_of
from trackside.capture.selection.type_patterns import DEFAULT_PATTERNS
from trackside.capture.trial import Trial
from trackside.rules.onsets import HEALTHY_CHECKS
from trackside.rules.saved.evidence import Evidence
from trackside.rules.tensor.activations import DeadRelu, SaturatedActivation, UnitActivity


def layer(num_samples: int, num_dead: int, num_units: int = 10) -> Any:
    """Of the living, each is active for half of the samples."""
    values = np.zeros((num_samples, num_units))
    values[::2, num_dead:] = 1.0
    return values


def recorded(folder: Path, values: Any, name: str = "relu_output_0", **options: Any) -> Trial:
    recording = Recording(folder, **options)
    for step, value in enumerate(values):
        recording.step(step, {name: value})
    return recording.end()


@pytest.mark.parametrize(("num_dead", "fires"), [(0, False), (5, False), (6, True), (10, True)])
def test_more_than_half_of_a_layer_must_be_dead(tmp_path, num_dead, fires):
    found = judge(DeadRelu(), recorded(tmp_path, [layer(100, num_dead)]))
    assert bool(found) is fires


@pytest.mark.parametrize(("num_active", "fires"), [(1, True), (2, False), (0, True)])
def test_a_relu_is_dead_below_one_percent_of_the_samples(tmp_path, num_active, fires):
    values = np.zeros((200, 4))
    values[:num_active] = 1.0  # one of 200 is half a percent, two are one percent
    assert bool(judge(DeadRelu(), recorded(tmp_path, [values]))) is fires


def test_small_batches_are_gathered_until_there_are_enough_samples(tmp_path):
    healthy = [np.eye(4)[[step % 4]] for step in range(100)]  # of one sample, 3 of 4 are off
    assert judge(DeadRelu(), recorded(tmp_path / "a", healthy)) == []
    dead = [layer(25, 9)] * 8
    assert steps_of(judge(DeadRelu(), recorded(tmp_path / "b", dead))) == [3]
    grown = [{"relu_output_0": value} for value in dead]
    assert steps_of(judge_as_it_grows(DeadRelu(), tmp_path / "c", grown)) == [3]


@pytest.mark.parametrize(("num_samples", "steps"), [(20, [0]), (4, [])])
def test_a_short_trial_is_judged_at_its_end_if_it_states_anything(tmp_path, num_samples, steps):
    found = judge(DeadRelu(), recorded(tmp_path, [layer(num_samples, 9)]))
    assert steps_of(found) == steps


def test_in_images_a_channel_is_a_unit(tmp_path):
    images = np.zeros((100, 4, 8, 8))
    images[:, :, 4, 4] = 1.0  # the border of every image is empty, as that of digits is
    assert judge(DeadRelu(), recorded(tmp_path / "well", [images])) == []
    images[:, :3] = 0
    (found,) = judge(DeadRelu(), recorded(tmp_path / "dead", [images]))
    assert found.value == 75


@pytest.mark.parametrize("axis", [1, 2])
def test_in_sequences_either_axis_may_be_the_units(tmp_path, axis):
    values = np.ones((100, 6, 6))
    values[(slice(None),) * axis + (slice(0, 5),)] = 0
    (found,) = judge(DeadRelu(), recorded(tmp_path, [values]))
    assert found.value == pytest.approx(100 * 5 / 6)


def test_units_of_a_layer_that_changes_its_size_are_counted_again():
    activity = UnitActivity(1.0)
    assert [*activity.add((0,), np.ones((1, 50, 8), bool))] == []
    (verdict,) = activity.add((1,), np.ones((1, 50, 6), bool))
    assert (verdict.percent, verdict.num_units) == (0, 6)


def test_relus_with_other_names_are_found_by_type_and_the_finding_says_so(tmp_path):
    collections = {"relu_output": "^seq.1_output_"}
    trial = recorded(tmp_path, [layer(100, 9)], "seq.1_output_0", collections=collections)
    (found,) = judge(DeadRelu(), trial)
    assert found.tensor == "seq.1_output_0"
    assert "Found by module type: no saved name matches '.*relu_output'." in found.message
    assert judge(DeadRelu(tensor_regex="mine"), trial) == []


def test_a_layer_of_nan_is_not_called_dead(tmp_path):
    assert judge(DeadRelu(), recorded(tmp_path, [np.full((100, 4), np.nan)])) == []


def test_a_layer_that_recovers_and_dies_again_is_reported_twice(tmp_path):
    values = [layer(100, dead) for dead in (9, 9, 0, 9, *[0] * HEALTHY_CHECKS, 9)]
    assert steps_of(judge(DeadRelu(), recorded(tmp_path, values))) == [0, 4 + HEALTHY_CHECKS]


@pytest.mark.parametrize(
    ("name", "edge", "fires"),
    [
        ("tanh_input_0", 9.5, True),
        ("tanh_input_0", 9.49, False),
        ("tanh_input_0", -9.5, True),
        ("sigmoid_input_0", 9.5, False),
        ("sigmoid_input_0", 17.0, True),
        ("sigmoid_input_0", -22.9, False),
        ("sigmoid_input_0", -23.0, True),
    ],
)
def test_saturation_starts_at_the_limits_of_the_function(tmp_path, name, edge, fires):
    trial = recorded(tmp_path, [np.full((100, 4), edge)], name)
    assert bool(judge(SaturatedActivation(), trial)) is fires


def test_more_than_half_of_the_units_must_be_saturated(tmp_path):
    values = np.zeros((100, 4))
    values[:, :2] = 50
    assert judge(SaturatedActivation(), recorded(tmp_path / "half", [values], "tanh_input_0")) == []
    values[:, 2] = -50
    (found,) = judge(SaturatedActivation(), recorded(tmp_path / "most", [values], "tanh_input_0"))
    assert found.value == 75
    assert "75 % of 4 tanh units" in found.message


def test_the_kind_is_known_by_the_collection_if_not_by_the_name(tmp_path):
    collections = {"sigmoid_input": "^gate_input", "tanh_input": "^mix_input"}
    recording = Recording(tmp_path, collections=collections)
    value = np.full((100, 4), 12.0)
    recording.step(0, {"gate_input_0": value, "mix_input_0": value})
    (found,) = judge(SaturatedActivation(), recording.end())
    assert found.tensor == "mix_input_0"
    assert "Found by module type" in found.message


def test_what_is_missing_is_reported(tmp_path):
    evidence = Evidence(recorded(tmp_path, [[1.0]], "other"))
    evidence.advance()
    assert "'.*relu_output'" in DeadRelu().missing(evidence)
    assert "tanh_input" in SaturatedActivation().missing(evidence)
    wanted = {need.collection: need.include_regex for need in SaturatedActivation().needs()}
    assert wanted == {name: DEFAULT_PATTERNS[name] for name in ("tanh_input", "sigmoid_input")}
