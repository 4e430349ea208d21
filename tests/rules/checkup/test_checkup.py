"""Each rule on vitals fires on its own mistake and on no other, and on nothing that is healthy."""

import math
from typing import Any

import pytest

from tests.rules.checkup.course import MODEL, STEPS, course, flat, found
from tests.rules.recording import judge
from trackside.rules.checkup.checkup import PARTS, Checkup
from trackside.rules.checkup.diagnosis import diagnose
from trackside.rules.checkup.layers import DeadLayer, FadingGradient
from trackside.rules.checkup.loss_use import OutputRangeTooNarrow
from trackside.rules.checkup.outcomes import LossRising, NothingLearnt
from trackside.rules.checkup.update_use import UpdateLost


def model(**changes: Any) -> dict[str, Any]:
    return {**MODEL, **changes}


def parameters(**changes: dict[str, Any]) -> list[dict[str, Any]]:
    """Those of the ordinary model; `a` and `b` change one of them each."""
    first, second = MODEL["parameters"]
    return [{**first, **changes.get("a", {})}, {**second, **changes.get("b", {})}]


def optimizer(**group: Any) -> list[dict[str, Any]]:
    return [{"index": 0, "type": "SGD", "num_steps": STEPS, "groups": [{"lr": 0.1, **group}]}]


def loss_facts(function: str, **changes: Any) -> list[dict[str, Any]]:
    return [{"name": function, "function": function, "shapes": [[32, 1], [32, 1]], **changes}]


def still(name: str, step: int) -> tuple[float, float, float]:
    return 9.0, 0.2, -0.2


def moving(name: str, step: int) -> tuple[float, float, float]:
    return 9.0 + 0.01 * step, 0.2 + 0.001 * step, -0.2


AMOUNTS = {
    "loss_input/min": -0.5,
    "loss_input/max": 0.5,
    "target/mean": 0.0,
    "target/std": 1.0,
    "target/num_values": 32,
    "target/whole_share": 0.0,
    **dict.fromkeys(("labels/min", "labels/max", "labels/num_classes_seen")),
}
"""Vitals of a regression."""
TEN_CLASSES = {
    "target/min": 0.0,
    "target/max": 9.0,
    "target/std": 2.9,
    "target/whole_share": 1.0,
    "target/num_values": 10,
}

OUTPUT = {"loss": "cross_entropy", "activation": "softmax", "axis": 0, "size": 32}
PAIR = {"first": "Net_a.weight", "second": "Net_b.weight", "widths": [16, 16, 16]}
"""By the graph of the loss."""

ONE_OF_FORTY = {"num_samples": 1280, "batch_size": 32, "num_passes": 30}
ONE_OF_FORTY |= {"num_batches": 30, "num_trained": 30}
"""A loader of which each epoch takes the first batch only."""
BOTH = {"num_samples": 960, "batch_size": 32, "num_passes": 20, "num_batches": 600}
BOTH |= {"num_trained": 300, "num_evaluated": 300}
SAME = {"num_samples": 960, "batch_size": 32, "num_passes": STEPS, "num_batches": STEPS}
UNUSED = {"num_samples": 240, "batch_size": 32}
ONE_PASS: dict[str, Any] = {
    "num_samples": 9600,
    "batch_size": 32,
    "num_passes": 1,
    "num_batches": STEPS,
}
ONE_PASS |= {"num_trained": STEPS, "sampler": "SequentialSampler", "values_per_sample": 16}
TINY = {**ONE_PASS, "num_samples": 160, "num_passes": 60}
FADING: dict[str, Any] = {
    "anatomy": model(parameters=[{**parameters()[0], "name": f"Net_{n}.weight"} for n in "abc"]),
    "weights": moving,
    "gradients": lambda name, step: (10.0 ** (3 * ord(name[0]) - 300), 1e-9),
}

WRONG: dict[str, dict[str, Any]] = {
    "OptimizerNotStepping": {"anatomy": model(optimizers=[]), "loss": flat, "weights": still},
    "OptimizerOfAnotherModel": {
        "anatomy": model(parameters=parameters(a={"optimizer": None}, b={"optimizer": None})),
        "loss": flat,
        "weights": still,
    },
    "ModelRecreated": {
        "anatomy": model(
            models=["Net"] * 10,
            optimizers=optimizer() * 10,
            loaders=[{"num_samples": 960, "num_batches": STEPS, "num_passes": 10}],
        )
    },
    "ParametersNotOptimized": {
        "anatomy": model(parameters=parameters(a={"optimizer": None})),
        "weights": lambda name, step: (still if name == "a.weight" else moving)(name, step),
    },
    "GradientMissing": {
        "anatomy": model(parameters=parameters(a={"ever_had_gradient": False})),
        "vitals": {"gradient_missing": 1},
    },
    "EpochCutShort": {
        "anatomy": model(loaders=[ONE_OF_FORTY]),
        "loss": lambda step: 2.3 - 0.01 * step,
        "num_steps": 30,
    },
    "EvaluationOnTrainingData": {
        "anatomy": model(
            loaders=[BOTH, UNUSED],
            forwards=[*MODEL["forwards"], {"training": False, "grad": False, "count": 300}],
        ),
    },
    "PolicyGradientReversed": {
        "anatomy": model(policy={"weight": "returns", "num_discouraged": 40})
    },
    "SampleCutsGraph": {"anatomy": model(num_cut_samples=STEPS)},
    "ForgottenZeroGrad": {"vitals": {"leftover_gradients": lambda step: step > 0}},
    "AccumulationCleared": {"vitals": {"cleared_backwards": 7, "input/is_trained": 0}},
    "OptimizerSettings": {"anatomy": model(optimizers=optimizer(betas=[0.999, 0.9]))},
    "OptimizerRecreated": {"anatomy": model(optimizers=optimizer(momentum=0.9), num_remade=299)},
    "LowPrecisionWeights": {
        "anatomy": model(parameters=parameters(a={"dtype": "float16"})),
        "loss": lambda step: 2.3 if step < 5 else float("nan"),
    },
    "UpdatesStop": {
        "anatomy": model(optimizers=[{**MODEL["optimizers"][0], "num_steps": 60}]),
        "weights": lambda name, step: moving(name, min(step, 60)),
    },
    "UpdateLost": {
        "anatomy": model(parameters=parameters(a={"last_gradient_step": STEPS - 1})),
        "weights": lambda name, step: (still if name == "a.weight" else moving)(name, step),
        "gradients": lambda name, step: (1.0, 0.01),
    },
    "LearningRateZero": {"vitals": {"learning_rate/0": 0, "update_ratio": 0}, "loss": flat},
    "WarmUpNeverEnds": {
        "anatomy": model(optimizers=optimizer(initial_lr=0.1), schedulers=[{"name": "LambdaLR"}]),
        "vitals": {"learning_rate/0": lambda step: 1e-5 * step, "update_ratio": 1e-6},
        "loss": flat,
    },
    "LearningRateTooHigh": {
        "vitals": {"update_ratio": 0.6},
        "loss": lambda step: 2.3 if step < 3 else 30.0 + step % 7,
    },
    "LearningRateTooLow": {"vitals": {"update_ratio": 1e-6}, "loss": flat},
    "GradientClippedAway": {"vitals": {"update_ratio": 1e-6, "gradient_norm": 1e-5}, "loss": flat},
    "WeightDecayTooStrong": {
        "anatomy": model(optimizers=optimizer(weight_decay=1.0)),
        "weights": lambda name, step: (9 * 0.98**step, 0.2, -0.2),
    },
    "LossInputAlreadySoftmax": {
        "vitals": {"loss_input/min": 0.01, "loss_input/max": 0.9, "loss_input/row_sum_error": 1e-7}
    },
    "LossInputNotLogProbabilities": {
        "anatomy": model(losses=loss_facts("nll_loss", num_classes=10))
    },
    "LossShapeMismatch": {
        "anatomy": model(losses=loss_facts("mse_loss", shapes=[[32, 1], [32]], broadcasts=True))
    },
    "LossTermDominates": {
        "vitals": {
            "loss_term/0.cross_entropy": flat,
            "loss_term/1.mse_loss": lambda step: 9000.0 - step,
        },
        "loss": lambda step: 9002.3 - step,
    },
    "OutputRangeTooNarrow": {
        "anatomy": model(losses=loss_facts("mse_loss")),
        "vitals": {
            "loss_input/min": 0.3,
            "loss_input/max": 0.999,
            "target/min": 20.0,
            "target/max": 300.0,
        },
    },
    "ConstantOutput": {
        "anatomy": model(losses=loss_facts("binary_cross_entropy")),
        "vitals": {"loss_input/min": 1.0, "loss_input/max": 1.0},
        "loss": lambda step: 37.0 + step % 5,
    },
    "LabelsOutOfRange": {
        "anatomy": model(losses=loss_facts("binary_cross_entropy_with_logits")),
        "vitals": {"target/min": -1.0, "target/max": 1.0},
        "loss": lambda step: 0.7 - step,
    },
    "UnnormalizedTarget": {
        "anatomy": model(losses=loss_facts("mse_loss")),
        "vitals": {**AMOUNTS, "target/mean": 250_000.0, "target/std": 50_000.0},
        "loss": lambda step: 6.5e10 - 1e6 * step,
    },
    "ClassesAsAmounts": {
        "anatomy": model(losses=loss_facts("mse_loss")),
        "vitals": {**AMOUNTS, **TEN_CLASSES},
        "loss": lambda step: 1.0 + 20 * 0.97**step,
    },
    "InputNotFinite": {"vitals": {"input/mean": lambda step: float("nan") if step == 7 else 0.0}},
    "ConstantInput": {"vitals": {"input/std": 0.0, "input/mean": 0.0}},
    "UnnormalizedInput": {
        "vitals": {"input/mean": 33.0, "input/std": 78.0, "input/max": 255, "activation/a/std": 50}
    },
    "SameBatch": {"vitals": {"input/fingerprint": 7}, "anatomy": model(loaders=[SAME])},
    "OneSampleOfBatch": {
        "vitals": {"batch_size": 1, "input/num_values": 16},
        "anatomy": model(
            loaders=[ONE_PASS], losses=[{**MODEL["losses"][0], "shapes": [[1, 10], [1]]}]
        ),
    },
    "RepeatedBatches": {
        "vitals": {"input/fingerprint": lambda step: 1000 + step // 2},
        "anatomy": model(loaders=[ONE_PASS]),
    },
    "ConstantLabels": {"vitals": {"labels/min": 3, "labels/max": 3, "labels/num_classes_seen": 1}},
    "UnshuffledLabels": {
        "vitals": {
            "labels/min": lambda step: step // 30,
            "labels/max": lambda step: step // 30,
            "labels/num_classes_seen": 1,
            "labels/largest_share": 1.0,
        }
    },
    "OneClassPredicted": {
        "vitals": {"labels/largest_share": 0.95, "predictions/largest_share": 1.0}
    },
    "EvaluationInputDiffers": {"evaluation": {"input/mean": 5.0, "input/std": 6.0}},
    "SlowDataLoading": {
        "anatomy": model(
            loaders=[{"num_samples": 999, "batch_size": 32, "num_batches": 300, "wait_seconds": 30}]
        ),
        "vitals": {"step_seconds": 0.11},
    },
    "FutureVisible": {
        "vitals": {
            "tokens/shifted_share": 1.0,
            "tokens/last_accuracy": 0.6,
            "tokens/other_accuracy": 0.99,
        }
    },
    "TargetIsInput": {
        "vitals": {"tokens/same_share": 1.0},
        "loss": lambda step: 0.01 + 2.2 * 0.98**step,
    },
    "StateOfOtherSamples": {
        "anatomy": model(
            modules=[{"name": "rnn", "type": "LSTM", "carries_state": True}, *MODEL["modules"]],
            loaders=[{"num_samples": 640, "sampler": "RandomSampler"}],
        )
    },
    "AttentionAxisWrong": {
        "anatomy": model(attention=[{"axis": 2, "shape": [8, 4, 16, 16]}]),
    },
    "ViewForTranspose": {
        "anatomy": model(reshaped=[{"given": [32, 20, 8], "made": [32, 8, 20]}]),
    },
    "TargetOrderDiffers": {
        "anatomy": model(
            losses=[{**MODEL["losses"][0], "flattened": [[20, 32, 10], [640, 20]]}],
        ),
    },
    "PaddingReadLast": {
        "anatomy": model(
            modules=[{"name": "rnn", "type": "RNN", "given": [32, 90, 8], "batch_first": True}]
        ),
        "vitals": {"tokens/last": 0, "tokens/end_share": 0.8},
        "loss": flat,
    },
    "PaddingMaskInverted": {
        "vitals": {"tokens/end_masked": 0.0, "tokens/other_masked": 1.0},
    },
    "GradientUnderflow": {
        "anatomy": model(autocast="float16"),
        "gradients": lambda name, step: (0.0, 0.0) if name == "a.weight" else (1.0, 0.01),
    },
    "LossWithoutBound": {
        "vitals": {"loss_term/0.cross_entropy": lambda step: 2.3 + 0.1 * step},
        "loss": lambda step: 2.3 - 0.1 * step,
    },
    "TemperatureTooHigh": {
        "anatomy": model(is_likeness_scaled=True),
        "vitals": {"loss_input/min": -0.01, "loss_input/max": 0.01},
        "loss": flat,
    },
    "BatchTakenForTime": {
        "anatomy": model(
            modules=[
                {"name": "rnn", "type": "LSTM", "given": [32, 20, 8], "batch_first": False},
                *MODEL["modules"],
            ]
        )
    },
    "PaddingInLoss": {
        "anatomy": model(
            modules=[{"name": "a", "type": "Embedding", "padding": 0}],
            losses=[{**MODEL["losses"][0], "num_classes": 16}],
        ),
        "vitals": {"labels/most_common": 0, "labels/largest_share": 0.8},
    },
    "TrainingInEvaluationMode": {
        "anatomy": model(
            holds_dropout=True,
            backwards=[{"training": True, "count": 50}, {"training": False, "count": 250}],
        )
    },
    "EvaluationInTrainingMode": {
        "anatomy": model(
            holds_dropout=True,
            forwards=[*MODEL["forwards"], {"training": True, "grad": False, "count": 40}],
        )
    },
    "BatchNormOfOneSample": {
        "anatomy": model(modules=[{"name": "norm", "type": "BatchNorm2d"}], holds_batch_norm=True),
        "vitals": {"batch_size": 1},
    },
    "SymmetricWeights": {"weights": lambda name, step: (9.0 + step, 0.1 + step, 0.1)},
    "WeightsTooLarge": {
        "vitals": {"activation/b/std": 60.0},
        "weights": lambda name, step: (16.0 + step, 3.0, -3.0),
    },
    "WeightsTooSmall": {
        "weights": lambda name, step: (0.02 + 1e-4 * step, 0.004, -0.004),
        "loss": flat,
    },
    "ActivationMissing": {
        "anatomy": model(
            modules=[
                {"name": "Net", "type": "Sequential"},
                {"name": "a", "type": "Linear"},
                {"name": "drop", "type": "Dropout"},
                {"name": "b", "type": "Linear"},
            ]
        )
    },
    "DropoutTooStrong": {
        "anatomy": model(modules=[{"name": "drop", "type": "Dropout", "dropped": 0.95}]),
        "loss": flat,
    },
    "FrozenByMistake": {
        "anatomy": model(parameters=parameters(a={"optimizer": None, "requires_grad": False})),
        "loss": flat,
    },
    "DeadLayer": {"vitals": {"activation/relu/dead_share": lambda step: step > 100}},
    "SaturatedLayer": {
        "vitals": {"activation/relu/saturated_share": 0.95},
        "loss": lambda step: 1.0 + 1.3 * 0.985**step,
    },
    "FadingGradient": {**FADING, "loss": flat},
    "ExplodingGradient": {
        "vitals": {"gradient_norm": 1e6},
        "weights": moving,
        "loss": lambda step: 2.3 if step < 2 else float("nan"),
    },
    "OutputIgnoresInput": {
        "anatomy": model(losses=loss_facts("mse_loss")),
        "vitals": {**AMOUNTS, "loss_input/sample_std": 1e-4, "target/sample_std": 1.0},
        "loss": lambda step: 1.0 + 3 * 0.97**step,
    },
    "LossNotFinite": {"loss": lambda step: 0.3 if step < 50 else float("nan")},
    "LossRising": {"loss": lambda step: 2.3 + 0.1 * step},
    "Overfitting": {"evaluation_loss": lambda step: 1.0 + abs(step - 60) / 50},
    "NothingLearnt": {"loss": flat},
}


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name())
def test_a_rule_is_silent_on_an_ordinary_training(part, tmp_path):
    assert (
        found(part(), tmp_path, weights=moving, evaluation={"input/mean": 0.0, "input/std": 1.1})
        == []
    )


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_found_and_is_the_first_cause_that_is_named(name, tmp_path):
    trial = course(tmp_path, **WRONG[name])
    part = next(part for part in PARTS if part.name() == name)
    assert [each.rule for each in judge(part(), trial)][:1] == [name]
    diagnosed = diagnose(judge(Checkup(), trial))
    assert diagnosed[0].cause == name, [each.cause for each in diagnosed]


def _of_the_mean(step: int) -> float:
    """The smooth loss of 0 for everything, where targets have a deviation of 1."""
    return 0.425 + 0.08 * math.sin(step)


def optimizer_with(**changes: Any) -> list[dict[str, Any]]:
    return [{**MODEL["optimizers"][0], "num_steps": 20, **changes}]


GUISES: dict[str, tuple[str, dict[str, Any]]] = {
    "step behind the loop over batches": (
        "OptimizerNotStepping",
        {
            "anatomy": model(
                optimizers=optimizer_with(backwards_per_step={"15": 20}, num_discarded=280)
            )
        },
    ),
    "the first sample of each batch, without the batch's axis": (
        "OneSampleOfBatch",
        {
            "vitals": {"batch_size": 16, "input/num_values": 16},
            "anatomy": model(
                loaders=[ONE_PASS], losses=[{**MODEL["losses"][0], "shapes": [[10], []]}]
            ),
        },
    ),
    "workers that draw the same from shuffled data": (
        "RepeatedBatches",
        {
            "vitals": {"input/fingerprint": lambda step: 1000 + step % 3 + 3 * (step // 12)},
            "anatomy": model(loaders=[{**ONE_PASS, "sampler": "RandomSampler"}]),
        },
    ),
    "softmax along the batch": (
        "LossInputAlreadySoftmax",
        {"anatomy": model(outputs=[OUTPUT])},
    ),
    "softmax of one": (
        "ConstantOutput",
        {"anatomy": model(outputs=[{**OUTPUT, "loss": "binary_cross_entropy", "size": 1}])},
    ),
    "tanh before cross-entropy": (
        "OutputRangeTooNarrow",
        {"anatomy": model(outputs=[{**OUTPUT, "activation": "tanh"}])},
    ),
    "one score for a loss over classes": (
        "LossShapeMismatch",
        {
            "anatomy": model(losses=loss_facts("cross_entropy", num_classes=1, label_max=0)),
            "loss": lambda step: 0.0,
        },
    ),
    "a loss of one's own that broadcasts": (
        "LossShapeMismatch",
        {"anatomy": model(losses=[], broadcast=[[32, 1], [32, 32]])},
    ),
    "probabilities for kl_div": (
        "LossInputNotLogProbabilities",
        {
            "anatomy": model(losses=loss_facts("kl_div")),
            "vitals": {"log_probabilities/row_sum_error": 4.2},
        },
    ),
    "a rate too low for the one batch there is": (
        "LearningRateTooLow",
        {
            "vitals": {"update_ratio": 1e-6, "gradient_norm": 4.1, "input/fingerprint": 7},
            "anatomy": model(loaders=[{"num_samples": 32, "batch_size": 32}]),
            "loss": flat,
        },
    ),
    "a loss that falls as slowly as the weights move": (
        "LearningRateTooLow",
        {"vitals": {"update_ratio": 2e-4}, "loss": lambda step: 2.3 - 8e-4 * step},
    ),
    "a rate of zero for one of two optimizers": (
        "LearningRateZero",
        {
            "anatomy": model(optimizers=[*optimizer(), {**optimizer()[0], "index": 1}]),
            "vitals": {"learning_rate/1.0": 1e-30},
        },
    ),
    "a plateau that was none": (
        "LearningRateZero",
        {
            "anatomy": model(schedulers=[{"name": "ReduceLROnPlateau", "num_steps": 30}]),
            "vitals": {"learning_rate/0": lambda step: 0.1 if step < 40 else 1e-9},
            "loss": flat,
        },
    ),
    "no activation in forward": ("ActivationMissing", {"anatomy": model(pairs=[PAIR])}),
    "one number for every sample of a regression": (
        "ConstantLabels",
        {
            "anatomy": model(losses=loss_facts("mse_loss")),
            "vitals": {**AMOUNTS, "target/min": 0.0, "target/max": 0.0, "target/std": 0.0},
            "loss": lambda step: 0.5 * 0.97**step,
        },
    ),
    "tanh before amounts that lie beyond it, long before it presses": (
        "OutputRangeTooNarrow",
        {
            "anatomy": model(
                losses=loss_facts("mse_loss"),
                outputs=[{"loss": "mse_loss", "activation": "tanh"}],
            ),
            "vitals": {**AMOUNTS, "target/min": -7.0, "target/max": 7.0},
        },
    ),
    "targets a thousand times beyond all predictions after 60 steps": (
        "UnnormalizedTarget",
        {
            "anatomy": model(losses=loss_facts("mse_loss")),
            "vitals": {**AMOUNTS, "target/std": 5000.0},
            "loss": lambda step: 2.4e7 + 1e6 * (step % 3),
            "num_steps": 60,
        },
    ),
    "targets of other rows, by a smooth loss": (
        "NothingLearnt",
        {
            "anatomy": model(losses=loss_facts("smooth_l1_loss")),
            "vitals": {**AMOUNTS, "loss_value": _of_the_mean},
            "loss": _of_the_mean,
        },
    ),
    "an update longer than the weights, after which all is learnt by heart": (
        "LearningRateTooHigh",
        {
            "vitals": {"update_ratio": lambda step: 40.0 if step == 0 else 1e-3},
            "loss": lambda step: 2.3 if step == 0 else 5000.0 * 0.9**step,
        },
    ),
    "gradients without a bound once an update has blown up the loss": (
        "LearningRateTooHigh",
        {
            "vitals": {
                "update_ratio": 20.0,
                "gradient_norm": lambda step: 1.0 if step < 2 else float("inf"),
            },
            "weights": moving,
            "loss": lambda step: (2.3, 40.0, 1e29)[step] if step < 3 else float("nan"),
        },
    ),
    "weights of next to nothing, from which Adam finds its way": (
        "WeightsTooSmall",
        {
            "anatomy": model(
                parameters=[{**parameters()[0], "name": f"Net_{n}.weight"} for n in "abc"]
            ),
            "weights": lambda name, step: (0.016 + 0.01 * step, 0.003, -0.003),
            "loss": lambda step: 2.3 if step < 40 else 0.3,
        },
    ),
    "a gradient that fades, and a loss that falls late": (
        "FadingGradient",
        {**FADING, "loss": lambda step: 2.3 if step < 50 else 0.5},
    ),
    "a first loss far above chance": (
        "WeightsTooLarge",
        {
            "weights": lambda name, step: (64.0 + step, 12.0, -12.0),
            "loss": lambda step: 0.2 + 15 * 0.9**step,
        },
    ),
    "AdamW's own decay at a rate far too high": (
        "LearningRateTooHigh",
        {
            "anatomy": model(optimizers=optimizer(weight_decay=0.01)),
            "vitals": {"update_ratio": 0.6, "learning_rate/0": 1.0},
            "weights": lambda name, step: (9.0 + step, 0.2 + step, -0.2),
            "loss": lambda step: 2.3 if step < 3 else 30.0 + step % 7,
        },
    ),
}


@pytest.mark.parametrize("guise", GUISES)
def test_a_mistake_is_known_in_another_guise(guise, tmp_path):
    name, changes = GUISES[guise]
    diagnosed = diagnose(judge(Checkup(), course(tmp_path, **changes)))
    assert [each.cause for each in diagnosed][:1] == [name]


HEALTHY: dict[str, dict[str, Any]] = {
    "queries and keys that have hardly a gradient, and a loss that falls late": {
        "anatomy": model(
            parameters=[{**parameters()[0], "name": f"Net_{n}.weight"} for n in "abcdefghijkl"]
        ),
        "weights": moving,
        "gradients": lambda name, step: (1e-5, 1e-9) if name[0] in "ab" else (1.0, 1e-4),
        "loss": lambda step: 2.3 if step < 50 else 0.5,
    },
    "a search over rates, of which some are too high": {
        "anatomy": model(optimizers=[*optimizer(), {**optimizer()[0], "index": 1}]),
        "vitals": {"update_ratio": lambda step: 40.0 if step == 0 else 1e-3},
        "loss": lambda step: 2.3 if step == 0 else 5000.0 * 0.9**step,
    },
    "gradients that add up until the step": {
        "anatomy": model(optimizers=optimizer_with(backwards_per_step={"15": 20}, num_discarded=0))
    },
    "backwards for the sake of an input": {
        "anatomy": model(
            optimizers=optimizer_with(backwards_per_step={"8": 20}, num_discarded=140),
            asks_for_others=True,
        )
    },
    "gradients that add up until a step that has not come yet": {
        "anatomy": model(
            optimizers=optimizer_with(num_steps=2, backwards_per_step={"100": 2}),
        ),
        "weights": lambda name, step: moving(name, step // 100),
    },
    "a compiled step, of which only the first are counted": {
        "anatomy": model(optimizers=[{**MODEL["optimizers"][0], "num_steps": 3}]),
        "weights": moving,
    },
    "steps that change nothing more, as all is learnt": {
        "weights": lambda name, step: moving(name, min(step, 60)),
    },
    "saliency in evaluation mode after the training": {
        "anatomy": model(
            optimizers=[{**MODEL["optimizers"][0], "num_steps": 60}],
            backwards=[{"training": True, "count": 60}, {"training": False, "count": 240}],
        ),
        "weights": lambda name, step: moving(name, min(step, 60)),
    },
    "an input that is trained after the model": {
        "anatomy": model(optimizers=[{**MODEL["optimizers"][0], "num_steps": 60}]),
        "weights": lambda name, step: moving(name, min(step, 60)),
        "vitals": {"input/is_trained": lambda step: step > 60},
    },
    "the samples of a batch one by one": {
        "vitals": {"batch_size": 1, "input/num_values": 16},
        "anatomy": model(
            loaders=[{**ONE_PASS, "num_batches": 10, "num_trained": 10}],
            losses=[{**MODEL["losses"][0], "shapes": [[1, 10], [1]]}],
        ),
    },
    "a batch that is one set with one label": {
        "vitals": {"batch_size": 1, "input/num_values": 32 * 16},
        "anatomy": model(
            loaders=[ONE_PASS], losses=[{**MODEL["losses"][0], "shapes": [[1, 10], [1]]}]
        ),
    },
    "one value of each sample, as many as a sample has": {
        "vitals": {"input/num_values": 32},
        "anatomy": model(loaders=[{**ONE_PASS, "values_per_sample": 32}]),
    },
    "the same with the batch as the second axis": {
        "vitals": {"batch_size": 1, "input/num_values": 32},
        "anatomy": model(
            loaders=[{**ONE_PASS, "values_per_sample": 32}],
            losses=loss_facts("mse_loss", shapes=[[1, 32], [1, 32]]),
        ),
    },
    "one sample's values, and a loss of one's own": {
        "vitals": {"batch_size": 1, "input/num_values": 16},
        "anatomy": model(loaders=[ONE_PASS], losses=[]),
    },
    "a loader of single samples": {
        "vitals": {"batch_size": 1, "input/num_values": 16},
        "anatomy": model(
            loaders=[{**ONE_PASS, "num_samples": 300, "batch_size": 1}],
            losses=[{**MODEL["losses"][0], "shapes": [[1, 10], [1]]}],
        ),
    },
    "few data in the same order in each epoch": {
        "vitals": {"input/fingerprint": lambda step: 1000 + step % 5},
        "anatomy": model(loaders=[TINY]),
    },
    "few data in an order that is shuffled once": {
        "vitals": {"input/fingerprint": lambda step: 1000 + step % 5},
        "anatomy": model(loaders=[{**TINY, "sampler": "RandomSampler"}]),
    },
    "two steps with each batch": {
        "vitals": {"input/fingerprint": lambda step: 1000 + step // 2},
        "anatomy": model(loaders=[{**ONE_PASS, "num_batches": 150, "num_trained": 150}]),
    },
    "class numbers in order, and other amounts with each": {
        "vitals": {
            "input/fingerprint": lambda step: 1000 + step // 30,
            "input/mean": lambda step: 0.01 * (step % 17),
        },
        "anatomy": model(loaders=[ONE_PASS]),
    },
    "a few labelled samples that are kept, beside a loader of others": {
        "vitals": {"input/fingerprint": lambda step: 1000 + step % 2},
        "anatomy": model(
            loaders=[
                {**ONE_PASS, "sampler": "RandomSampler"},
                {**ONE_PASS, "num_samples": 64, "num_batches": 2, "num_trained": 0},
            ]
        ),
    },
    "copies far apart in data that are read in order": {
        "vitals": {"input/fingerprint": lambda step: 1000 + step % 60},
        "anatomy": model(loaders=[ONE_PASS]),
    },
    "single samples of a few kinds": {
        "vitals": {"input/fingerprint": lambda step: 1000 + step * step % 7 // 2},
        "anatomy": model(loaders=[{**ONE_PASS, "num_samples": 300, "batch_size": 1}]),
    },
    "all data in one batch, which changes now and then": {
        "vitals": {"input/fingerprint": lambda step: 1000 + step // 50},
        "anatomy": model(loaders=[{**ONE_PASS, "batch_size": 9600, "num_passes": STEPS}]),
    },
    "two layers that two modules hold": {
        "anatomy": model(pairs=[{**PAIR, "first": "Net_body.a.weight"}])
    },
    "fine-tuning, which begins far below chance": {
        "vitals": {"update_ratio": 1e-5},
        "loss": lambda step: 0.3 - 1e-4 * step,
    },
    "labels that are mostly chance": {
        "vitals": {"update_ratio": 5e-3},
        "loss": lambda step: 2.05 + 0.25 * 0.97**step,
    },
    "units at their ends that do no harm": {
        "vitals": {"activation/relu/saturated_share": 0.95},
        "loss": lambda step: 0.01 + 2.3 * 0.97**step,
    },
    "a batch that is learnt by heart to test the model": {
        "vitals": {"input/fingerprint": 7},
        "loss": lambda step: 2.3 * 0.95**step,
    },
    "a few shots, and more to try them on": {
        "vitals": {"input/fingerprint": 7, "batch_size": 20},
        "evaluation": {"batch_size": 60},
    },
    "a rate that a plateau lowers at the end": {
        "anatomy": model(schedulers=[{"name": "ReduceLROnPlateau", "num_steps": 30}]),
        "vitals": {"learning_rate/0": lambda step: 0.1 if step < 140 else 1e-9},
    },
    "batches that are drawn by next(iter(loader))": {
        "anatomy": model(loaders=[{**ONE_OF_FORTY, "num_passes": 300, "num_batches": 300}])
    },
    "an evaluation on both": {
        "anatomy": model(loaders=[BOTH, {**UNUSED, "num_batches": 80, "num_evaluated": 80}])
    },
    "targets that grow with what is learnt": {
        "anatomy": model(losses=loss_facts("mse_loss")),
        "vitals": {**AMOUNTS, "target/std": 3.0},
        "loss": lambda step: 0.1 + 0.001 * step,
    },
    "a wait for workers that start": {
        "anatomy": model(
            loaders=[
                {**BOTH, "num_evaluated": 0, "wait_seconds": 60.0, "median_wait_seconds": 1e-3}
            ]
        ),
    },
    "a policy gradient of the right sign": {
        "anatomy": model(policy={"weight": "adv", "num_encouraged": 39, "num_discouraged": 1})
    },
    "one whose optimizer climbs": {
        "anatomy": model(
            optimizers=optimizer(maximize=True),
            policy={"weight": "returns", "num_discouraged": 40},
        )
    },
    "an optimizer for each epoch": {
        "anatomy": model(optimizers=optimizer(momentum=0.9), num_remade=25)
    },
    "a new SGD for each batch, which has no momentum": {"anatomy": model(num_remade=299)},
    "soft labels": {
        "anatomy": model(losses=loss_facts("binary_cross_entropy_with_logits")),
        "vitals": {"target/min": 0.05, "target/max": 0.95},
        "loss": lambda step: 0.2 + 0.5 * 0.985**step,
    },
    "a gradient that fades and does no harm": {**FADING},
    "a head that has hardly begun, on a frozen backbone": {
        "anatomy": model(parameters=parameters(a={"optimizer": None, "requires_grad": False})),
        "vitals": {"update_ratio": 2e-3},
        "loss": flat,
        "num_steps": 120,
    },
    "a residual that is to be 0, with its inputs' gradients": {
        "anatomy": model(losses=loss_facts("mse_loss"), asks_for_others=True),
        "vitals": {**AMOUNTS, "target/min": 0.0, "target/max": 0.0, "target/std": 0.0},
    },
    "answers that are still alike because it has hardly begun": {
        "anatomy": model(losses=loss_facts("mse_loss")),
        "vitals": {
            **AMOUNTS,
            "update_ratio": 2e-3,
            "loss_input/sample_std": 1e-3,
            "target/sample_std": 1.0,
        },
        "loss": lambda step: 1.0 + 3 * 0.97**step,
    },
    "one sample at a time, of as many features as a batch has samples": {
        "vitals": {
            "batch_size": 32,
            "labels/count": 1,
            "labels/min": lambda step: step % 3,
            "labels/max": lambda step: step % 3,
            "labels/num_classes_seen": 1,
            "labels/largest_share": 1.0,
        }
    },
    "descent by hand, of which no weights have arrived yet": {
        "anatomy": model(optimizers=[], parameters=parameters(a={"optimizer": None}))
    },
    "raw scores that stay between 0 and 1 during a slow warm-up": {
        "anatomy": model(outputs=[{"loss": "cross_entropy", "activation": "linear"}]),
        "vitals": {"loss_input/min": 0.1, "loss_input/max": 0.9, "loss_input/row_sum_error": 4.0},
    },
    "a tanh whose targets it reaches": {
        "anatomy": model(
            losses=loss_facts("mse_loss"), outputs=[{"loss": "mse_loss", "activation": "tanh"}]
        ),
        "vitals": {**AMOUNTS, "target/min": -1.0, "target/max": 1.0},
    },
}


@pytest.mark.parametrize("case", HEALTHY)
def test_what_resembles_a_mistake_is_left_alone(case, tmp_path):
    assert judge(Checkup(), course(tmp_path, **HEALTHY[case])) == []


def test_every_rule_has_a_mistake_to_find():
    assert set(WRONG) == {part.name() for part in PARTS}


def test_frozen_parameters_and_those_of_a_head_not_in_use_are_left_alone(tmp_path):
    frozen = parameters(a={"optimizer": None, "requires_grad": False, "ever_had_gradient": False})
    assert found(Checkup(), tmp_path / "frozen", anatomy=model(parameters=frozen)) == []
    idle = parameters(b={"ever_had_gradient": False})
    vitals = {"gradient_missing": 1, "activation/b/std": None}
    reported = found(Checkup(), tmp_path / "idle", anatomy=model(parameters=idle), vitals=vitals)
    assert reported == []


def test_the_gradient_of_a_table_that_is_checked_up_is_small_by_nature(tmp_path):
    wrong = WRONG["FadingGradient"]
    modules = [{"name": "a", "type": "Embedding"}, *({"name": n, "type": "Linear"} for n in "bc")]
    gradients = {"a": 1e-9, "b": 1.0, "c": 1.0, "d": 1.0}
    healthy = {
        **wrong,
        "anatomy": model(
            modules=modules,
            parameters=[{**parameters()[0], "name": f"Net_{n}.weight"} for n in "abcd"],
        ),
        "gradients": lambda name, step: (gradients[name[0]], 1e-9),
    }
    assert found(FadingGradient(), tmp_path / "healthy", **healthy) == []
    unlike = {**healthy, "anatomy": {**healthy["anatomy"], "modules": MODEL["modules"]}}
    assert found(FadingGradient(), tmp_path / "linear", **unlike)


def test_a_rate_that_warms_up_from_zero_and_ends_at_zero_is_healthy(tmp_path):
    def rate(step: int) -> float:
        return step / 100 if step < 100 else (STEPS - 1 - step) / 200

    assert found(Checkup(), tmp_path, vitals={"learning_rate/0": rate}) == []


def test_a_loss_that_lingers_is_not_judged_before_the_end(tmp_path):
    """Read as it grows: at step 200 it is at chance, and at the end it has fallen."""
    trial = course(tmp_path, loss=lambda step: flat(step) if step < 200 else 0.2)
    assert judge(Checkup(), trial) == []


def test_what_is_seen_after_the_loss_became_nan_states_nothing_of_its_cause(tmp_path):
    trial = course(
        tmp_path,
        loss=lambda step: 0.3 if step < 50 else float("nan"),
        vitals={"activation/relu/dead_share": lambda step: step >= 50},
    )
    assert [each.rule for each in judge(Checkup(), trial)] == ["LossNotFinite"]


def test_predictions_that_became_nan_have_no_range(tmp_path):
    wrong = WRONG["OutputRangeTooNarrow"]
    lost = {
        "loss_input/min": lambda step: -5.0 if step < 250 else float("nan"),
        "loss_input/max": lambda step: 5.0 if step < 250 else float("nan"),
    }
    reported = found(
        OutputRangeTooNarrow(),
        tmp_path,
        anatomy=wrong["anatomy"],
        vitals={**wrong["vitals"], **lost},
    )
    assert reported == []


def test_amounts_that_happen_to_be_whole_are_left_alone(tmp_path):
    facts = model(losses=loss_facts("mse_loss"))
    counted = {**AMOUNTS, **TEN_CLASSES, "target/std": 1.5}  # most of them in the middle
    reported = {"anatomy": facts, "loss": lambda step: 1.0 + 20 * 0.97**step}
    assert found(Checkup(), tmp_path / "counts", vitals=counted, **reported) == []
    rated = {**AMOUNTS, **TEN_CLASSES, "target/min": 1.0}
    assert found(Checkup(), tmp_path / "ratings", vitals=rated, **reported) == []
    learnt = {**reported, "loss": lambda step: 0.1 + 20 * 0.97**step}
    vitals = {**AMOUNTS, **TEN_CLASSES}
    assert found(Checkup(), tmp_path / "learnt", vitals=vitals, **learnt) == []


def test_a_loss_that_also_goes_below_zero_is_not_judged_by_its_height(tmp_path):
    def rising(step: int) -> float:
        return 0.5 + 0.1 * step

    def policy(step: int) -> float:
        return -0.5 if step == 40 else rising(step)

    assert found(LossRising(), tmp_path / "rising", loss=rising) != []
    assert found(LossRising(), tmp_path / "policy", loss=policy) == []


def test_large_targets_that_are_reached_are_left_alone(tmp_path):
    facts = model(losses=loss_facts("mse_loss"))
    vitals = {**AMOUNTS, "target/mean": 900.0, "target/std": 300.0, "loss_input/max": 1500.0}
    reported = found(
        Checkup(), tmp_path, anatomy=facts, vitals=vitals, loss=lambda step: 9e5 * 0.97**step
    )
    assert reported == []


def test_a_narrow_layer_between_two_linear_ones_is_a_factorisation(tmp_path):
    first, second = parameters(a={"shape": [4, 16]}, b={"shape": [16, 4]})
    modules = [
        {"name": "Net", "type": "Sequential"},
        *({"name": n, "type": "Linear"} for n in "ab"),
    ]
    facts = model(modules=modules, parameters=[first, second])
    assert found(Checkup(), tmp_path, anatomy=facts) == []


@pytest.mark.parametrize(
    ("counts", "last", "is_found"),
    [
        ({"1": 280, "12": 6}, 0, True),
        ({"1": 280, "2": 6}, 0, True),
        ({"1": 300}, 40, True),
        ({"3": 300, "15": 4}, 0, True),
        ({"1": 300}, 1, False),
        ({"3": 300}, 0, False),
        ({"1": 150, "2": 150}, 0, False),
        ({"9": 30, "17": 41, "25": 60, "40": 51}, 12, False),
    ],
)
def test_forwards_that_no_backward_follows_are_evaluation_where_they_are_rare(
    counts, last, is_found, tmp_path
):
    facts = model(holds_dropout=True, forwards_per_backward=counts, forwards_since_backward=last)
    reported = [each.rule for each in found(Checkup(), tmp_path, anatomy=facts)]
    assert reported == (["EvaluationInTrainingMode"] if is_found else [])


def test_what_the_script_does_between_steps_may_be_slow_data(tmp_path):
    slow = {"between_seconds": 0.1, "step_seconds": 0.11}
    assert [each.rule for each in found(Checkup(), tmp_path / "slow", vitals=slow)] == [
        "SlowDataLoading"
    ]

    def now_and_then(step: int) -> float:
        return 5.0 if step % 10 == 9 else 0.001  # a checkpoint is written

    rare = {"between_seconds": now_and_then, "step_seconds": 0.51}
    assert found(Checkup(), tmp_path / "rare", vitals=rare) == []


def test_amounts_that_stay_at_their_mean_are_not_learnt_however_the_loss_wanders(tmp_path):
    """Batches are small: the first tenth is by luck higher than the last."""

    def noisy(step: int) -> float:
        return 1.05 + 0.1 * math.sin(2.1 * step) + (0.1 if step < 30 else 0)

    facts = model(losses=loss_facts("mse_loss"))
    reported = found(Checkup(), tmp_path, anatomy=facts, vitals=AMOUNTS, loss=noisy)
    assert [each.rule for each in reported] == ["NothingLearnt"]


def test_a_loss_that_is_only_part_of_what_is_trained_on_states_little(tmp_path):
    """A critic cannot tell what a noisy game will bring; the policy learns all the same."""
    facts = model(losses=loss_facts("mse_loss"))
    vitals = {**AMOUNTS, "loss_value": 1.0}
    reported = found(
        Checkup(), tmp_path, anatomy=facts, vitals=vitals, loss=lambda step: 1.4 - step / 2000
    )
    assert reported == []


def test_predictions_that_come_near_one_by_luck_have_no_activation(tmp_path):
    facts = model(losses=loss_facts("mse_loss"))
    near = {
        **AMOUNTS,
        "loss_input/max": lambda step: 0.995 if step == 170 else 0.6,
        "target/min": -2.0,
        "target/max": 2.0,
    }
    assert found(Checkup(), tmp_path, anatomy=facts, vitals=near) == []


def test_of_two_optimizers_that_take_turns_one_may_miss_its_gradients(tmp_path):
    first, second = parameters(a={"ever_had_gradient": False}, b={"optimizer": 1})
    both = [*optimizer(), {**optimizer()[0], "index": 1}]
    facts = model(parameters=[first, second], optimizers=both)
    in_turns = {"gradient_missing": lambda step: step % 2}
    reported = found(Checkup(), tmp_path, anatomy=facts, vitals=in_turns)
    assert [(each.rule, each.tensor) for each in reported] == [("GradientMissing", "Net_a.weight")]


def test_a_loss_near_chance_that_falls_steadily_is_learning_slowly(tmp_path):
    def slow(step: int) -> float:
        return 2.31 - 0.23 * step / STEPS + 0.04 * math.sin(2.1 * step)

    assert found(Checkup(), tmp_path / "slow", loss=slow) == []

    def lower(step: int) -> float:
        return slow(step) if step < 30 else slow(STEPS) + 0.04 * math.sin(2.1 * step)

    reported = found(Checkup(), tmp_path / "still", loss=lower)
    assert [each.rule for each in reported] == ["NothingLearnt"]


@pytest.mark.parametrize(("share", "is_found"), [(0.9, True), (0.95, False)])
def test_how_near_to_chance_is_nothing_learnt_can_be_set(share, is_found, tmp_path):
    level = 0.92 * math.log(10)
    findings = found(NothingLearnt(share=share), tmp_path, loss=lambda step: level)
    assert bool(findings) is is_found


def test_a_rate_that_ruins_the_first_steps_is_named_though_the_loss_comes_back(tmp_path):
    reported = found(
        Checkup(),
        tmp_path,
        vitals={"update_ratio": lambda step: 0.9 if step < 2 else 0.004},
        loss=lambda step: 2.3 if step == 0 else 2.05 + 4 * 0.95**step,
    )
    assert diagnose(reported)[0].cause == "LearningRateTooHigh"


def test_what_stands_before_a_loss_is_called_a_layer(tmp_path):
    (sign,) = found(Checkup(), tmp_path, anatomy=model(outputs=[OUTPUT]))
    assert "the last layer before it is a softmax" in sign.message


def with_biases() -> list[dict[str, Any]]:
    biases = [{**each, "name": f"{each['name'][:-6]}bias", "shape": [16]} for each in parameters()]
    return [*parameters(), *biases]


@pytest.mark.parametrize(
    ("living", "reported"),
    [
        ("bias", "The gradients of all 2 weights are exactly zero while those of biases are not"),
        (
            "b.",
            "The gradients of 1 of 2 weights, up to this weight, are exactly zero while those of",
        ),
    ],
)
def test_the_weights_without_gradients_are_counted_without_contradiction(
    living, reported, tmp_path
):
    def gradients(name: str, step: int) -> tuple[float, float]:
        return (1.0, 1.0) if living in name else (0.0, 0.0)

    vitals = found(
        DeadLayer(),
        tmp_path,
        anatomy=model(parameters=with_biases()),
        gradients=gradients,
        loss=flat,
    )
    assert [each.message[: len(reported)] for each in vitals] == [reported]


LAST = {"last_gradient_step": STEPS - 1}
ADAM = {"betas": [0.9, 0.999], "eps": 1e-8}


def unmoved(fact: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """The case of a lost update, with another fact about the weight that does not move."""
    anatomy = model(parameters=parameters(a={**LAST, **(fact or {})}), **changes.pop("facts", {}))
    return {**WRONG["UpdateLost"], "anatomy": anatomy, **changes}


@pytest.mark.parametrize(
    "case",
    [
        unmoved({"requires_grad": False}),
        unmoved({"optimizer": None}),
        unmoved({"ever_had_gradient": False}),
        unmoved({"last_gradient_step": 3}),
        unmoved({"dtype": "bfloat16"}),
        unmoved({"shape": [256]}),
        unmoved({"tied_to": "Net_b.weight"}),
        unmoved(gradients=lambda name, step: (float(step % 2), 0.01)),
        unmoved(gradients=lambda name, step: (1e-5, 1e-7)),
        unmoved(vitals={"learning_rate/0": lambda step: 0.1 * (step > 290)}),
        unmoved(vitals={"learning_rate/0": 1e-6}),
        unmoved(vitals={"learning_rate/0": lambda step: 0.1 if step > 292 else None}),
        unmoved(vitals={"gradient_norm": 1e-6}),
        unmoved(facts={"modules": [{"name": "a", "type": "Embedding"}]}),
        unmoved(facts={"grad_scaler": "GradScaler"}),
        unmoved(facts={"optimizers": [{**optimizer()[0], "type": "LBFGS"}]}),
        unmoved(facts={"optimizers": [{**optimizer()[0], "num_steps": 5}]}),
        unmoved(
            facts={"optimizers": optimizer(**ADAM)},
            gradients=lambda name, step: (1e-8, 1e-10),
        ),
    ],
    ids=[
        "frozen",
        "of no optimizer",
        "no gradient at an update",
        "a gradient at first only",
        "short floats",
        "a vector at a bound",
        "tied",
        "no gradient at times",
        "hardly a gradient",
        "a rate of zero",
        "hardly a rate",
        "a group that is added late",
        "clipped away",
        "a lookup table",
        "updates that a scaler leaves out",
        "L-BFGS",
        "hardly an update",
        "gradients far below eps",
    ],
)
def test_a_weight_may_have_reasons_not_to_move(case, tmp_path):
    assert found(UpdateLost(), tmp_path, **case) == []


def test_adam_moves_a_weight_by_its_rate_however_small_the_gradient(tmp_path):
    case = unmoved(
        facts={"optimizers": optimizer(**ADAM)},
        vitals={"learning_rate/0": 1e-3},
        gradients=lambda name, step: (1e-4, 1e-6),
    )
    reported = found(UpdateLost(), tmp_path, **case)
    assert [(each.rule, each.tensor, each.step) for each in reported] == [
        ("UpdateLost", "Net_a.weight", 0)
    ]
