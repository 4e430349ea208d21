"""Each rule on vitals fires on its own mistake and on no other, and on nothing that is healthy."""

import math
from pathlib import Path
from typing import Any

import pytest

from tests.rules.checkup.course import MODEL, STEPS, course, flat, found
from tests.rules.checkup.rank_files import of_ranks
from tests.rules.checkup.sensitivity import vitals_of
from tests.rules.recording import judge
from trackside.rules.checkup.checkup import PARTS, Checkup
from trackside.rules.checkup.diagnosis import diagnose
from trackside.rules.checkup.finetuning_use import AdaptersNotTrained, FineTuningRate
from trackside.rules.checkup.hang import Hang
from trackside.rules.checkup.layers import DeadLayer, FadingGradient
from trackside.rules.checkup.loss_terms import LossWithoutBound
from trackside.rules.checkup.loss_use import OutputRangeTooNarrow
from trackside.rules.checkup.model_design import FrozenByMistake
from trackside.rules.checkup.model_outputs import TemperatureTooHigh
from trackside.rules.checkup.modes_use import EvaluationInTrainingMode
from trackside.rules.checkup.objective_use import GeneratorLabelsSwapped
from trackside.rules.checkup.onlooker_use import TargetNetworkFixed
from trackside.rules.checkup.optimizing import OptimizerOfAnotherModel, ParametersNotOptimized
from trackside.rules.checkup.outcomes import LossRising, NothingLearnt, Overfitting
from trackside.rules.checkup.rank_death import RankDied
from trackside.rules.checkup.update_use import UpdateLost
from trackside.rules.saved.evidence import Evidence


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

OUT_OF_BOUNDS = "Target 10 is out of bounds."
OUTPUT = {"loss": "cross_entropy", "activation": "softmax", "axis": 0, "size": 32}
SAVED = {"action": "save", "what": "file", "step": 100, "path": "checkpoints/last.pt"}
SAVED |= {"holds": ["model", "optimizer"]}
LOADED = {**SAVED, "action": "load", "step": -1}
WEIGHTS = {"action": "load", "what": "model", "step": -1, "type": "Net", "is_trained": True}
WEIGHTS |= {"num_keys": 4, "num_matched": 4}
MOMENTUM: dict[str, Any] = {"optimizers": optimizer(momentum=0.9)}
PREFIXED = {**WEIGHTS, "num_matched": 2, "num_missing": 2, "prefix": "module."}
PREFIXED["num_learnt_missing"] = 2
"""Checkpoints, and a model that is given the state in them."""
RESUMED: dict[str, Any] = {"first_step": 150}
BROUGHT = {**WEIGHTS, "what": "optimizer", "rates": [0.1, 0.02]}
"""An optimizer that is given its state, and with it a lower rate."""
CONTINUED: dict[str, Any] = {
    "path": "/opt/ml/input/data/before/last.pt",
    "script": "train.py",
    "is_same_script": True,
    "data": [960],
    "first": {
        "input/fingerprint": [[step, 1000 + step] for step in range(8)],
        "learning_rate/0": [[step, 0.1] for step in range(8)],
    },
    "last": {
        "loss_term/0.cross_entropy": [[step, 2.3 * 0.985**200] for step in range(180, 200)],
        "gradient_norm": [[step, 1 + 0.3 * (step % 7)] for step in range(180, 200)],
        "learning_rate/0": [[step, 0.1] for step in range(180, 200)],
    },
}
"""What lay beside a checkpoint that an earlier job wrote."""
SAME_DATA: dict[str, Any] = {
    "num_samples": 960,
    "batch_size": 32,
    "num_passes": 10,
    "num_batches": 300,
}
SAME_DATA |= {"num_trained": 300, "sampler": "RandomSampler"}
ON_ITS_COURSE = {"loss_term/0.cross_entropy": lambda step: 2.3 * 0.985 ** (200 + step)}
ON_ITS_COURSE |= {"input/fingerprint": lambda step: 5000 + step}


FOLLOWING = {
    "type": "Net",
    "num_evaluations": 6,
    "num_changes": 5,
    "is_copy": True,
    "has_statistics": True,
}
"""A copy that is evaluated, whose weights follow the trained ones."""
EVALUATED = [*MODEL["forwards"], {"training": False, "grad": False, "count": 60}]


def remarked(rule: str, message: str = "So.", **changes: Any) -> dict[str, Any]:
    """The ordinary model, of a script whose text shows a mistake."""
    return model(remarks=[{"rule": rule, "place": "train.py:9", "message": message}], **changes)


def added_up(backwards: dict[str, int]) -> list[dict[str, Any]]:
    return [{**optimizer()[0], "backwards_per_step": backwards}]


def continued(*later: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The anatomy of a job that goes on with what another one has trained."""
    file = {**LOADED, "path": CONTINUED["path"]}
    return model(
        loaders=[SAME_DATA],
        checkpoints=[file, WEIGHTS, *later, SAVED],
        continued={**CONTINUED, **changes},
        **MOMENTUM,
    )


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
HELD_OUT = {"num_samples": 240, "batch_size": 32, "num_passes": 1, "num_batches": 8}
HELD_OUT |= {"num_evaluated": 8}
UNSHUFFLED = {"sampler": "SequentialSampler", "num_passes": 10, "num_altered_starts": 9}
FROZEN_NORM = {"name": "norm", "type": "BatchNorm1d", "momentum": 0.1, "training": True}
FROZEN_NORM |= {"statistics_moved": 0.8}
FROZEN = {"requires_grad": False}
WITH_NORM = [
    *parameters(a=FROZEN)[:1],
    {**MODEL["parameters"][0], **FROZEN, "name": "Net_norm.weight", "shape": [16], "numel": 16},
    *parameters()[1:],
]
ZERO = {**MODEL["parameters"][0], "ever_had_gradient": False, "is_zero": True}
"""A layer and its norm, frozen after they were trained, below one that is trained."""
FADING: dict[str, Any] = {
    "anatomy": model(parameters=[{**parameters()[0], "name": f"Net_{n}.weight"} for n in "abc"]),
    "weights": moving,
    "gradients": lambda name, step: (10.0 ** (3 * ord(name[0]) - 300), 1e-9),
}

TEXT: dict[str, Any] = {
    "model": "LlamaForCausalLM",
    "is_pretrained": True,
    "num_batches": 3,
    "num_rows": 24,
    "num_tokens": 700,
    "num_trained": 260,
    "num_shifted_1": 260,
    "num_compared_0": 260,
    "num_compared_1": 260,
    "num_compared_2": 250,
    "num_ends_trained": 24,
    "num_prompt_tokens": 170,
    "num_evaluated": 16,
    "widths": [30],
}
"""Of an ordinary fine-tuning, as seen in its first batches."""


def text(**changes: Any) -> dict[str, Any]:
    return {"anatomy": model(text={**TEXT, **changes})}


def adapted(
    *, base: dict[str, Any], factors: dict[str, Any], rate: float = 2e-4, **changes: Any
) -> dict[str, Any]:
    """A linear layer with an adapter, in the layout of PEFT."""
    names = {"q.base_layer.weight": base, "q.lora_A.d.weight": factors}
    names["q.lora_B.d.weight"] = factors
    made = [{**parameters()[0], "name": f"Net_{n}", **each} for n, each in names.items()]
    adamw = [{**MODEL["optimizers"][0], "type": "AdamW", "groups": [{"lr": rate}]}]
    return {"anatomy": model(parameters=made, optimizers=adamw, **changes)}


SUMMED = {**MODEL["losses"][0], "reduction": "sum", "is_objective": True}
RIVALS = model(
    models=["Generator", "Discriminator"],
    optimizers=[*optimizer(), {**optimizer()[0], "index": 1}],
    losses=loss_facts("binary_cross_entropy_with_logits"),
)


def rivals(steps_of_round: int) -> dict[str, Any]:
    """Two of which each loss, or sum of losses, has a step of its own."""
    both = [{**each, "num_steps": STEPS // steps_of_round} for each in RIVALS["optimizers"]]
    return {**RIVALS, "optimizers": [{**each, "last_step": STEPS - 1} for each in both]}


TARGET_NETWORK = {
    "name": "target_net",
    "type": "Net",
    "num_calls": 300,
    "num_checked": 256,
    "is_copy": True,
}


def weighted(weights: list[float], counts: list[int]) -> list[dict[str, Any]]:
    return [{**MODEL["losses"][0], "weights": weights, "class_counts": counts}]


LEFT_OUT = {"optimizer": None, "requires_grad": False, "ever_had_gradient": False}
WRONG: dict[str, dict[str, Any]] = {
    "Crash": {"anatomy": model(crash={"error": "IndexError", "message": OUT_OF_BOUNDS})},
    "UnequalSteps": {"ranks": of_ranks(updates=lambda rank, number: number if rank == 0 else 0)},
    "ReplicasDiffer": {
        "ranks": of_ranks(hashes=lambda rank, number, place: rank == 2 and place == 1)
    },
    "AveragedRanksDiffer": {
        "ranks": of_ranks(
            facts=lambda rank: {"num_called": 0, "group": []},
            roles=("own", "own", "buffer"),
            hashes=lambda rank, number, place: rank == 2 and place == 1,
        )
    },
    "BuffersNotShared": {
        "ranks": of_ranks(facts=lambda rank: {"keeps_buffers": True}),
        "evaluation": {"batch_size": 100},
    },
    "SameDataOnRanks": {"ranks": of_ranks(fingerprint=lambda rank, number: number)},
    "SlowRank": {"ranks": of_ranks(own=lambda rank: 0.02 if rank == 1 else 0.005)},
    "NothingSupervised": text(num_trained=0, num_shifted_1=0, num_compared_1=0),
    "TargetsShiftedWrongly": text(num_shifted_1=9, num_shifted_2=250),
    "TemplateMisused": text(num_doubled_starts=24),
    "EndNeverTrained": text(num_ends_trained=0, num_ends_masked=24, is_pad_end=True),
    "PaddingAttended": text(num_padded_left=20),
    "NewTokensNotTrained": text(num_blank_tokens=6),
    "AdaptersNotTrained": adapted(base=LEFT_OUT, factors=LEFT_OUT),
    "LossScaledWrongly": {
        "anatomy": model(
            text={**TEXT, "scales": [1.0] * 12},
            optimizers=[{**MODEL["optimizers"][0], "backwards_per_step": {"4": 3}}],
        )
    },
    "PromptTrained": text(num_prompt_trained=170),
    "AnswersCutOff": text(num_cut=20, num_ends_trained=4),
    "PackedTextsMixed": text(num_packed=24),
    "BaseNotFrozen": adapted(base={}, factors={}),
    "FineTuningRate": {
        "anatomy": model(
            text=TEXT,
            optimizers=[{**MODEL["optimizers"][0], "type": "AdamW", "groups": [{"lr": 5e-4}]}],
        ),
        "vitals": {"learning_rate/0": 5e-4},
    },
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
    "DropoutInEvaluation": {"anatomy": model(dropped_in_evaluation={"train.py:14": 30})},
    "BatchNormStatistics": {
        "anatomy": model(
            modules=[*MODEL["modules"], {"name": "n", "type": "BatchNorm1d", "momentum": 0.001}],
            forwards=[*MODEL["forwards"], {"training": False, "grad": False, "count": 30}],
        )
    },
    "ClippedAfterStep": {"anatomy": model(num_clipped_late=STEPS)},
    "ScaleNotRemoved": {"anatomy": model(grad_scaler="GradScaler", num_scaled=STEPS)},
    "Float16Overflow": {
        "anatomy": model(autocast="float16"),
        "vitals": {"gradient_norm": lambda step: 2.0 if step < 40 else math.inf},
        "loss": lambda step: 2.3 - 0.01 * step if step < 41 else math.nan,
    },
    "SameOrderEachEpoch": {
        "anatomy": model(
            loaders=[{**TINY, "sampler": "RandomSampler", "num_same_starts": 59}],
        ),
        "vitals": {"input/fingerprint": lambda step: 1000 + step % 5},
    },
    "AccumulationInverted": {
        "anatomy": model(
            loaders=[ONE_PASS],
            optimizers=[{**optimizer()[0], "num_steps": 225}],
            rhythm={"num_single": 150, "num_double": 75, "gaps": {"2": 74, "0": 1}},
        )
    },
    "WeightsUntied": {
        "anatomy": model(parameters=parameters(b={"copied_from": "Net_a.weight"})),
        "weights": lambda name, step: (9.0 + (0.01 if "a." in name else 0.02) * step, 0.2, -0.2),
    },
    "IteratorUsedUp": {
        "anatomy": model(loaders=[ONE_PASS, {**HELD_OUT, "num_used_up": 4}]),
        "evaluation": {"batch_size": lambda step: 50 if step < 60 else None},
    },
    "SamplesNeverDrawn": {
        "anatomy": model(loaders=[{**TINY, "num_samples": 180, "drops_last": True}])
    },
    "StaleCopyEvaluated": {
        "anatomy": model(
            evaluated=[{"type": "Net", "num_evaluations": 5, "num_changes": 0, "is_copy": True}]
        )
    },
    "AutocastWithoutEffect": {"anatomy": model(precision={"num_asked": 50, "num_full": 100})},
    "LabelsShuffledApart": {
        "anatomy": model(
            remarks=[{"rule": "LabelsShuffledApart", "place": "train.py:9", "message": "Apart."}]
        ),
        "loss": flat,
    },
    "FreezeNeverCalled": {
        "anatomy": model(
            remarks=[{"rule": "FreezeNeverCalled", "place": "train.py:9", "message": "Never."}]
        )
    },
    "MetricMiscomputed": {"anatomy": remarked("MetricMiscomputed", forwards=EVALUATED)},
    "WorstWeightsKept": {
        "anatomy": remarked("WorstWeightsKept", forwards=EVALUATED),
        "evaluation_loss": lambda step: 2 - step / STEPS,
    },
    "AugmentedAlike": {"anatomy": remarked("AugmentedAlike", loaders=[SAME_DATA])},
    "ScheduleInOtherUnits": {
        "anatomy": remarked(
            "ScheduleInOtherUnits",
            "CosineAnnealingLR of line 3 counts epochs.",
            loaders=[SAME_DATA],
            schedulers=[{"name": "CosineAnnealingLR", "num_steps": STEPS}],
        )
    },
    "ScheduleBeforeOptimizer": {
        "anatomy": remarked(
            "ScheduleBeforeOptimizer",
            optimizers=optimizer(initial_lr=1.0),
            schedulers=[{"name": "StepLR", "num_steps": 10}],
        )
    },
    "ScheduleOfAnotherOptimizer": {
        "anatomy": model(schedulers=[{"name": "StepLR", "num_steps": 12, "num_idle": 9}])
    },
    "TimeDrawnAgain": {"anatomy": remarked("TimeDrawnAgain")},
    "NoiseNotAdded": {"anatomy": remarked("NoiseNotAdded"), "loss": flat},
    "TemperatureOnOneSide": {
        "anatomy": remarked("TemperatureOnOneSide", losses=loss_facts("kl_div"))
    },
    "ScheduleNeverStepped": {"anatomy": remarked("ScheduleNeverStepped")},
    "MeanOfMeans": {
        "anatomy": remarked("MeanOfMeans", forwards=EVALUATED),
        "evaluation_loss": lambda step: 0.5,
        "last_batch": (3, 9.0),
    },
    "AverageMisweighted": {
        "anatomy": model(evaluated=[{**FOLLOWING, "followed": 0.04, "behind": 90.0}])
    },
    "FrozenNormsDrift": {
        "anatomy": model(
            modules=[*MODEL["modules"], FROZEN_NORM],
            parameters=WITH_NORM,
            forwards=EVALUATED,
        )
    },
    "EvaluationAugmented": {
        "anatomy": model(loaders=[ONE_PASS, {**HELD_OUT, **UNSHUFFLED}]),
        "evaluation": {"batch_size": 50},
    },
    "TargetWithGradients": {
        "anatomy": remarked(
            "TargetWithGradients", forwards=[{"training": True, "grad": True, "count": 2 * STEPS}]
        )
    },
    "AccumulationMiscounted": {
        "anatomy": remarked("AccumulationMiscounted", optimizers=added_up({"4": 40, "1": 10}))
    },
    "AccumulationNotDivided": {
        "anatomy": remarked(
            "AccumulationNotDivided",
            optimizers=added_up({"4": 50}),
            losses=[{**MODEL["losses"][0], "is_objective": True}],
        )
    },
    "MaskNotUsed": {"anatomy": remarked("MaskNotUsed")},
    "CopyNotMade": {"anatomy": remarked("CopyNotMade")},
    "AverageLeftIn": {
        "anatomy": remarked(
            "AverageLeftIn", forwards=[{"training": False, "grad": False, "count": 60}]
        )
    },
    "AdapterMergedTwice": {
        "anatomy": remarked(
            "AdapterMergedTwice", forwards=[{"training": False, "grad": False, "count": 60}]
        )
    },
    "WorkersSeededAlike": {
        "anatomy": model(
            loaders=[{**ONE_PASS, "num_passes": 3, "num_workers": 2}],
            remarks=[{"rule": "WorkersSeededAlike", "place": "train.py:9", "message": "Alike."}],
        )
    },
    "SamplerWeightsReversed": {
        "anatomy": model(
            loaders=[
                {**ONE_PASS, "sampler": "WeightedRandomSampler", "is_weighted_by_counts": True}
            ]
        )
    },
    "FewDistinctSamples": {
        "anatomy": model(loaders=[ONE_PASS]),
        "vitals": {"input/new_share": lambda step: float(step == 0)},
    },
    "TrainedOnEvaluationData": {
        "vitals": {"input/new_share": lambda step: float(step < 15)},
        "evaluation": {
            "batch_size": 50,
            "input/trained_share": lambda step: 0.5 if step < 60 else None,
        },
    },
    "SameTargets": {
        "anatomy": model(losses=loss_facts("mse_loss")),
        "vitals": {**AMOUNTS, "target/fingerprint": 77},
    },
    "ClassesRenamed": {
        "vitals": {"accuracy": 0.97},
        "evaluation": {"batch_size": 50, "accuracy": 0.02, "renamed_accuracy": 0.95},
    },
    "TargetLeaks": {"vitals": {"input/off_line": 1e-13, "input/num_values": 320}},
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
    "WeightsNotLoaded": {"anatomy": model(checkpoints=[{**WEIGHTS, "num_matched": 0}])},
    "WeightsPartlyLoaded": {"anatomy": model(checkpoints=[PREFIXED])},
    "StateNotRestored": {"anatomy": model(checkpoints=[LOADED, WEIGHTS, SAVED], **MOMENTUM)},
    "OptimizerNotSaved": {
        "anatomy": model(
            checkpoints=[{**LOADED, "holds": ["model"]}, WEIGHTS, {**SAVED, "holds": ["model"]}],
            **MOMENTUM,
        )
    },
    "BestWeightsNotCopied": {
        "anatomy": model(checkpoints=[{**WEIGHTS, "step": 250, "is_own": True}])
    },
    "LossJumpsAtResume": {
        "anatomy": model(**RESUMED),
        "loss": lambda step: (0.1 if step < 150 else 1.6) + 0.01 * (step % 3),
    },
    "GradientJumpsAtResume": {
        "anatomy": model(**RESUMED),
        "vitals": {
            "gradient_norm": lambda step: (1 if step < 150 else 12) * (1 + 0.1 * (step % 7))
        },
    },
    "OldRateBroughtBack": {
        "anatomy": model(
            checkpoints=[LOADED, WEIGHTS, BROUGHT],
            schedulers=[{"name": "StepLR", "num_steps": 300, "first_epoch": 0}],
        ),
        "vitals": {"learning_rate/0": lambda step: 0.02 * 0.999**step},
    },
    "RateJumpsAtResume": {
        "anatomy": model(**RESUMED),
        "vitals": {"learning_rate/0": lambda step: 0.1 * 0.97 ** (step % 150)},
    },
    "DataRepeatedAtResume": {
        "anatomy": model(loaders=[{**ONE_PASS, "sampler": "RandomSampler"}], **RESUMED),
        "vitals": {"input/fingerprint": lambda step: 1000 + step % 150},
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
    "InputNotFinite": {
        "vitals": {"input/mean": lambda step: float("nan") if step == 7 else 0.0},
        "loss": lambda step: 2.0 / (1 + step) if step < 7 else float("nan"),
    },
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
    "ClassWeightsReversed": {"anatomy": model(losses=weighted([9.0, 1.0], [800, 100]))},
    "RealClassIgnored": {
        "anatomy": model(losses=[{**MODEL["losses"][0], "ignored": 0}]),
        "vitals": {"labels/ignored_inside": 0.3},
    },
    "SmoothedTwice": {
        "anatomy": model(losses=[{**MODEL["losses"][0], "smoothing": 0.1}]),
        "vitals": {"target/soft_min": 0.02},
    },
    "LossSummed": {
        "anatomy": model(losses=[SUMMED]),
        "loss": lambda step: 2.3 if step < 20 else float("nan"),
    },
    "AdvantageTrained": {"anatomy": model(objective={"num_weights_trained": 10})},
    "RatioAlwaysOne": {"anatomy": model(objective={"num_repeated": 30, "num_repeated_alike": 30})},
    "TeacherTrained": {"anatomy": model(objective={"target_trained": "Teacher_a.weight"})},
    "DeviationNotTaken": {"anatomy": model(objective={"raw_spread": "logarithm"})},
    "DivergenceRaised": {"anatomy": model(objective={"num_divergences_raised": 3})},
    "EntropyLowered": {"anatomy": model(objective={"num_entropies_lowered": 40})},
    "EpisodeEndIgnored": {"anatomy": model(objective={"num_ends": 40, "num_ends_changed": 38})},
    "TargetIsOwnOutput": {
        "anatomy": model(losses=loss_facts("kl_div")),
        "vitals": {**AMOUNTS, "loss_value": 2e-7, "loss_input/sample_std": 0.1},
        "loss": lambda step: 2e-7,
    },
    "PairedWithItself": {
        "vitals": {
            "likeness/is_mirrored": 1.0,
            "likeness/on_diagonal": 1.0,
            "likeness/is_own_highest": 1.0,
        }
    },
    "GeneratorLabelsSwapped": {
        "anatomy": RIVALS,
        "vitals": {f"loss_term/{number}.binary_cross_entropy": 0.15 for number in range(3)},
    },
    "TargetNetworkFixed": {"anatomy": model(onlookers=[TARGET_NETWORK])},
    "TeacherDropsOut": {
        "anatomy": model(
            losses=loss_facts("kl_div"),
            onlookers=[{**TARGET_NETWORK, "name": "teacher", "drops": True}],
        ),
        "vitals": AMOUNTS,
    },
    "EvaluatedBeforeTraining": {
        "anatomy": model(num_evaluated_early=8, loaders=[{**SAME, "num_trained": STEPS}])
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
    "a job that goes on with another one, at a loss far above": (
        "LossJumpsAtResume",
        {
            "anatomy": continued({**WEIGHTS, "what": "optimizer"}),
            "vitals": {**ON_ITS_COURSE, "loss_term/0.cross_entropy": lambda s: 2.3 * 0.985**s},
        },
    ),
    "a job that goes on with another one, at gradients of a tenth": (
        "GradientJumpsAtResume",
        {
            "anatomy": continued({**WEIGHTS, "what": "optimizer"}),
            "vitals": {**ON_ITS_COURSE, "gradient_norm": lambda s: 0.1 + 0.03 * (s % 7)},
        },
    ),
    "a job that goes on with another one, without the optimizer": (
        "StateNotRestored",
        {"anatomy": continued(), "vitals": ON_ITS_COURSE},
    ),
    "an optimizer that is made anew after its state was loaded": (
        "StateNotRestored",
        {
            "anatomy": model(
                checkpoints=[LOADED, WEIGHTS, {**WEIGHTS, "what": "optimizer", "is_idle": True}]
                + [SAVED],
                **MOMENTUM,
            )
        },
    ),
    "a job that goes on with another one, and its schedule does not": (
        "RateJumpsAtResume",
        {
            "anatomy": continued(
                {**WEIGHTS, "what": "optimizer"},
                last={
                    **CONTINUED["last"],
                    "learning_rate/0": [[s, 0.1 * 0.98**s] for s in range(180, 200)],
                },
            ),
            "vitals": {**ON_ITS_COURSE, "learning_rate/0": lambda s: 0.1 * 0.98**s},
        },
    ),
    "a new model in the same process, whose first batch is counted to the step before": (
        "DataRepeatedAtResume",
        {
            "anatomy": model(loaders=[{**ONE_PASS, "sampler": "RandomSampler"}], **RESUMED),
            "vitals": {"input/fingerprint": lambda step: 1000 + step % 149},
        },
    ),
    "a job that goes on with another one, and the data begin again": (
        "DataRepeatedAtResume",
        {
            "anatomy": continued({**WEIGHTS, "what": "optimizer"}),
            "vitals": {**ON_ITS_COURSE, "input/fingerprint": lambda s: 1000 + s},
        },
    ),
    "a schedule that sets its first rate when it steps": (
        "RateJumpsAtResume",
        {
            "anatomy": model(**RESUMED),
            "vitals": {
                "learning_rate/0": lambda s: 0.1 * 0.97 ** (149 if s in (149, 150) else s % 150)
            },
        },
    ),
    "weights in bfloat16 that most updates leave as they were": (
        "LowPrecisionWeights",
        {
            "anatomy": model(parameters=parameters(a={"dtype": "bfloat16"})),
            "vitals": {"update_lost_share": 0.9, "update_ratio": 2e-5},
            "loss": lambda step: 2.3 - 1e-4 * step,
        },
    ),
    "a weight that is set back from some step on": (
        "UpdateLost",
        {
            "anatomy": model(parameters=parameters(a={"last_gradient_step": STEPS - 1})),
            "weights": lambda name, step: moving(name, min(step, 90) if name[0] == "a" else step),
            "gradients": lambda name, step: (1.0, 0.01),
        },
    ),
    "images that are normalised in training only": (
        "EvaluationInputDiffers",
        {"evaluation": {"input/mean": 0.28, "input/std": 0.17}},
    ),
    "all that is evaluated is trained on": (
        "TrainedOnEvaluationData",
        {
            "vitals": {"input/new_share": 0.9},
            "evaluation": {
                "batch_size": 50,
                "input/trained_share": lambda step: 1.0 if step < 60 else None,
            },
        },
    ),
    "a loader that stood still once": (
        "SlowDataLoading",
        {"anatomy": model(loaders=[{**ONE_PASS, "longest_wait_seconds": 40.0}])},
    ),
    "an average with its weights swapped": (
        "AverageMisweighted",
        {"anatomy": model(evaluated=[{**FOLLOWING, "followed": 0.99, "behind": 0.02}])},
    ),
    "a shuffled loader that is cycled": (
        "SameOrderEachEpoch",
        {
            "anatomy": remarked(
                "SameOrderEachEpoch", loaders=[{**SAME_DATA, "num_passes": 1, "num_batches": 30}]
            )
        },
    ),
    "both factors of adapters that were added later": (
        "SymmetricWeights",
        {
            "anatomy": model(
                parameters=[
                    *parameters(a=FROZEN, b=FROZEN),
                    *({**ZERO, "name": f"Net_b.{name}.weight"} for name in ("down", "up")),
                ]
            )
        },
    ),
    "evaluated samples that were trained on, and a small last batch without": (
        "TrainedOnEvaluationData",
        {
            "vitals": {"input/new_share": lambda step: float(step < 15)},
            "evaluation": {
                "batch_size": lambda step: 4 if step == 59 else 100,
                "input/trained_share": lambda step: float(step != 59) / 2 if step < 80 else None,
            },
        },
    ),
    "batch norm with the momentum of Keras": (
        "BatchNormStatistics",
        {
            "anatomy": model(
                modules=[*MODEL["modules"], {"name": "n", "type": "BatchNorm1d", "momentum": 0.99}],
                forwards=[*MODEL["forwards"], {"training": False, "grad": False, "count": 30}],
            )
        },
    ),
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
    "batches that are collated to their first sample": (
        "OneSampleOfBatch",
        {
            "vitals": {"batch_size": 1, "input/num_values": 17},
            "anatomy": model(
                loaders=[{**ONE_PASS, "values_per_sample": None, "num_rows": 1}],
                losses=[{**MODEL["losses"][0], "shapes": [[1, 10], [1]]}],
            ),
        },
    ),
    "ranks that shuffle without set_epoch": (
        "SameOrderEachEpoch",
        {
            "anatomy": model(
                loaders=[
                    {
                        **TINY,
                        "sampler": "DistributedSampler",
                        "is_shuffled": True,
                        "num_same_starts": 59,
                    }
                ],
            ),
            "vitals": {"input/fingerprint": lambda step: 1000 + step % 5},
        },
    ),
    "spectral norms in evaluation mode": (
        "TrainingInEvaluationMode",
        {
            "anatomy": model(
                holds_spectral_norm=True, backwards=[{"training": False, "count": STEPS}]
            )
        },
    ),
    "a rate by hand that begins again, and a file that is written on": (
        "RateJumpsAtResume",
        {
            "anatomy": model(
                checkpoints=[
                    SAVED,
                    {**LOADED, "step": 150},
                    {**WEIGHTS, "step": 150},
                    {**WEIGHTS, "what": "optimizer", "step": 150},
                    {**SAVED, "step": 290},
                ]
            ),
            "vitals": {
                "learning_rate/0": lambda step: (
                    0.1 * 0.5 ** (step // 50 if step <= 150 else (step - 151) // 40)
                )
            },
        },
    ),
    "a step that is left out from the middle on": (
        "UpdatesStop",
        {"anatomy": model(optimizers=[{**optimizer()[0], "num_steps": 150, "last_step": 149}])},
    ),
    "gradients that one of two optimizers never clears": (
        "ForgottenZeroGrad",
        {
            "vitals": {
                "leftover_gradients": lambda step: step % 2,
                "leftover_gradients/0": 0.0,
                "leftover_gradients/1": lambda step: step > 0,
            }
        },
    ),
    "texts that a script packs itself": (
        "PackedTextsMixed",
        {"anatomy": remarked("PackedTextsMixed"), "vitals": {"tokens/shifted_share": 1.0}},
    ),
    "labels shifted twice, of a model of one's own": (
        "TargetsShiftedWrongly",
        {
            "vitals": {
                "tokens/second_share": 1.0,
                "tokens/shifted_share": 0.1,
                "tokens/num_inputs": 1.0,
            }
        },
    ),
    "a mask of labels that is the wrong way round": (
        "PromptTrained",
        {"vitals": {"tokens/heads_share": lambda step: 1.0 - 0.1 * (step % 4 == 3)}},
    ),
    "adapters of one's own beside weights that are trained": (
        "BaseNotFrozen",
        {
            "anatomy": model(
                parameters=[
                    {**parameters()[0], "name": f"Net_attention.q.{name}.weight"}
                    for name in ("linear", "lora_down", "lora_up")
                ]
            )
        },
    ),
    "an average with the statistics of another model": (
        "BatchNormStatistics",
        {
            "anatomy": model(
                modules=[*MODEL["modules"], {"name": "norm", "type": "BatchNorm1d"}],
                evaluated=[FOLLOWING],
            )
        },
    ),
    "an advantage of value less return": (
        "PolicyGradientReversed",
        {"anatomy": remarked("PolicyGradientReversed", policy={"num_encouraged": 40})},
    ),
    "an end of episodes that is read and not used": (
        "EpisodeEndIgnored",
        {"anatomy": remarked("EpisodeEndIgnored")},
    ),
    "a data set whose length is in batches": (
        "SamplesNeverDrawn",
        {"anatomy": remarked("SamplesNeverDrawn", loaders=[SAME_DATA])},
    ),
    "nodes of a graph that are shuffled apart from its edges": (
        "LabelsShuffledApart",
        {
            "anatomy": remarked("LabelsShuffledApart", "edge_index still has their old numbers."),
        },
    ),
    "inputs that are sorted apart from their labels": (
        "LabelsShuffledApart",
        {
            "anatomy": remarked("LabelsShuffledApart", "x is sorted by itself."),
            "loss": lambda step: 2.2 - step / STEPS,
        },
    ),
    "rows that are read by the place of a batch whose loader shuffles": (
        "LabelsShuffledApart",
        {
            "anatomy": remarked("LabelsShuffledApart", "x is read by the place of the batch."),
            "loss": lambda step: 2.2 - step / STEPS,
        },
    ),
    "a variance whose growth costs nothing": (
        "LossWithoutBound",
        {"anatomy": model(objective={"has_free_precision": True})},
    ),
    "a log softmax along the samples": (
        "LossInputNotLogProbabilities",
        {"anatomy": model(objective={"softmax_over_samples": [32, 10]})},
    ),
    "samples of evaluation that the first pass has trained on": (
        "TrainedOnEvaluationData",
        {
            "anatomy": model(loaders=[{**SAME_DATA, "num_samples": 320}]),
            "vitals": {"input/new_share": lambda step: float(step < 20)},
            "evaluation": {
                "batch_size": 50,
                "input/trained_share": lambda step: 0.5 if step < 60 else None,
            },
        },
    ),
    "a loader of less than one batch, which is dropped": (
        "SamplesNeverDrawn",
        {
            "anatomy": model(
                loaders=[
                    ONE_PASS,
                    {
                        "num_samples": 20,
                        "batch_size": 32,
                        "sampler": "SequentialSampler",
                        "drops_last": True,
                    },
                ]
            )
        },
    ),
    "a weight that is replaced on the way": (
        "ParametersNotOptimized",
        {
            "anatomy": model(
                parameters=parameters(b={"optimizer": None, "first_gradient_step": 100})
            ),
            "weights": lambda name, step: (
                9.0 + 0.01 * (step if "a." in name else min(step, 90)),
                0.2,
                -0.2,
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
    "adapters that are made, given to the optimizer, and not put into the model": (
        "OptimizerOfAnotherModel",
        {
            "anatomy": model(
                parameters=parameters(a={"optimizer": None, "requires_grad": False}),
                optimizers=optimizer(num_parameters=9),
            ),
            "vitals": {"gradient_missing": 8},
            "loss": flat,
        },
    ),
    "a frozen base, and gradients that others of the optimizer have now and then": (
        "FrozenByMistake",
        {
            "anatomy": model(
                parameters=parameters(a={"optimizer": None, "requires_grad": False}),
                optimizers=optimizer(num_parameters=9),
            ),
            "vitals": {"gradient_missing": lambda step: 8 if step % 2 else 0},
            "loss": flat,
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
    "adapters in a copy of a model that was trained before": {
        "anatomy": model(
            parameters=[
                {**parameters()[0], "name": f"Net_a.{name}", "optimizer": index}
                for name, index in (("weight", 0), ("lora_A", 1), ("lora_B", 1))
            ],
            optimizers=[*optimizer(), {**optimizer()[0], "index": 1}],
        )
    },
    "two optimizers, of which the one clears what the other leaves": {
        "vitals": {
            "leftover_gradients": lambda step: step % 2,
            "leftover_gradients/0": lambda step: step % 3 == 0,
            "leftover_gradients/1": lambda step: step % 2,
        }
    },
    "texts that are packed for another purpose than their next tokens": {
        "anatomy": remarked("PackedTextsMixed"),
        "vitals": {"tokens/shifted_share": 0.1},
    },
    "an average that is put in where nothing is evaluated": {
        "anatomy": remarked(
            "AverageLeftIn", forwards=[{"training": True, "grad": True, "count": STEPS}]
        )
    },
    "a generator of the data set, and a loader without workers": {
        "anatomy": remarked(
            "AugmentedAlike",
            "self.rng is copied into the loader's workers.",
            loaders=[{**SAME_DATA, "num_workers": 0}],
        )
    },
    "texts of one token over and over": {
        "vitals": {
            "tokens/second_share": 1.0,
            "tokens/shifted_share": 1.0,
            "tokens/num_inputs": 1.0,
        }
    },
    "some texts of which only the beginning is trained on": {"vitals": {"tokens/heads_share": 0.5}},
    "adapters of one's own beside frozen weights": {
        "anatomy": model(
            parameters=[
                {**parameters()[0], "name": "Net_q.linear.weight"} | LEFT_OUT,
                {**parameters()[0], "name": "Net_q.lora_down.weight"},
                {**parameters()[0], "name": "Net_q.lora_up.weight"},
            ]
        )
    },
    "missing values that the model fills in": {"vitals": {"input/mean": float("nan")}},
    "a first state of zeros beside the input": {
        "vitals": {"input/std": 0.0, "input/mean": 0.0, "input/others_vary": 1.0}
    },
    "rare classes that weigh more": {"anatomy": model(losses=weighted([1.0, 9.0], [900, 100]))},
    "weights of classes that are about equally frequent": {
        "anatomy": model(losses=weighted([2.0, 1.0], [600, 400]))
    },
    "a class that weighs most and is neither rare nor frequent": {
        "anatomy": model(losses=weighted([1.0, 5.0, 2.0], [800, 400, 100]))
    },
    "padding that is a token": {
        "anatomy": model(
            losses=[{**MODEL["losses"][0], "ignored": 0}],
            modules=[{"name": "table", "type": "Embedding"}, *MODEL["modules"]],
            parameters=[
                {**MODEL["parameters"][0], "name": "Net_table.weight", "shape": [10, 16]},
                *MODEL["parameters"],
            ],
        ),
        "vitals": {"labels/ignored_inside": 0.3},
    },
    "a padding that is never inside": {
        "anatomy": model(losses=[{**MODEL["losses"][0], "ignored": 0}]),
        "vitals": {"labels/ignored_inside": 0.0},
    },
    "smoothing of mixed labels": {
        "anatomy": model(losses=[{**MODEL["losses"][0], "smoothing": 0.1}]),
        "vitals": {"target/soft_min": 0.0},
    },
    "a sum that is learnt": {"anatomy": model(losses=[SUMMED])},
    "a sum that is divided by the batch and diverges": {
        "anatomy": model(losses=[{**SUMMED, "is_objective": False}])
    },
    "ratios of 1 in the first epoch of each batch": {
        "anatomy": model(objective={"num_repeated": 30, "num_repeated_alike": 10})
    },
    "a model that is evaluated before its training, and after": {
        "anatomy": model(
            num_evaluated_early=8,
            forwards=[{"training": False, "grad": False, "count": 8}, *MODEL["forwards"]],
            loaders=[{**SAME, "num_trained": STEPS}],
        )
    },
    "rare positives that weigh more, whose loss is above that of a coin": {
        "anatomy": model(
            losses=[
                {
                    "name": "BCEWithLogitsLoss",
                    "function": "binary_cross_entropy_with_logits",
                    "shapes": [[32], [32]],
                    "weights": [1.0, 25.0],
                    "class_counts": [960, 40],
                }
            ]
        ),
        "loss": lambda step: 0.74 + 0.6 * 0.97**step,
        "vitals": dict.fromkeys(("labels/min", "labels/max", "labels/num_classes_seen")),
    },
    "a divergence that is lowered": {"anatomy": model(objective={"num_divergences_lowered": 3})},
    "an entropy that is raised": {"anatomy": model(objective={"num_entropies_raised": 40})},
    "ends that are worth their reward": {"anatomy": model(objective={"num_ends": 40})},
    "likenesses to others, without one's own": {
        "vitals": {
            "likeness/is_mirrored": 1.0,
            "likeness/on_diagonal": 0.0,
            "likeness/is_own_highest": 0.0,
        }
    },
    "likenesses of two views": {
        "vitals": {
            "likeness/is_mirrored": 0.0,
            "likeness/on_diagonal": 1.0,
            "likeness/is_own_highest": 0.4,
        }
    },
    "a generator and a discriminator that are opposed": {
        "anatomy": RIVALS,
        "vitals": {f"loss_term/{number}.binary_cross_entropy": 0.69 for number in range(3)},
    },
    "a discriminator that wins, whose steps alone are sampled late": {
        "anatomy": rivals(steps_of_round=2),
        "vitals": {
            "loss_term/0.binary_cross_entropy": lambda step: (
                0.01 if step % 2 == 0 else 5.0 if step < 50 else None
            ),
            "loss_term/1.binary_cross_entropy": lambda step: 0.01 if step % 2 == 0 else None,
        },
    },
    "rivals that take turns, each loss with a step of its own": {
        "anatomy": rivals(steps_of_round=3),
        "vitals": {"loss_term/0.binary_cross_entropy": lambda step: 4.0 if step % 6 == 2 else 0.05},
    },
    "a target network that is updated": {
        "anatomy": model(onlookers=[{**TARGET_NETWORK, "is_changed": True}])
    },
    "a random network that is to be predicted": {
        "anatomy": model(onlookers=[{**TARGET_NETWORK, "is_copy": False}])
    },
    "a reference that stays as it is": {
        "anatomy": model(onlookers=[{**TARGET_NETWORK, "name": "reference"}])
    },
    "a teacher that follows its student, with noise": {
        "anatomy": model(
            losses=loss_facts("kl_div"),
            onlookers=[{**TARGET_NETWORK, "drops": True, "is_changed": True}],
        ),
        "vitals": AMOUNTS,
    },
    "a density that gets denser": {"loss": lambda step: -1.0 - 0.05 * step},
    "a likeness that rises a little": {"loss": lambda step: -1.0 + 0.001 * step},
    "labels that seem shuffled apart, and are learnt": {
        "anatomy": model(remarks=[{"rule": "LabelsShuffledApart", "place": "train.py:9"}])
    },
    "a method that would freeze, of a model that is frozen otherwise": {
        "anatomy": model(
            parameters=parameters(a=LEFT_OUT),
            remarks=[{"rule": "FreezeNeverCalled", "place": "train.py:9"}],
        )
    },
    "a seed for workers that are not used": {
        "anatomy": model(
            loaders=[{**ONE_PASS, "num_passes": 3}],
            remarks=[{"rule": "WorkersSeededAlike", "place": "train.py:9"}],
        )
    },
    "an average whose statistics follow as well": {
        "anatomy": model(
            modules=[*MODEL["modules"], {"name": "norm", "type": "BatchNorm1d"}],
            evaluated=[{**FOLLOWING, "num_statistics_changes": 5}],
        )
    },
    "an average of a model whose statistics are fixed": {
        "anatomy": model(
            modules=[*MODEL["modules"], {"name": "n", "type": "BatchNorm1d", "training": False}],
            evaluated=[FOLLOWING],
        )
    },
    "gradients for an analysis after the last step": {
        "anatomy": model(optimizers=[{**optimizer()[0], "num_steps": 250, "last_step": 249}])
    },
    "new adapters beside the optimizer of what is frozen now": {
        "anatomy": model(
            parameters=[{**each, "requires_grad": False} for each in parameters()]
            + [{"name": "Net_a.lora", "shape": [4, 16], "numel": 64}]
        )
    },
    "another head on the body of the script's own checkpoint": {
        "anatomy": model(
            checkpoints=[
                SAVED,
                {**LOADED, "step": 150},
                {
                    **WEIGHTS,
                    "step": 150,
                    "num_matched": 2,
                    "num_missing": 2,
                    "num_learnt_missing": 2,
                    "num_unexpected": 2,
                },
                {**WEIGHTS, "step": 150, "what": "optimizer"},
            ]
        )
    },
    "a metric of a model that is never evaluated": {"anatomy": remarked("MetricMiscomputed")},
    "an argmax over the first axis of scores without samples": {
        "anatomy": remarked(
            "MetricMiscomputed",
            "The highest score is taken along axis 0.",
            forwards=EVALUATED,
            losses=[{**MODEL["losses"][0], "shapes": [[10], []]}],
        )
    },
    "sums over batches that are divided by the number of samples": {
        "anatomy": remarked(
            "MetricMiscomputed",
            "The losses are means over their batches.",
            forwards=EVALUATED,
            losses=[{**MODEL["losses"][0], "reduction": "sum"}],
        )
    },
    "the highest loss kept, while it only rises": {
        "anatomy": remarked("WorstWeightsKept", forwards=EVALUATED),
        "evaluation_loss": lambda step: 1 + 0.01 * step / STEPS,
    },
    "a constant seed for samples that are read once": {
        "anatomy": remarked("AugmentedAlike", loaders=[{**SAME_DATA, "num_passes": 1}])
    },
    "a schedule in epochs that is stepped with each of them": {
        "anatomy": remarked(
            "ScheduleInOtherUnits",
            "CosineAnnealingLR of line 3 counts epochs.",
            loaders=[SAME_DATA],
            schedulers=[{"name": "CosineAnnealingLR", "num_steps": 10}],
        )
    },
    "a schedule before the optimizer that changes nothing yet": {
        "anatomy": remarked(
            "ScheduleBeforeOptimizer",
            optimizers=optimizer(initial_lr=0.1),
            schedulers=[{"name": "StepLR", "num_steps": 10}],
        )
    },
    "a target of another model, beside one call for each update": {
        "anatomy": remarked("TargetWithGradients")
    },
    "groups of batches that are all complete": {
        "anatomy": remarked("AccumulationMiscounted", optimizers=added_up({"4": 50}))
    },
    "sums of gradients for Adam, which divides by their size": {
        "anatomy": remarked(
            "AccumulationNotDivided",
            optimizers=[{**added_up({"4": 50})[0], "type": "AdamW"}],
            losses=[{**MODEL["losses"][0], "is_objective": True}],
        )
    },
    "sums of gradients that are clipped": {
        "anatomy": remarked(
            "AccumulationNotDivided",
            optimizers=added_up({"4": 50}),
            num_clipped=50,
            losses=[{**MODEL["losses"][0], "is_objective": True}],
        )
    },
    "an advantage of value less return, for a loss of the other sign": {
        "anatomy": remarked("PolicyGradientReversed", policy={"num_encouraged": 2})
    },
    "a penalty with a backward of its own, every fourth step": {
        "anatomy": model(
            loaders=[{**ONE_PASS, "num_trained": 225}],
            optimizers=[{**optimizer()[0], "num_steps": 225}],
            rhythm={"num_single": 150, "num_double": 75, "gaps": {"2": 75}},
        )
    },
    "gradients that are added up until there are enough tokens": {
        "anatomy": model(
            loaders=[ONE_PASS],
            optimizers=[{**optimizer()[0], "num_steps": 225}],
            rhythm={"num_single": 150, "num_double": 75, "gaps": {"0": 20, "2": 30, "5": 25}},
        )
    },
    "a copy of the first weights beside the trained model": {
        "anatomy": model(
            evaluated=[
                {"type": "Net", "num_evaluations": 5, "is_copy": True},
                {"type": "Net", "num_evaluations": 5, "num_changes": 4, "is_trained": True},
            ]
        )
    },
    "an average that is updated": {
        "anatomy": model(
            evaluated=[{"type": "Net", "num_evaluations": 5, "num_changes": 4, "is_copy": True}]
        )
    },
    "autocast in evaluation alone": {"anatomy": model(precision={"num_full": 100})},
    "a norm in full precision under autocast": {
        "anatomy": model(precision={"num_asked": 50, "num_low": 80, "num_full": 20})
    },
    "a head that begins as the embedding and is tied to it by hand": {
        "anatomy": model(parameters=parameters(b={"copied_from": "Net_a.weight"})),
        "weights": moving,
    },
    "an iterator that was asked once more": {
        "anatomy": model(loaders=[ONE_PASS, {**HELD_OUT, "num_used_up": 1}])
    },
    "a last batch that is dropped from shuffled data": {
        "anatomy": model(
            loaders=[{**TINY, "num_samples": 180, "drops_last": True, "sampler": "RandomSampler"}]
        )
    },
    "a new head on weights of another training": {
        "anatomy": model(
            checkpoints=[
                {**LOADED, "path": "pretrained/model.pt"},
                {**WEIGHTS, "num_matched": 2, "num_missing": 2, "num_learnt_missing": 2},
                {**SAVED, "holds": ["model"]},
            ],
            **MOMENTUM,
        )
    },
    "adapters that are resumed without the frozen base": {
        "anatomy": model(
            checkpoints=[
                LOADED,
                {**WEIGHTS, "num_matched": 2, "num_missing": 2},
                {**WEIGHTS, "what": "optimizer"},
                SAVED,
            ],
            **MOMENTUM,
        )
    },
    "the best checkpoint, loaded at the end": {
        "anatomy": model(
            checkpoints=[SAVED, {**LOADED, "step": 299}, {**WEIGHTS, "step": 299}], **MOMENTUM
        )
    },
    "a resume with all states": {
        "anatomy": model(
            checkpoints=[LOADED, WEIGHTS, {**WEIGHTS, "what": "optimizer"}, SAVED],
            **MOMENTUM,
            **RESUMED,
        )
    },
    "a job that goes on with another one": {
        "anatomy": continued({**WEIGHTS, "what": "optimizer"}),
        "vitals": ON_ITS_COURSE,
    },
    "weights of a job on other data": {"anatomy": continued(data=[480])},
    "weights of a job by another script": {"anatomy": continued(is_same_script=False)},
    "a decayed rate that a schedule goes on from": {
        "anatomy": model(
            checkpoints=[LOADED, WEIGHTS, BROUGHT],
            schedulers=[{"name": "StepLR", "num_steps": 300, "first_epoch": 40}],
            **RESUMED,
        ),
        "vitals": {"learning_rate/0": lambda step: 0.02 * 0.999**step},
    },
    "a decayed rate, and a plateau that is looked for anew": {
        "anatomy": model(
            checkpoints=[LOADED, WEIGHTS, BROUGHT],
            schedulers=[{"name": "ReduceLROnPlateau", "num_steps": 3, "first_epoch": 0}],
        ),
        "vitals": {"learning_rate/0": 0.02},
    },
    "a resume without states, of plain descent": {
        "anatomy": model(checkpoints=[LOADED, WEIGHTS, SAVED])
    },
    "the last checkpoint loaded again, and the rate lowered": {
        "anatomy": model(
            checkpoints=[SAVED, {**LOADED, "step": 150}, {**WEIGHTS, "step": 150}], **MOMENTUM
        ),
        "vitals": {"learning_rate/0": lambda step: 0.1 if step < 151 else 0.01},
    },
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
    "clicks, of which few are predicted and many are told apart": {
        "anatomy": model(losses=loss_facts("binary_cross_entropy_with_logits")),
        "vitals": {
            "labels/largest_share": 0.95,
            "predictions/largest_share": 1.0,
            "labels/num_classes_seen": 2,
            "labels/max": 1,
            "target/min": 0.0,
            "target/max": 1.0,
        },
        "loss": lambda step: 0.16 + 0.5 * 0.97**step,
    },
    "a critic whose loss grows with the returns": {
        "anatomy": model(num_scored_samples=STEPS),
        "loss": lambda step: 1.0 + 0.02 * step,
    },
    "a policy whose loss is near 0": {
        "anatomy": model(num_scored_samples=STEPS),
        "vitals": {"gradient_norm": 3.0},
        "weights": moving,
        "loss": lambda step: 1e-4 + 1e-5 * step,
    },
    "pairs of raw pixels that are learnt": {
        "anatomy": model(forwards_per_backward={"2": STEPS}),
        "vitals": {"input/mean": 90.0, "input/std": 70.0, "activation/a/std": 40.0},
    },
    "gradients clipped between backward and step": {"anatomy": model(num_clipped=STEPS)},
    "two optimizers, each of which clips": {
        "anatomy": model(
            num_clipped=STEPS,
            num_clipped_late=STEPS,
            optimizers=[*optimizer(), {**optimizer()[0], "index": 1}],
        )
    },
    "a scaler that steps": {
        "anatomy": model(grad_scaler="GradScaler", num_scaled=STEPS, is_ever_unscaled=True)
    },
    "a shuffled loader that begins anew each time": {
        "anatomy": model(loaders=[{**TINY, "sampler": "RandomSampler", "num_same_starts": 2}]),
    },
    "data in order, which begin alike in each epoch": {
        "anatomy": model(loaders=[{**TINY, "num_same_starts": 59}]),
    },
    "samples that are drawn with replacement": {
        "anatomy": model(loaders=[{**ONE_PASS, "sampler": "RandomSampler"}]),
        "vitals": {"input/new_share": lambda step: max(0.37, 1 - step / 300)},
    },
    "small data that come again in each epoch": {
        "anatomy": model(loaders=[TINY]),
        "vitals": {"input/new_share": lambda step: float(step < 5)},
    },
    "the training data are evaluated next to others": {
        "vitals": {"input/new_share": lambda step: float(step < 15)},
        "evaluation": {
            "batch_size": 50,
            "input/trained_share": lambda step: float(step % 40 < 20) if step < 200 else None,
        },
    },
    "all the training data are evaluated": {
        "vitals": {"input/new_share": lambda step: float(step < 5)},
        "evaluation": {"batch_size": 50, "input/trained_share": 1.0},
    },
    "one batch of all the data, with noise on its inputs": {
        "anatomy": model(losses=loss_facts("mse_loss")),
        "vitals": {**AMOUNTS, "target/fingerprint": 77, "batch_size": 350},
    },
    "evaluation that is merely worse": {
        "vitals": {"accuracy": 0.97},
        "evaluation": {"batch_size": 50, "accuracy": 0.4, "renamed_accuracy": 0.5},
    },
    "a table of which a column is nearly the target": {
        "vitals": {"input/off_line": 1e-4, "input/num_values": 320}
    },
    "batch norm with its usual momentum": {
        "anatomy": model(
            modules=[*MODEL["modules"], {"name": "n", "type": "BatchNorm1d", "momentum": 0.1}],
            forwards=[*MODEL["forwards"], {"training": False, "grad": False, "count": 30}],
        )
    },
    "bfloat16 weights that learn": {
        "anatomy": model(parameters=parameters(a={"dtype": "bfloat16"})),
        "vitals": {"update_lost_share": 0.8},
    },
    "a layer that is frozen for the second half": {
        "anatomy": model(
            parameters=parameters(a={"last_gradient_step": 90, "requires_grad": False})
        ),
        "weights": lambda name, step: moving(name, min(step, 90) if name[0] == "a" else step),
        "gradients": lambda name, step: (1.0, 0.01),
    },
    "stronger noise in training than in evaluation": {
        "evaluation": {"batch_size": 50, "input/mean": 0.0, "input/std": 0.5}
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
    "a model that is loaded and trained on other data": {
        "anatomy": model(
            checkpoints=[SAVED, {**LOADED, "step": 149}, {**WEIGHTS, "step": 149}],
            loaders=[SAME_DATA, {**SAME_DATA, "num_samples": 500}],
        ),
        "loss": lambda step: (0.1 if step < 150 else 1.6 * 0.96 ** (step - 150)) + 0.01,
    },
    "an average that follows": {
        "anatomy": model(evaluated=[{**FOLLOWING, "followed": 0.8, "behind": 9.0}])
    },
    "a copy that is brought up to date": {
        "anatomy": model(evaluated=[{**FOLLOWING, "followed": 1.0, "behind": 0.0}])
    },
    "frozen norms in evaluation mode": {
        "anatomy": model(
            modules=[*MODEL["modules"], {**FROZEN_NORM, "training": False}],
            parameters=WITH_NORM,
            forwards=EVALUATED,
        )
    },
    "frozen norms whose statistics stay": {
        "anatomy": model(
            modules=[*MODEL["modules"], {**FROZEN_NORM, "statistics_moved": 0.05}],
            parameters=WITH_NORM,
            forwards=EVALUATED,
        )
    },
    "statistics that are estimated anew": {
        "anatomy": model(
            modules=[*MODEL["modules"], FROZEN_NORM],
            parameters=WITH_NORM,
            forwards=[*EVALUATED, {"training": True, "grad": False, "count": 30}],
        )
    },
    "frozen norms that alone are in training mode": {
        "anatomy": model(
            modules=[
                *MODEL["modules"],
                {"name": "body", "type": "Sequential", "training": False},
                {**FROZEN_NORM, "name": "body.norm"},
            ],
            parameters=[
                *WITH_NORM[:1],
                {**WITH_NORM[1], "name": "Net_body.norm.weight"},
                *WITH_NORM[2:],
            ],
            forwards=EVALUATED,
        )
    },
    "frozen features that were never trained": {
        "anatomy": model(
            modules=[*MODEL["modules"], FROZEN_NORM],
            parameters=[{**each, "ever_had_gradient": False} for each in WITH_NORM[:2]]
            + WITH_NORM[2:],
            forwards=EVALUATED,
        )
    },
    "evaluation in which some passes begin alike": {
        "anatomy": model(loaders=[ONE_PASS, {**HELD_OUT, **UNSHUFFLED, "num_altered_starts": 5}]),
        "evaluation": {"batch_size": 50},
    },
    "means of means that are right": {
        "anatomy": remarked("MeanOfMeans", forwards=EVALUATED),
        "evaluation_loss": lambda step: 0.5,
        "last_batch": (3, 0.6),
    },
    "a schedule that the script gives to its trainer": {
        "anatomy": remarked(
            "ScheduleNeverStepped", schedulers=[{"name": "StepLR", "num_steps": 10}]
        )
    },
}


@pytest.mark.parametrize("case", HEALTHY)
def test_what_resembles_a_mistake_is_left_alone(case, tmp_path):
    assert judge(Checkup(), course(tmp_path, **HEALTHY[case])) == []


def test_every_rule_has_a_mistake_to_find():
    others = {Hang.name(), RankDied.name()}  # by files of processes, in tests of their own
    assert set(WRONG) == {part.name() for part in PARTS} - others


def test_a_finding_names_the_step_at_which_the_fault_began(tmp_path):
    late = GUISES["a weight that is set back from some step on"][1]
    assert [each.step for each in found(UpdateLost(), tmp_path / "lost", **late)] == [90]
    added = parameters(a={"optimizer": None, "first_gradient_step": 100})
    reported = found(
        ParametersNotOptimized(),
        tmp_path / "added",
        anatomy=model(parameters=added),
        weights=lambda name, step: (still if name == "a.weight" else moving)(name, step),
    )
    assert [each.step for each in reported] == [100]
    frozen = parameters(a={"requires_grad": False, "last_gradient_step": 29})
    frozen = [frozen[0], {**frozen[1], "shape": [16], "numel": 16}]
    reported = found(
        FrozenByMistake(), tmp_path / "frozen", anatomy=model(parameters=frozen), loss=flat
    )
    assert [each.step for each in reported] == [30]


def test_an_infinite_gradient_at_a_finite_loss_is_no_matter_of_the_rate(tmp_path):
    infinite: dict[str, Any] = {
        "vitals": {
            "gradient_norm": lambda step: 1.0 if step < 40 else math.inf,
            "update_ratio": lambda step: 5e-3 if step < 40 else math.nan,
        },
        "loss": lambda step: 2.3 - 0.01 * step if step < 41 else math.nan,
    }
    assert [each.rule for each in found(Checkup(), tmp_path, **infinite)] == ["LossNotFinite"]


def test_an_optimizer_of_frozen_parameters_is_told_so(tmp_path):
    anatomy = model(parameters=parameters(a={"requires_grad": False}, b={"optimizer": None}))
    (only,) = found(OptimizerOfAnotherModel(), tmp_path, anatomy=anatomy, weights=still, loss=flat)
    assert "frozen" in only.message


def test_frozen_parameters_and_those_of_a_head_not_in_use_are_left_alone(tmp_path):
    frozen = parameters(a={"optimizer": None, "requires_grad": False, "ever_had_gradient": False})
    assert found(Checkup(), tmp_path / "frozen", anatomy=model(parameters=frozen)) == []
    idle = parameters(b={"ever_had_gradient": False})
    vitals = {"gradient_missing": 1, "activation/b/std": None}
    reported = found(Checkup(), tmp_path / "idle", anatomy=model(parameters=idle), vitals=vitals)
    assert reported == []


def test_gradients_of_adapters_within_a_frozen_base_do_not_fade(tmp_path):
    adapted = {
        **WRONG["FadingGradient"],
        "anatomy": model(
            parameters=[
                {**parameters()[0], "name": f"Net_{n}.weight", "requires_grad": n in "acd"}
                for n in "abcd"
            ],
        ),
    }
    assert found(FadingGradient(), tmp_path / "trained", **WRONG["FadingGradient"])
    assert found(FadingGradient(), tmp_path / "adapted", **adapted) == []


def test_the_top_of_a_frozen_base_has_no_first_layers(tmp_path):
    named = [{**parameters()[0], "name": f"Net_{n}.weight"} for n in "abc"]
    frozen = [{**each, "name": f"Net_base{n}.weight", **LEFT_OUT} for n, each in enumerate(named)]
    rest = {
        **WRONG["FadingGradient"],
        "gradients": lambda name, step: (
            (0.0, 0.0)
            if name.startswith("base")
            else WRONG["FadingGradient"]["gradients"](name, step)
        ),
    }
    top = {**rest, "anatomy": model(parameters=[*frozen, *named])}
    bottom = {**rest, "anatomy": model(parameters=[*named, *frozen])}
    assert found(FadingGradient(), tmp_path / "top", **top) == []
    assert [each.rule for each in found(FadingGradient(), tmp_path / "bottom", **bottom)]


@pytest.mark.parametrize("names", ["q_proj k_proj v_proj", "query key value", "wq wk wv"])
def test_gradients_of_queries_and_keys_are_small_at_the_start(names, tmp_path):
    likening = names.split()[:2]

    def fading(*places: str) -> dict[str, Any]:
        first = {f"Net_{place}.weight" for place in places[:2]}
        named = [{**parameters()[0], "name": f"Net_{place}.weight"} for place in places]
        return {
            **WRONG["FadingGradient"],
            "anatomy": model(parameters=named),
            "gradients": lambda name, step: (1e-6 if f"Net_{name}" in first else 1.0, 1e-9),
        }

    attention = [f"a.{name}" for name in names.split()] + ["a.out", "ff.0", "ff.1", "head", "last"]
    assert found(FadingGradient(), tmp_path / "attention", **fading(*attention)) == []
    layers = [*(f"a.{name}" for name in likening), "b", "c", "d", "e", "head", "last"]
    assert found(FadingGradient(), tmp_path / "layers", **fading(*layers))


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


def test_a_generator_with_the_labels_of_fakes_is_found_where_each_loss_has_a_step(tmp_path):
    vitals = {"loss_term/0.binary_cross_entropy": lambda step: 0.9 if step < 150 else 0.05}
    (finding,) = found(
        GeneratorLabelsSwapped(), tmp_path, anatomy=rivals(steps_of_round=3), vitals=vitals
    )
    assert finding.value == pytest.approx(0.15)


def test_a_target_that_may_be_updated_later_is_not_judged_before_the_end(tmp_path):
    evidence = Evidence(course(tmp_path, anatomy=model(onlookers=[TARGET_NETWORK])))
    while not evidence.is_all:
        evidence.advance()
    vitals = evidence.vitals
    assert [*TargetNetworkFixed().judge(vitals)]
    vitals.is_all = False
    assert not [*TargetNetworkFixed().judge(vitals)]


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


def test_a_loss_that_starts_below_zero_and_climbs_is_found(tmp_path):
    assert found(LossRising(), tmp_path / "t", loss=lambda step: -0.5 + 0.01 * step) != []


@pytest.mark.parametrize(("is_likelihood", "is_found"), [(True, True), (False, False)])
def test_a_likelihood_without_a_minus_sign_is_found(is_likelihood, is_found, tmp_path):
    anatomy = model(losses=[], objective={"is_likelihood": is_likelihood})
    signs = found(LossWithoutBound(), tmp_path, anatomy=anatomy, loss=lambda s: -1.0 - 0.1 * s)
    assert bool(signs) is is_found


def test_scores_that_are_multiplied_by_a_temperature_cannot_be_told_apart(tmp_path):
    anatomy = model(is_likeness_scaled=True)
    for highest, is_found in ((0.1, True), (3.0, False)):
        folder = tmp_path / str(highest)
        vitals = {"loss_input/min": 0.0, "loss_input/max": highest}
        assert bool(found(TemperatureTooHigh(), folder, anatomy=anatomy, vitals=vitals)) is is_found


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


def test_an_evaluation_may_be_yet_to_come(tmp_path: Path):
    vitals = vitals_of(course(tmp_path, **WRONG["EvaluationInTrainingMode"]))
    assert [*EvaluationInTrainingMode().judge(vitals)]
    vitals.is_all = False
    assert not [*EvaluationInTrainingMode().judge(vitals)]


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


ONLOOKER = {"name": "reference", "type": "Net", "num_calls": 3}
COMPARED: dict[str, dict[str, Any]] = {
    "two answers to a prompt": {"text": {**TEXT, "num_shared_prompts": 24}},
    "a reference": {"text": TEXT, "onlookers": [ONLOOKER]},
    "the base as a reference": {
        "text": TEXT,
        "forwards": [*MODEL["forwards"], {"training": True, "grad": False, "count": 200}],
    },
}
"""Adapters that learn which answer is better, at a low rate."""


def test_an_ordinary_fine_tuning_has_no_findings(tmp_path):
    assert found(Checkup(), tmp_path / "all", **text()) == []
    adapters = adapted(base=LEFT_OUT, factors={}, text=TEXT)
    assert found(Checkup(), tmp_path / "adapters", **adapters) == []


def test_models_that_are_evaluated_once_each_do_not_overfit(tmp_path):
    """As in a search over rates: the losses of its evaluations are no curve."""
    rising = {"evaluation_loss": lambda step: 1.0 + abs(step - 60) / 50}
    searched = {**rising, "anatomy": model(models=["Net"] * STEPS)}
    names = [each.rule for each in found(Checkup(), tmp_path / "search", **searched)]
    assert "Overfitting" not in names
    names = [each.rule for each in found(Checkup(), tmp_path / "one", **rising)]
    assert "Overfitting" in names


def test_overfitting_waits_for_facts_as_new_as_its_losses(tmp_path):
    """They are written later, and say how many models there are."""

    def rising(step: int) -> float:
        return 1.0 + abs(step - 60) / 50

    for known, is_judged in ((STEPS // 2, False), (STEPS, True)):
        facts = model(backwards=[{"training": True, "count": known}])
        vitals = vitals_of(course(tmp_path / str(known), evaluation_loss=rising, anatomy=facts))
        vitals.is_all = False
        assert bool([*Overfitting().judge(vitals)]) is is_judged


def test_look_alikes_of_fine_tuning_are_left_alone(tmp_path):
    """Pretraining on packed rows, texts that fill their rows, accumulation by Trainer, rows that
    are packed and told apart, answers of one length, and answers that are compared (DPO, RL)."""
    alike = {
        "pretraining": text(num_packed=24, num_trained=700, num_prompt_tokens=0),
        "chunks": text(num_trained=700, num_cut=24, num_ends_trained=0, num_prompt_tokens=0),
        "packed": text(num_packed=24, num_separated=3),
        "few evaluated": text(num_evaluated_trained=2),
        "some cut": text(num_cut=4, num_ends_trained=20),
        "yes and no": text(num_cut=24, num_ends_trained=0, cut_lengths=[1, 2]),
        "own answers": text(num_ends_trained=0, num_ends_missing=20, num_shared_prompts=24),
    }
    for name, facts in COMPARED.items():
        alike[name] = adapted(base=LEFT_OUT, factors={}, rate=5e-6, **facts)
    scaled = {**TEXT, "scales": [0.3, 0.2, 0.24, 0.26] * 3}
    fours = [{**MODEL["optimizers"][0], "backwards_per_step": {"4": 3}}]
    alike["accumulated"] = {"anatomy": model(text=scaled, optimizers=fours)}
    for name, course_of in alike.items():
        assert found(Checkup(), tmp_path / name, **course_of) == [], name


def test_adapters_that_the_optimizer_was_made_before_are_found(tmp_path):
    left_out = {"optimizer": None}
    case = adapted(base={"requires_grad": False}, factors=left_out)
    (one,) = found(AdaptersNotTrained(), tmp_path / "sick", **case, weights=still)
    assert "None of 2 factors of adapters is in the optimizer" in one.message
    assert found(AdaptersNotTrained(), tmp_path / "by hand", **case, weights=moving) == []


def test_a_table_that_is_tied_to_the_head_counts_once_among_all_weights(tmp_path):
    tied = [*parameters(), {**parameters()[0], "name": "Net_head", "tied_to": "Net_a.weight"}]
    case = WRONG["FineTuningRate"]
    anatomy = {**case["anatomy"], "parameters": tied}
    assert len(found(FineTuningRate(), tmp_path, **{**case, "anatomy": anatomy})) == 1


def test_texts_of_evaluation_that_were_trained_on_are_found(tmp_path):
    (found_one,) = found(Checkup(), tmp_path, **text(num_evaluated_trained=8))
    assert found_one.rule == "EvaluationOnTrainingData"


@pytest.mark.parametrize(
    "changes",
    [
        {"num_shifted_1": 0, "num_shifted_0": 260},
        {"num_open_turns": 24},
        {"num_foreign": 12, "foreign_mark": "<|im_start|>"},
        {"num_ends_trained": 0, "num_ends_missing": 20},
        {"num_ends_trained": 0, "num_cut": 24, "cut_lengths": [3, 5, 6, 9]},
    ],
)
def test_other_forms_of_the_same_mistake_in_texts(changes, tmp_path):
    assert len(found(Checkup(), tmp_path, **text(**changes))) == 1
