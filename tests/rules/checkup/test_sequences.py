"""Rules on sequences, sums of losses and updates where the mistake is nearly there, and is not."""

from typing import Any

import pytest

from tests.rules.checkup.course import MODEL, STEPS, falling, flat, found
from trackside.rules.checkup.checkup import Checkup

FLOATS = {"labels/min": None, "labels/max": None, "labels/num_classes_seen": None}


def names(*reported: Any, **course: Any) -> list[str]:
    return [each.rule for each in found(Checkup(), *reported, **course)]


def model(**changes: Any) -> dict[str, Any]:
    return {**MODEL, **changes}


def over_time(**facts: Any) -> dict[str, Any]:
    return model(modules=[{"name": "rnn", "type": "GRU", **facts}, *MODEL["modules"]])


@pytest.mark.parametrize(
    ("last", "other", "shifted"),
    [
        (0.97, 0.93, 1.0),  # looks back, and has most to look at in the last place
        (0.5, 0.6, 1.0),  # has learnt little anywhere
        (0.955, 0.96, 1.0),
        (0.6, 0.99, 0.2),  # the targets are others
    ],
)
def test_a_model_that_checks_back_is_left_alone(last, other, shifted, tmp_path):
    vitals = {
        "tokens/shifted_share": shifted,
        "tokens/last_accuracy": last,
        "tokens/other_accuracy": other,
    }
    assert names(tmp_path, vitals=vitals) == []


def test_tokens_that_are_not_all_the_same_are_no_copy(tmp_path):
    """As of a masked language model, whose loss counts the hidden ones only."""
    same = {"tokens/same_share": lambda step: 0.9 + 0.1 * (step % 2)}
    assert names(tmp_path, vitals=same, loss=lambda step: 0.01 + 2 * 0.97**step) == []


@pytest.mark.parametrize(
    ("given", "batch_first", "is_found"),
    [
        ([32, 20, 8], False, True),
        ([20, 32, 8], False, False),
        ([32, 1, 8], False, False),  # one long sequence with a target at each place
        ([32, 8], False, False),
        ([32, 20, 8], True, False),
        ([32, 32, 8], False, False),
    ],
)
def test_an_axis_is_taken_for_time_by_what_the_layer_was_made_for(
    given, batch_first, is_found, tmp_path
):
    reported = names(tmp_path, anatomy=over_time(given=given, batch_first=batch_first))
    assert reported == (["BatchTakenForTime"] if is_found else [])


def test_a_loss_at_every_time_step_states_nothing_of_the_axes(tmp_path):
    losses = [{**MODEL["losses"][0], "shapes": [[640, 10], [640]]}]
    facts = over_time(given=[32, 20, 8], batch_first=False)
    assert names(tmp_path, anatomy={**facts, "losses": losses}) == []


def test_padding_that_is_ignored_or_rare_is_left_alone(tmp_path):
    padded = {"labels/most_common": 0, "labels/largest_share": 0.8}
    modules = [{"name": "a", "type": "Embedding", "padding": 0}]
    wrong = model(modules=modules, losses=[{**MODEL["losses"][0], "num_classes": 16}])
    assert names(tmp_path / "wrong", anatomy=wrong, vitals=padded) == ["PaddingInLoss"]
    ignored = {**wrong, "losses": [{**wrong["losses"][0], "ignored": 0}]}
    assert names(tmp_path / "ignored", anatomy=ignored, vitals=padded) == []
    rare = {**padded, "labels/largest_share": 0.2}
    assert names(tmp_path / "rare", anatomy=wrong, vitals=rare) == []
    of_texts = {**wrong, "losses": MODEL["losses"]}  # ten classes of texts of 16 words
    assert names(tmp_path / "texts", anatomy=of_texts, vitals=padded) == []


def test_terms_of_unlike_size_that_are_both_learnt_are_left_alone(tmp_path):
    terms = {
        "loss_term/0.cross_entropy": falling,
        "loss_term/1.mse_loss": lambda step: 9000.0 - step,
    }
    reported = names(tmp_path / "learnt", vitals=terms, loss=lambda step: 9000 * 0.99**step)
    assert reported == []
    beside = {"loss_term/0.cross_entropy": flat, "loss_term/1.mse_loss": 0.001}
    assert names(tmp_path / "beside", vitals=beside) == []
    terms["loss_term/0.cross_entropy"] = flat
    weighed = names(tmp_path / "weighed", vitals=terms, loss=lambda step: 5 * 0.99**step)
    assert weighed == []


@pytest.mark.parametrize(
    ("cleared", "is_trained", "num_optimizers"),
    [(1, 0, 1), (0, 0, 1), (7, 1, 1), (7, 0, 2)],
    ids=["sharpness", "accumulated", "adversarial", "gan"],
)
def test_gradients_may_be_cleared_for_a_reason(cleared, is_trained, num_optimizers, tmp_path):
    facts = model(
        optimizers=[{**MODEL["optimizers"][0], "index": i} for i in range(num_optimizers)]
    )
    vitals = {"cleared_backwards": cleared, "input/is_trained": is_trained}
    assert names(tmp_path, anatomy=facts, vitals=vitals) == []


@pytest.mark.parametrize("rate", [lambda s: 1e-3 * min(s, 100), lambda s: 0.1 * 0.99**s])
def test_a_warm_up_that_ends_is_left_alone(rate, tmp_path):
    groups = [{"lr": 0.1, "initial_lr": 0.1}]
    facts = model(
        optimizers=[{**MODEL["optimizers"][0], "groups": groups}],
        schedulers=[{"name": "LambdaLR", "num_steps": STEPS}],
    )
    assert names(tmp_path, anatomy=facts, vitals={"learning_rate/0": rate}) == []


def test_a_policy_draws_samples_and_computes_their_log_prob(tmp_path):
    assert names(tmp_path, anatomy=model(num_cut_samples=300, num_scored_samples=300)) == []


def test_weights_in_sixteen_bits_that_learn_are_left_alone(tmp_path):
    short = [{**each, "dtype": "bfloat16"} for each in MODEL["parameters"]]
    assert names(tmp_path, anatomy=model(parameters=short)) == []


def test_two_views_that_are_pulled_together_collapse_or_not(tmp_path):
    facts = {"name": "mse_loss", "function": "mse_loss", "shapes": [[64, 16], [64, 16]]}
    anatomy = model(losses=[{**facts, "is_target_trained": True}])
    vitals = {**FLOATS, "loss_input/sample_std": lambda step: 0.3 * 0.97**step}
    vitals["target/sample_std"] = vitals["loss_input/sample_std"]
    assert names(tmp_path / "all", anatomy=anatomy, vitals=vitals) == ["OutputIgnoresInput"]
    vitals["loss_input/sample_std"] = lambda step: 0.3 + 0.001 * step
    assert names(tmp_path / "apart", anatomy=anatomy, vitals=vitals) == []


@pytest.mark.parametrize("difference", ["rates", "passes", "classes"])
def test_folds_searches_and_ensembles_make_many_models_for_a_reason(difference, tmp_path):
    one = MODEL["optimizers"][0]
    rates = [0.1 / (1 + i) if difference == "rates" else 0.1 for i in range(8)]
    passes = 40 if difference == "passes" else 8
    kinds = ["Net", "Other"] if difference == "classes" else ["Net", "Net"]
    facts = model(
        models=kinds * 4,
        optimizers=[{**one, "index": i, "groups": [{"lr": rate}]} for i, rate in enumerate(rates)],
        loaders=[{"num_samples": 960, "num_batches": 30 * passes, "num_passes": passes}],
    )
    assert names(tmp_path, anatomy=facts) == []


def test_an_optimizer_that_remembers_nothing_may_be_made_again(tmp_path):
    plain = {"index": 0, "type": "SGD", "num_steps": 1, "groups": [{"lr": 0.1, "momentum": 0}]}
    assert names(tmp_path, anatomy=model(optimizers=[plain] * STEPS)) == []
