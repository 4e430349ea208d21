"""Rules on axes, padding, states and leaks where the mistake is nearly there, and is not."""

from typing import Any

import pytest

from tests.rules.checkup.course import MODEL, STEPS, flat, found
from tests.rules.checkup.test_sequences import model, names
from trackside.rules.checkup.data_use import UnnormalizedInput
from trackside.rules.checkup.learning_rates import LearningRateTooHigh

RNN = {"name": "rnn", "type": "RNN", "given": [32, 90, 8], "batch_first": True}
PADDED = {"tokens/last": 0, "tokens/end_share": 0.8}


def losses(**facts: Any) -> dict[str, Any]:
    return model(losses=[{**MODEL["losses"][0], **facts}])


@pytest.mark.parametrize(
    ("scores", "targets", "is_reported"),
    [
        ([20, 32, 10], [640, 20], True),
        ([32, 20, 10], [20, 32], True),
        ([20, 32, 10], [20, 32], False),
        ([32, 20, 10], [640, 20], False),
        ([20, 20, 10], [640, 20], False),  # nobody can tell
        ([32, 10], [32, 1], False),
    ],
)
def test_only_targets_in_another_order_are_reported(scores, targets, is_reported, tmp_path):
    reported = names(tmp_path, anatomy=losses(flattened=[scores, targets]))
    assert reported == (["TargetOrderDiffers"] if is_reported else [])


@pytest.mark.parametrize(
    ("layer", "end_share", "loss"),
    [
        ({**RNN, "looks_ahead": True}, 0.8, flat),  # the other direction begins with the text
        ({"name": "rnn", "type": "RNN"}, 0.8, flat),  # packed
        (RNN, 0.1, flat),
        (RNN, 0.8, lambda step: 0.1 + 2.2 * 0.985**step),  # a gate can hold on to what it read
    ],
)
def test_padding_at_the_end_without_effect_is_not_reported(layer, end_share, loss, tmp_path):
    vitals = {**PADDED, "tokens/end_share": end_share}
    anatomy = model(modules=[layer, *MODEL["modules"]])
    assert "PaddingReadLast" not in names(tmp_path, anatomy=anatomy, vitals=vitals, loss=loss)


@pytest.mark.parametrize(("end", "other"), [(1.0, 0.0), (0.0, 0.0), (0.0, 0.15), (1.0, 1.0)])
def test_a_mask_that_leaves_the_text_in_is_left_alone(end, other, tmp_path):
    vitals = {"tokens/end_masked": end, "tokens/other_masked": other}
    assert names(tmp_path, vitals=vitals) == []


def test_a_state_that_is_carried_along_a_text_is_left_alone(tmp_path):
    carrying = {"name": "rnn", "type": "LSTM", "carries_state": True}
    for sampler in ("SequentialSampler", ""):
        anatomy = model(modules=[carrying], loaders=[{"num_samples": 9, "sampler": sampler}])
        assert names(tmp_path / f"x{sampler}", anatomy=anatomy) == []


@pytest.mark.parametrize(
    ("held", "seen", "is_reported"), [(1, 10, True), (1, 2, False), (0, 10, False)]
)
def test_an_input_value_that_agrees_with_yes_or_no_is_no_leak(held, seen, is_reported, tmp_path):
    vitals = {"input/holds_target": held, "labels/num_classes_seen": seen}
    assert names(tmp_path, vitals=vitals) == (["TargetIsInput"] if is_reported else [])


def test_a_loss_below_zero_whose_terms_fall_is_left_alone(tmp_path):
    """As with learnt uncertainties, whose logarithms are added."""
    terms = {"loss_term/0.cross_entropy": lambda step: 2.3 * 0.98**step}
    assert names(tmp_path, vitals=terms, loss=lambda step: 2.3 - 0.05 * step) == []


@pytest.mark.parametrize(
    "changes", [{"grad_scaler": "GradScaler", "autocast": "float16"}, {"autocast": "bfloat16"}]
)
def test_zero_gradients_with_a_scale_or_enough_range_are_no_underflow(changes, tmp_path):
    reported = names(
        tmp_path,
        anatomy=model(**changes),
        gradients=lambda name, step: (0.0, 0.0) if name == "a.weight" else (1.0, 0.01),
    )
    assert "GradientUnderflow" not in reported


@pytest.mark.parametrize("num_steps", [STEPS, 10])
def test_a_plateau_scheduler_is_trusted_unless_it_is_stepped_with_each_batch(num_steps, tmp_path):
    schedulers = [{"name": "ReduceLROnPlateau", "num_steps": num_steps}]
    vitals = {"learning_rate/0": lambda step: 0.1 if step < 60 else 1e-6}
    reported = names(tmp_path, anatomy=model(schedulers=schedulers), vitals=vitals)
    assert reported == (["LearningRateZero"] if num_steps == STEPS else [])


@pytest.mark.parametrize(
    ("spread", "tables", "is_reported"), [(200, 0, True), (200, 1, False), (3, 0, False)]
)
def test_what_is_put_in_beside_the_inputs_shows_in_the_first_output(
    spread, tables, is_reported, tmp_path
):
    anatomy = model(modules=[*MODEL["modules"], *[{"name": "t", "type": "Embedding"}] * tables])
    reported = found(
        UnnormalizedInput(),
        tmp_path,
        anatomy=anatomy,
        vitals={"activation/a/std": spread},
        weights=lambda name, step: (2.0, 0.5, -0.5),
    )
    assert [each.value for each in reported] == ([spread / 0.5] if is_reported else [])


def test_an_output_that_the_first_update_made_large_states_nothing_of_the_inputs(tmp_path):
    reported = found(
        UnnormalizedInput(),
        tmp_path,
        vitals={"activation/a/std": lambda step: 0.5 if step == 0 else 200.0},
        weights=lambda name, step: (2.0, 0.5, -0.5) if step == 0 else (800.0, 90.0, -90.0),
    )
    assert reported == []


@pytest.mark.parametrize(
    ("first", "gradient", "is_reported"), [(0.2, 0.1, True), (0.2, 1.0, False), (0.02, 0.1, False)]
)
def test_updates_that_leave_a_model_numb_were_too_large(first, gradient, is_reported, tmp_path):
    vitals = {
        "update_ratio": lambda step: first if step < 3 else 0.003,
        "gradient_norm": lambda step: (1.5 if step < 3 else gradient) + 0.01 * (step % 7),
    }
    reported = found(LearningRateTooHigh(), tmp_path, vitals=vitals, loss=flat)
    assert bool(reported) is is_reported
