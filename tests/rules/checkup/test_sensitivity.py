"""Every number of the check-up decides something: for each there is a training that is judged in
another way when the number is five times larger or smaller."""

import ast
import copy
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.rules.checkup.course import MODEL, STEPS, VITALS, course, falling, flat
from tests.rules.checkup.rank_files import of_ranks
from tests.rules.checkup.sensitivity import Number, changes, numbers, vitals_of
from tests.rules.checkup.test_checkup import (
    AMOUNTS,
    FADING,
    GUISES,
    HEALTHY,
    HELD_OUT,
    LEFT_OUT,
    ONE_PASS,
    SAME_DATA,
    TEN_CLASSES,
    TEXT,
    TINY,
    WEIGHTS,
    WRONG,
    adapted,
    loss_facts,
    model,
    optimizer,
    parameters,
    remarked,
    text,
)

FACTORS = (0.2, 5.0)
FEW = 15
"""Steps of a training that is over soon."""
CASES = {**WRONG, **{name: case for name, (_, case) in GUISES.items()}, **HEALTHY}
BY_CASES: dict[str, tuple[str, str]] = {
    "ClassWeightsReversed.num_targets": ("ClassWeightsReversed", ""),
    "RealClassIgnored.num_batches": ("RealClassIgnored", "short"),
    "SmoothedTwice.num_batches": ("SmoothedTwice", "short"),
    "AdvantageTrained.num_backwards": ("AdvantageTrained", ""),
    "DivergenceRaised.num_backwards": ("DivergenceRaised", ""),
    "EntropyLowered.num_backwards": ("EntropyLowered", ""),
    "RatioAlwaysOne.num_backwards": ("RatioAlwaysOne", ""),
    "EpisodeEndIgnored.num_ends": ("EpisodeEndIgnored", ""),
    "TargetIsOwnOutput.num_batches": ("TargetIsOwnOutput", "short"),
    "PairedWithItself.num_batches": ("PairedWithItself", "short"),
    "TargetNetworkFixed.num_calls": ("TargetNetworkFixed", ""),
    "TeacherDropsOut.num_calls": ("TeacherDropsOut", ""),
    "checkup.loss_setup._MORE_FREQUENT": ("ClassWeightsReversed", ""),
    "checkup.objective_use._LATE": (
        "rivals that take turns, each loss with a step of its own",
        "",
    ),
    "checkup.objective_use._MOST": ("EpisodeEndIgnored", ""),
    "checkup.objective_use._ROUNDED": ("TargetIsOwnOutput", ""),
    "checkup.onlooker_use._TWO": ("EvaluatedBeforeTraining", ""),
    "ScaleNotRemoved.num_losses": ("ScaleNotRemoved", "short"),
    "ClippedAfterStep.num_calls": ("ClippedAfterStep", "short"),
    "LowPrecisionWeights.lost": ("weights in bfloat16 that most updates leave as they were", ""),
    "SameTargets.num_batches": ("SameTargets", "short"),
    "FewDistinctSamples.num_batches": ("FewDistinctSamples", "short"),
    "FewDistinctSamples.share": ("samples that are drawn with replacement", ""),
    "TargetLeaks.num_batches": ("TargetLeaks", "short"),
    "TargetLeaks.columns": ("TargetLeaks", ""),
    "ClassesRenamed.accuracy": ("ClassesRenamed", ""),
    "BatchNormStatistics.initial": ("BatchNormStatistics", ""),
    "BatchNormStatistics.last": ("batch norm with the momentum of Keras", ""),
    "TrainedOnEvaluationData.share": ("TrainedOnEvaluationData", ""),
    "TrainedOnEvaluationData.part": ("TrainedOnEvaluationData", ""),
    "EvaluationInputDiffers.spread": ("stronger noise in training than in evaluation", ""),
    "SlowDataLoading.stall": ("a loader that stood still once", ""),
    "checkup.data_use._BELOW_SHARES": (
        "clicks, of which few are predicted and many are told apart",
        "",
    ),
    "checkup.data_use._BEYOND": ("images that are normalised in training only", ""),
    "checkup.loader_use._RUN": ("TrainedOnEvaluationData", ""),
    "checkup.loader_use._NEARLY_ALL": ("all that is evaluated is trained on", ""),
    "SameDataOnRanks.num_batches": ("SameDataOnRanks", ""),
    "SlowRank.ratio": ("SlowRank", ""),
    "SlowRank.share": ("SlowRank", ""),
    "SlowRank.stretches": ("SlowRank", ""),
    "checkup.ranks_use._SETTLED": ("SlowRank", ""),
    "checkup.ranks_use._MOST_SPANS": ("SlowRank", ""),
    "OptimizerNotStepping.num_backwards": ("OptimizerNotStepping", "short"),
    "OptimizerNotStepping.share": ("step behind the loop over batches", ""),
    "OptimizerOfAnotherModel.num_steps": ("OptimizerOfAnotherModel", "short"),
    "ModelRecreated.num_models": ("ModelRecreated", ""),
    "GradientMissing.num_steps": ("GradientMissing", "short"),
    "LearningRateZero.num_updates": ("LearningRateZero", "short"),
    "ConstantInput.num_batches": ("ConstantInput", "short"),
    "ConstantLabels.num_samples": ("ConstantLabels", "short"),
    "LossInputNotLogProbabilities.num_batches": ("LossInputNotLogProbabilities", "short"),
    "LossInputNotLogProbabilities.error": ("probabilities for kl_div", "0.05"),
    "ConstantOutput.num_batches": ("ConstantOutput", "short"),
    "LossInputAlreadySoftmax.num_batches": ("LossInputAlreadySoftmax", "short"),
    "SampleCutsGraph.num_samples": ("SampleCutsGraph", "short"),
    "PolicyGradientReversed.num_backwards": ("PolicyGradientReversed", ""),
    "ForgottenZeroGrad.num_updates": ("ForgottenZeroGrad", "short"),
    "ForgottenZeroGrad.share": ("ForgottenZeroGrad", ""),
    "AccumulationCleared.num_updates": ("AccumulationCleared", "short"),
    "AccumulationCleared.cleared": ("AccumulationCleared", ""),
    "ParametersNotOptimized.num_steps": ("ParametersNotOptimized", "short"),
    "OptimizerSettings.momentum": ("an optimizer for each epoch", ""),
    "WarmUpNeverEnds.share": ("WarmUpNeverEnds", "0.05"),
    "TargetIsInput.share": ("TargetIsInput", "0.05 loss"),
    "PaddingInLoss.share": ("PaddingInLoss", ""),
    "UnshuffledLabels.share": ("UnshuffledLabels", ""),
    "OutputRangeTooNarrow.num_batches": ("OutputRangeTooNarrow", "short"),
    "SameBatch.num_batches": ("SameBatch", "short"),
    "RepeatedBatches.num_batches": ("RepeatedBatches", "short"),
    "RepeatedBatches.share": ("RepeatedBatches", ""),
    "checkup.loader_use._BATCH_EACH": ("RepeatedBatches", ""),
    "UpdateLost.num_saved": ("UpdateLost", "short"),
    "LossJumpsAtResume.factor": ("LossJumpsAtResume", ""),
    "GradientJumpsAtResume.factor": ("GradientJumpsAtResume", ""),
    "OldRateBroughtBack.factor": ("OldRateBroughtBack", ""),
    "checkup.checkpoint_use._ALIKE": ("RateJumpsAtResume", ""),
    "OneSampleOfBatch.num_batches": ("OneSampleOfBatch", "short"),
    "OneSampleOfBatch.samples": ("OneSampleOfBatch", ""),
    "UpdatesStop.share": ("UpdatesStop", ""),
    "PromptTrained.share": ("PromptTrained", ""),
    "AnswersCutOff.share": ("AnswersCutOff", ""),
    "FineTuningRate.highest": ("FineTuningRate", ""),
    "checkup.finetuning_use._TWO_BATCHES": ("NothingSupervised", ""),
    "checkup.finetuning_use._TWO_STEPS": ("LossScaledWrongly", ""),
    "checkup.finetuning_use._NEARLY_ALL": ("TemplateMisused", ""),
    "checkup.finetuning_use._PARTLY": ("PackedTextsMixed", ""),
    "checkup.finetuning_use._HALF": ("PackedTextsMixed", ""),
    "EpochCutShort.num_epochs": ("EpochCutShort", ""),
    "TrainingInEvaluationMode.share": ("TrainingInEvaluationMode", ""),
    "EvaluationOnTrainingData.num_batches": ("EvaluationOnTrainingData", "short"),
    "BatchNormOfOneSample.share": ("BatchNormOfOneSample", ""),
    "GradientUnderflow.num_steps": ("GradientUnderflow", "short"),
    "LossWithoutBound.times": ("LossWithoutBound", ""),
    "UnnormalizedInput.size": ("UnnormalizedInput", "0.05"),
    "FrozenByMistake.share": ("FrozenByMistake", ""),
    "DropoutTooStrong.share": ("DropoutTooStrong", ""),
    "PaddingReadLast.share": ("PaddingReadLast", ""),
    "WeightsTooLarge.times": ("WeightsTooLarge", ""),
    "WeightsTooLarge.gain": ("WeightsTooLarge", ""),
    "WeightsTooLarge.wrong": ("a first loss far above chance", ""),
    "WeightsTooSmall.times": ("weights of next to nothing, from which Adam finds its way", ""),
    "LearningRateTooHigh.ratio": ("LearningRateTooHigh", "0.05"),
    "LearningRateTooHigh.growth": ("LearningRateTooHigh", "short"),
    "DeadLayer.share": ("DeadLayer", ""),
    "SaturatedLayer.num_batches": ("SaturatedLayer", "short"),
    "SaturatedLayer.share": ("SaturatedLayer", ""),
    "LearningRateTooLow.slow": ("a loss that falls as slowly as the weights move", ""),
    "ClassesAsAmounts.fewest": ("ClassesAsAmounts", ""),
    "ClassesAsAmounts.unexplained": ("ClassesAsAmounts", ""),
    "OneClassPredicted.share": ("OneClassPredicted", ""),
    "OneClassPredicted.predicted": ("OneClassPredicted", ""),
    "SlowDataLoading.num_batches": ("SlowDataLoading", "short"),
    "SlowDataLoading.seconds": ("SlowDataLoading", ""),
    "SlowDataLoading.share": ("SlowDataLoading", ""),
    "Overfitting.times": ("Overfitting", ""),
    "LossRising.times": ("LossRising", "0.05 loss"),
    "NothingLearnt.num_steps": ("NothingLearnt", ""),
    "NothingLearnt.share": ("NothingLearnt", ""),
    "checkup.data_use._SHRUNK": ("UnnormalizedInput", "0.2"),
    "checkup.data_use._MOST_BATCHES": ("ConstantInput", ""),
    "checkup.data_use._MORE_THAN_FEW_SHOTS": ("a few shots, and more to try them on", ""),
    "checkup.data_use._MOSTLY": ("UnshuffledLabels", ""),
    "checkup.data_use._PURE_BATCHES": ("UnshuffledLabels", ""),
    "checkup.initial_weights._TINY_GAIN": (
        "weights of next to nothing, from which Adam finds its way",
        "",
    ),
    "checkup.initial_weights._LINGERING_STEPS": (
        "weights of next to nothing, from which Adam finds its way",
        "",
    ),
    "checkup.layers._FEWEST_LAYERS": ("FadingGradient", ""),
    "checkup.layers._FALLEN": ("FadingGradient", "0.05 loss"),
    "checkup.layers._LINGERING_STEPS": ("FadingGradient", "0.2 loss"),
    "checkup.layers._LINGERING_PART": ("FadingGradient", "0.05 loss"),
    "checkup.layers._FIRST_LAYERS": ("FadingGradient", ""),
    "checkup.layers._GROWN": ("ExplodingGradient", ""),
    "checkup.learning_rates._FIRST_UPDATES": ("LearningRateTooHigh", "short"),
    "checkup.learning_rates._LITTLE_LEARNT": (
        "an update longer than the weights, after which all is learnt by heart",
        "0.05 loss",
    ),
    "checkup.learning_rates._HARDLY_LEARNT": ("LearningRateTooHigh", "0.05 loss"),
    "checkup.learning_rates._ERASED": (
        "an update longer than the weights, after which all is learnt by heart",
        "0.05 loss",
    ),
    "checkup.learning_rates._SLOW_STEPS": ("a loss that falls as slowly as the weights move", ""),
    "checkup.learning_rates._SLOW_FALL": ("LearningRateTooLow", "0.2 loss"),
    "checkup.loader_use._OTHERS": ("EvaluationOnTrainingData", ""),
    "checkup.loss_terms._OF_THE_SUM": ("LossTermDominates", ""),
    "checkup.loss_use._MOSTLY": ("OutputRangeTooNarrow", ""),
    "checkup.outcomes._STILL_HIGH": ("LossRising", ""),
    "checkup.outcomes._FEWEST_EVALUATIONS": ("Overfitting", ""),
    "checkup.outcomes._SINCE_LOWEST": ("Overfitting", ""),
    "checkup.sequence_use._ALL": ("FutureVisible", ""),
    "checkup.sequence_use._FEWEST_MASKS": ("PaddingMaskInverted", "short"),
    "checkup.sequence_use._NEARLY_ALL": ("PaddingMaskInverted", ""),
    "checkup.targets_use._EVEN": ("ClassesAsAmounts", ""),
    "checkup.targets_use._FAR": (
        "targets a thousand times beyond all predictions after 60 steps",
        "0.05",
    ),
    "checkup.targets_use._ABOUT_EVEN": ("ClassesAsAmounts", ""),
    "checkup.update_use._MOST_UPDATES": ("AccumulationCleared", ""),
    "checkup.update_use._MOST_BACKWARDS": ("PolicyGradientReversed", ""),
    "checkup.vitals_rule.SHORT_RUN": ("UnnormalizedTarget", "short"),
    "checkup.vitals_rule.ENOUGH_BATCHES": ("UnnormalizedInput", ""),
    "checkup.vitals_rule.FEW_BATCHES": ("UnnormalizedInput", ""),
    "checkup.vitals_rule.HALVED": ("EpochCutShort", ""),
    "checkup.vitals_rule.LEARNT_WELL": ("SaturatedLayer", ""),
    "saved.vital_signs.FAIR_STEPS": ("OptimizerNotStepping", ""),
    "saved.vital_signs._JUMP": ("LearningRateTooHigh", ""),
    "saved.vital_signs._THIRD": ("a loss that falls as slowly as the weights move", ""),
    "saved.vital_signs._LINGERING": ("a gradient that fades and does no harm", ""),
    "saved.vital_signs._LITTLE_LOWER": ("OutputIgnoresInput", ""),
    "saved.vital_signs.CHANCE_SHARE": ("GradientClippedAway", ""),
    "saved.vital_signs._CHANCE_SHARE_IF_FALLING": (
        "a loss that falls as slowly as the weights move",
        "",
    ),
    "saved.vital_signs._LEVEL": ("LossTermDominates", ""),
}
"""The case of `test_checkup` that a number decides, and how the case is changed for it: `short`, or
the share of the figures, or of the loss, that is left of the mistake."""


def over_amounts(**vitals: Any) -> dict[str, Any]:
    """A regression that moves its weights by 0.0033 of `moved` a step."""
    return {"anatomy": model(losses=loss_facts("mse_loss")), "vitals": {**AMOUNTS, **vitals}}


def moved(share: float) -> dict[str, float]:
    """By all updates together, of the weights' length."""
    return {"update_ratio": share / STEPS}


def like(case: str, **changes: Any) -> dict[str, Any]:
    vitals = {**CASES[case].get("vitals", {}), **changes.pop("vitals", {})}
    return {**CASES[case], "vitals": vitals, **changes}


def between(start: float, end: float) -> Any:
    return lambda step: start + (end - start) * step / STEPS


FROZEN = parameters(a={"optimizer": None, "requires_grad": False})
RARE_EVALUATIONS = model(holds_dropout=True, forwards_per_backward={"1": 80, "2": 20})
AVERAGE = {"type": "Net", "num_evaluations": 6, "num_changes": 5, "is_copy": True}
ONE_HOT: dict[str, Any] = {
    "target/min": 0.0,
    "target/max": 1.0,
    "target/whole_share": 1.0,
    "target/num_values": 2,
    "target/std": 0.3,
}
TWO_OPTIMIZERS = model(optimizers=[*optimizer(), {**optimizer()[0], "index": 1}])
SLOW_DECAY: dict[str, Any] = {
    "anatomy": model(first_step=150),
    "vitals": {"learning_rate/0": lambda step: 0.1 * 0.99 ** (step % 150)},
}
BLOWN_UP: Any = lambda step: 2.3 if step < 3 else 30.0 if step < 20 else 1.0  # noqa: E731
PROBABILITIES = {"loss_input/min": 0.1, "loss_input/max": 0.8, "loss_input/row_sum_error": 2.0}

SOME_SCALED: list[float] = [0.9] * 12
FROZEN_LATER = {"requires_grad": False, "first_gradient_step": 0}
KEPT = {
    "vitals": {
        "input/fingerprint": lambda step: min(step, 400) if step < 50 or not step % 50 else None
    },
    "num_steps": 1200,
}
"""One batch from step 400 on, of which every 50th step is checked."""
BY_THEIR_OWN: dict[str, dict[str, Any]] = {
    "TemperatureTooHigh.floor": {
        "anatomy": model(is_likeness_scaled=True),
        "vitals": {"loss_input/min": 0.0, "loss_input/max": 0.1},
    },
    "AccumulationInverted.num_times": {
        "anatomy": model(
            loaders=[ONE_PASS],
            optimizers=[{**optimizer()[0], "num_steps": 264}],
            rhythm={"num_single": 252, "num_double": 12, "gaps": {"21": 12}},
        )
    },
    "AutocastWithoutEffect.num_steps": {
        "anatomy": model(precision={"num_asked": 6, "num_full": 12})
    },
    "FreezeNeverCalled.num_steps": like(
        "FreezeNeverCalled",
        anatomy=model(
            optimizers=[{**optimizer()[0], "num_steps": 12}],
            remarks=[{"rule": "FreezeNeverCalled", "place": "train.py:9"}],
        ),
    ),
    "WorkersSeededAlike.num_passes": like("WorkersSeededAlike"),
    "AugmentedAlike.num_passes": like(
        "AugmentedAlike",
        anatomy=remarked("AugmentedAlike", loaders=[{**SAME_DATA, "num_passes": 3}]),
    ),
    "checkup.reading_results._TWICE": like(
        "ScheduleInOtherUnits",
        anatomy=remarked(
            "ScheduleInOtherUnits",
            "StepLR of line 3 counts epochs.",
            loaders=[SAME_DATA],
            schedulers=[{"name": "StepLR", "num_steps": 45}],
        ),
    ),
    "ScheduleOfAnotherOptimizer.num_steps": like("ScheduleOfAnotherOptimizer"),
    "BatchNormStatistics.num_changes": like("an average with the statistics of another model"),
    "checkup.data_use._FEWEST_KEPT": KEPT,
    "checkup.data_use._KEPT_FOR": KEPT,
    "checkup.model_design._FOR_GOOD": {
        "anatomy": remarked(
            "FrozenByMistake", parameters=parameters(a={**FROZEN_LATER, "last_gradient_step": 149})
        )
    },
    "checkup.update_use._QUIET": like(
        "a step that is left out from the middle on",
        anatomy=model(optimizers=[{**optimizer()[0], "num_steps": 150, "last_step": 149}]),
    ),
    "checkup.update_use._NEARLY": like("a step that is left out from the middle on"),
    "checkup.optimizing._SEVERAL": like(
        "OptimizerNotStepping",
        anatomy=model(
            loaders=[{**SAME_DATA, "num_passes": 1}],
            optimizers=[
                {
                    **optimizer()[0],
                    "num_steps": 2,
                    "backwards_per_step": {"100": 3},
                    "num_discarded": 297,
                }
            ],
        ),
    ),
    "checkup.reading_results._BOTH": like("TargetWithGradients"),
    "checkup.reading_results._GROUP": like("AccumulationMiscounted"),
    "MaskNotUsed.num_steps": like(
        "MaskNotUsed",
        anatomy=remarked("MaskNotUsed", optimizers=[{**optimizer()[0], "num_steps": 12}]),
    ),
    "IteratorUsedUp.num_times": {
        "anatomy": model(loaders=[ONE_PASS, {**HELD_OUT, "num_used_up": 3}])
    },
    "SamplesNeverDrawn.share": {
        "anatomy": model(loaders=[{**TINY, "num_samples": 180, "drops_last": True}])
    },
    "AverageMisweighted.num_changes": {
        "anatomy": model(evaluated=[{**AVERAGE, "followed": 0.04, "behind": 90.0}])
    },
    "AverageMisweighted.followed": {
        "anatomy": model(evaluated=[{**AVERAGE, "followed": 0.1, "behind": 90.0}])
    },
    "AverageMisweighted.behind": {
        "anatomy": model(evaluated=[{**AVERAGE, "followed": 0.9, "behind": 0.1}])
    },
    "EvaluationAugmented.num_passes": like("EvaluationAugmented"),
    "MeanOfMeans.num_evaluations": like("MeanOfMeans", num_steps=120),
    "MeanOfMeans.share": like("MeanOfMeans", last_batch=(3, 0.9)),
    "checkup.modes_use._PAIR": like("FrozenNormsDrift"),
    "FrozenNormsDrift.moved": like("FrozenNormsDrift"),
    "checkup.initial_weights._PAIR": like("both factors of adapters that were added later"),
    "StaleCopyEvaluated.num_evaluations": {
        "anatomy": model(evaluated=[{"type": "Net", "num_evaluations": 4, "is_copy": True}])
    },
    "WeightsUntied.num_steps": like(
        "WeightsUntied",
        anatomy=model(
            parameters=parameters(b={"copied_from": "Net_a.weight"}),
            optimizers=[{**optimizer()[0], "num_steps": 12}],
        ),
    ),
    "DropoutInEvaluation.num_calls": {"anatomy": model(dropped_in_evaluation={"train.py:14": 5})},
    "Float16Overflow.ratio": like("Float16Overflow", vitals={"update_ratio": 0.05}),
    "SameOrderEachEpoch.num_passes": {
        "anatomy": model(
            loaders=[{**TINY, "sampler": "RandomSampler", "num_passes": 8, "num_same_starts": 7}]
        )
    },
    "checkup.data_use._STALLED": {
        "anatomy": model(
            loaders=[{**ONE_PASS, "longest_wait_seconds": 40.0, "median_wait_seconds": 0.3}]
        )
    },
    "checkup.loader_use._LAST_DRAWN": like(
        "TrainedOnEvaluationData", vitals={"input/new_share": lambda step: float(step < 16)}
    ),
    "checkup.loader_use._MOSTLY_SEEN": like(
        "TrainedOnEvaluationData",
        vitals={"input/new_share": lambda step: 1.0 if step < 15 else 0.1},
    ),
    "checkup.targets_use._EXACT": {"vitals": {"input/off_line": 3e-10, "input/num_values": 320}},
    "checkup.update_use._STILL": like("a weight that is set back from some step on"),
    "saved.vital_signs._SCORED": {
        "anatomy": model(num_scored_samples=100),
        "loss": lambda step: 1.0 + 0.02 * step,
    },
    "EvaluationInputDiffers.times": {"evaluation": {"input/mean": 5.0, "input/std": 1.0}},
    "checkup.data_use._ROWS": CASES["clicks, of which few are predicted and many are told apart"],
    "checkup.data_use._RENAMED": like(
        "ClassesRenamed",
        evaluation={"batch_size": 50, "accuracy": 0.2, "renamed_accuracy": 0.95},
    ),
    "checkup.loader_use._FEWEST_EVALUATIONS": like("TrainedOnEvaluationData", num_steps=200),
    "FineTuningRate.lowest": adapted(base=LEFT_OUT, factors={}, text=TEXT, rate=1e-5),
    "EvaluationOnTrainingData.share": text(num_evaluated_trained=8),
    "checkup.loader_use._FEWEST_TEXTS": text(num_evaluated_trained=8),
    "checkup.finetuning_use._ENOUGH_ROWS": text(num_padded_left=10),
    "checkup.finetuning_use._FEW_TARGETS": text(num_prompt_tokens=50, num_prompt_trained=50),
    "checkup.finetuning_use._FEW_LENGTHS": text(
        num_cut=24, num_ends_trained=0, cut_lengths=[3, 5, 6, 9]
    ),
    "checkup.finetuning_use._CLOSE": {
        "anatomy": {
            **WRONG["LossScaledWrongly"]["anatomy"],
            "text": {**TEXT, "scales": SOME_SCALED},
        }
    },
    "GradientClippedAway.lost": {
        "anatomy": model(num_clipped=200),
        "vitals": {
            "gradient_norm": lambda step: 5e-4 if step >= 100 else 1 + 0.3 * (step % 7),
            "update_ratio": lambda step: 2e-6 if step >= 100 else 5e-3,
        },
    },
    "LearningRateZero.share": {
        "vitals": {"learning_rate/0": lambda step: 0.1 if step < 40 else 5e-5}
    },
    "LabelsOutOfRange.num_batches": like("LabelsOutOfRange", num_steps=10),
    "LossJumpsAtResume.num_losses": {
        "anatomy": model(first_step=STEPS - 10),
        "loss": lambda step: (0.1 if step < STEPS - 10 else 1.6) + 0.01 * (step % 3),
    },
    "GradientJumpsAtResume.num_norms": {
        "anatomy": model(first_step=STEPS - 10),
        "vitals": {"gradient_norm": lambda step: 1.0 if step < STEPS - 10 else 12.0},
    },
    "OldRateBroughtBack.num_rates": like("OldRateBroughtBack", num_steps=FEW),
    "RateJumpsAtResume.factor": SLOW_DECAY,
    "checkup.checkpoint_use._OWN_CHANGE": SLOW_DECAY,
    "DataRepeatedAtResume.num_batches": like(
        "DataRepeatedAtResume",
        vitals={"input/fingerprint": lambda step: 850 + step if 150 <= step < 160 else 1000 + step},
    ),
    "checkup.checkpoint_use._TRAINED_ON": {
        "anatomy": model(checkpoints=[{**WEIGHTS, "num_matched": 0, "step": STEPS - 10}])
    },
    "OptimizerRecreated.num_optimizers": {
        "anatomy": model(
            optimizers=optimizer(momentum=0.9),
            num_remade=50,
            backwards=[{"training": True, "count": 60}],
        )
    },
    "FutureVisible.times": like(
        "FutureVisible", vitals={"tokens/last_accuracy": 0.9, "tokens/other_accuracy": 0.96}
    ),
    "FutureVisible.num_samples": like("FutureVisible", vitals={"batch_size": 1}),
    "TargetIsInput.num_batches": like("TargetIsInput", num_steps=20, loss=lambda step: 0.01),
    "UnshuffledLabels.num_batches": like("UnshuffledLabels", num_steps=40),
    "EpochCutShort.num_passes": {
        "anatomy": model(
            loaders=[
                {
                    "num_samples": 1280,
                    "batch_size": 32,
                    "num_passes": 15,
                    "num_batches": 15,
                    "num_trained": 15,
                }
            ]
        ),
        "loss": flat,
    },
    "TrainingInEvaluationMode.num_backwards": {
        "anatomy": model(
            holds_dropout=True,
            backwards=[{"training": True, "count": 50}, {"training": False, "count": 50}],
        )
    },
    "EvaluationInTrainingMode.num_forwards": {
        "anatomy": model(
            holds_dropout=True,
            forwards=[*MODEL["forwards"], {"training": True, "grad": False, "count": 5}],
        )
    },
    "LowPrecisionWeights.moved": {
        "anatomy": model(parameters=parameters(a={"dtype": "bfloat16"})),
        "vitals": moved(5e-5),
        "loss": flat,
    },
    "LossTermDominates.times": {
        "vitals": {"loss_term/0.cross_entropy": flat, "loss_term/1.mse_loss": 230.0},
        "loss": lambda step: 232.3,
    },
    "UnnormalizedInput.nothing": {
        "vitals": {"input/min": -0.005, "input/max": 0.005, "input/std": 0.002}
    },
    "UnnormalizedTarget.size": {**over_amounts(**{"target/std": 100.0}), "loss": lambda step: 1e4},
    "GradientClippedAway.moved": like("GradientClippedAway", vitals=moved(0.01)),
    "WeightDecayTooStrong.share": {
        "anatomy": model(optimizers=optimizer(weight_decay=1e-3)),
        "weights": lambda name, step: (9 - 8.1 * step / STEPS, 0.2, -0.2),
    },
    "WeightDecayTooStrong.pull": {
        "anatomy": model(optimizers=optimizer(weight_decay=0.1)),
        "weights": lambda name, step: (9 - 4.5 * step / STEPS, 0.2, -0.2),
        "loss": flat,
    },
    "ExplodingGradient.elasticity": like("ExplodingGradient", vitals={"gradient_norm": 100.0}),
    "DeadLayer.num_batches": {
        "vitals": {"activation/relu/dead_share": lambda step: float(step >= STEPS - 10)}
    },
    "FadingGradient.num_steps": {
        **FADING,
        "gradients": lambda name, step: FADING["gradients"](name, step) if step < 2 else (1.0, 1.0),
        "loss": flat,
    },
    "FadingGradient.share": {
        **FADING,
        "gradients": lambda name, step: (5e-4 if name[0] == "a" else 1.0, 1.0),
        "loss": flat,
    },
    "LearningRateTooLow.moved": {"vitals": moved(0.01), "loss": flat, "num_steps": 150},
    "ClassesAsAmounts.most": {
        **over_amounts(
            **{**TEN_CLASSES, "target/max": 29.0, "target/std": 8.7, "target/num_values": 30}
        ),
        "loss": lambda step: 20.0 + 50 * 0.97**step,
    },
    "OutputIgnoresInput.share": like("OutputIgnoresInput", vitals={"loss_input/sample_std": 0.01}),
    "OutputIgnoresInput.copied": like(
        "OutputIgnoresInput",
        vitals={"loss_input/sample_std": 0.1},
        anatomy=model(losses=loss_facts("mse_loss", is_target_input=True)),
    ),
    "OutputIgnoresInput.left": like(
        "OutputIgnoresInput",
        vitals={"loss_input/sample_std": lambda step: 1.0 if step < 10 else 0.05},
        anatomy=model(losses=loss_facts("mse_loss", is_target_trained=True)),
    ),
    "checkup.data_use._FEWEST_LABELS": like(
        "OneClassPredicted", vitals={"batch_size": 5}, num_steps=200
    ),
    "checkup.data_use._RECALL": like(
        "OneClassPredicted", vitals={"predictions/largest_share": 0.997}
    ),
    "checkup.initial_weights._UPDATES": like(
        "SymmetricWeights",
        anatomy=model(optimizers=[{**optimizer()[0], "num_steps": 50}]),
    ),
    "checkup.layers._DONE": {
        "gradients": lambda name, step: (0.0, 0.0) if name == "a.weight" else (1.0, 0.01),
        "loss": lambda step: 2.0 if step < 30 else 0.01,
    },
    "checkup.layers._FIRST_UPDATES": like(
        "ExplodingGradient",
        vitals={"gradient_norm": lambda step: 1e6 if step == 10 else 1.0},
        loss=lambda step: 2.3 if step < 20 else float("nan"),
    ),
    "checkup.learning_rates._NOTHING_BESIDE": {
        "anatomy": TWO_OPTIMIZERS,
        "vitals": {"learning_rate/1.0": 5e-8},
    },
    "checkup.learning_rates._MOVED_FOR_AMOUNTS": {
        **over_amounts(**moved(0.01)),
        "loss": lambda step: 0.7,
    },
    "checkup.learning_rates._LUCK": {**over_amounts(**moved(0.002)), "loss": between(0.9, 0.6)},
    "checkup.learning_rates._LUCK_IF_NOT_MOVED": {
        **over_amounts(**moved(0.0002)),
        "loss": between(0.9, 0.6),
    },
    "checkup.learning_rates._NOT_MOVED": {
        **over_amounts(**moved(0.0002)),
        "loss": between(0.9, 0.6),
    },
    "checkup.learning_rates._RAISED": {
        "vitals": {"update_ratio": lambda step: 0.2 if 3 < step < 10 else 1e-3},
        "loss": lambda step: 5.0 if step == 12 else flat(step),
    },
    "checkup.learning_rates._HUGE_UPDATE": {
        "vitals": {"update_ratio": lambda step: 0.3 if step < 10 else 1e-3},
        "loss": BLOWN_UP,
    },
    "checkup.learning_rates._BLOWN_UP": {
        "vitals": {"update_ratio": lambda step: 0.6 if step < 10 else 1e-3},
        "loss": BLOWN_UP,
    },
    "checkup.learning_rates._NUMB": {
        "vitals": {
            "update_ratio": lambda step: 0.2 if step < 3 else 1e-3,
            "gradient_norm": lambda step: 1.0 if step < 10 else 0.1,
        },
        "loss": flat,
    },
    "checkup.learning_rates._SLOW_UNEXPLAINED": {
        **over_amounts(**moved(0.05)),
        "loss": between(0.72, 0.65),
    },
    "checkup.learning_rates._TINY_NORM": like(
        "GradientClippedAway", vitals={"gradient_norm": 0.01, "input/fingerprint": 7}
    ),
    "checkup.learning_rates._CLIPPED_SPREAD": like(
        "GradientClippedAway", vitals={"gradient_norm": lambda step: 1e-5 + 1e-7 * (step % 2)}
    ),
    "checkup.loader_use._PART": {
        "anatomy": model(
            loaders=[
                {
                    "num_samples": 1280,
                    "batch_size": 32,
                    "num_passes": 10,
                    "num_batches": 50,
                    "num_trained": 50,
                }
            ]
        ),
        "loss": flat,
    },
    "checkup.loss_terms._STILL_LOW": like(
        "LossWithoutBound", loss=lambda step: 2.3 - 0.2 * step if step < 160 else -10.0
    ),
    "checkup.loss_use._CLOSE": like("LossInputAlreadySoftmax", vitals={"loss_input/max": 1.003}),
    "checkup.loss_use._SUMS_TO_ONE": {
        "vitals": {
            "loss_input/min": 0.45,
            "loss_input/max": 0.55,
            "loss_input/row_sum_error": 0.005,
        }
    },
    "checkup.loss_use._EXACT_ZEROS": {
        "vitals": {
            **PROBABILITIES,
            "loss_input/min": lambda step: 0.0 if step % 10 < 3 else 0.1,
        }
    },
    "checkup.loss_use._LOW_PROBABILITY": {"vitals": {**PROBABILITIES, "loss_input/min": 0.3}},
    "checkup.loss_use._HIGH_PROBABILITY": {"vitals": PROBABILITIES},
    "checkup.loss_use._MORE_BATCHES": {"vitals": PROBABILITIES, "num_steps": 60},
    "checkup.loss_use._CLIPPED": {
        "vitals": {"loss_input/min": lambda step: 0.1 * (step % 2), "loss_input/max": 4.0}
    },
    "checkup.loss_use._BEYOND": like(
        "OutputRangeTooNarrow", vitals={"target/min": 0.0, "target/max": 1.1}
    ),
    "checkup.loss_use._AT_END": like("OutputRangeTooNarrow", vitals={"loss_input/max": 0.95}),
    "checkup.model_outputs._FIRST_BATCHES": like(
        "OutputIgnoresInput",
        vitals={"loss_input/sample_std": lambda step: 1.0 if step < 5 else 0.05},
        anatomy=model(losses=loss_facts("mse_loss", is_target_trained=True)),
    ),
    "checkup.modes_use._USUAL": {"anatomy": RARE_EVALUATIONS},
    "checkup.modes_use._NOW_AND_THEN": {"anatomy": RARE_EVALUATIONS},
    "checkup.optimizing._RISEN": {
        "anatomy": model(optimizers=optimizer(maximize=True)),
        "loss": between(2.3, 3.0),
    },
    "checkup.outcomes._LOSSES_THEN": {
        "evaluation_loss": lambda step: 1.0 + abs(step - 59) / 50,
        "loss": lambda step: 2.3 if step < 45 else 1.0 if step < 100 else 0.8,
    },
    "checkup.outcomes._RISE": {"evaluation_loss": lambda step: 1.0 if step < 100 else 1.3},
    "checkup.outcomes._FALLEN_TO": {
        "evaluation_loss": lambda step: 1.0 if step < 100 else 1.5,
        "loss": lambda step: 2.0 if step < 100 else 1.0,
    },
    "checkup.sequence_use._USUAL_ERRORS": like(
        "FutureVisible", vitals={"tokens/last_accuracy": 0.3, "tokens/other_accuracy": 0.85}
    ),
    "checkup.sequence_use._MORE_ERRORS": like(
        "FutureVisible", vitals={"tokens/last_accuracy": 0.98, "tokens/other_accuracy": 0.999}
    ),
    "checkup.sequence_use._NOISE": like(
        "FutureVisible",
        vitals={"tokens/last_accuracy": 0.954, "tokens/other_accuracy": 0.99, "batch_size": 1},
    ),
    "checkup.sequence_use._FEWEST_VALUES": {
        "vitals": {"input/holds_target": 1.0, "target/num_values": 8}
    },
    "checkup.sequence_use._HARDLY_ANY": like(
        "PaddingMaskInverted", vitals={"tokens/end_masked": 0.03}
    ),
    "checkup.targets_use._LAST_BATCHES": {
        **over_amounts(
            **{
                "target/mean": 250_000.0,
                "target/std": 50_000.0,
                "loss_input/max": lambda step: 1e6 if step < STEPS - 5 else 0.5,
            }
        ),
        "loss": lambda step: 1e6,
    },
    "checkup.targets_use._ROUNDING": {
        **over_amounts(**{**ONE_HOT, "target/row_sum_error": 5e-7}),
        "loss": lambda step: 0.063,
    },
    "checkup.targets_use._ONE_HOT_LEFT": {
        **over_amounts(**{**ONE_HOT, "target/row_sum_error": 0.0}),
        "loss": lambda step: 0.063,
    },
    "UpdatesStop.num_saved": like(
        "UpdatesStop",
        weights=lambda name, step: (9.0 + min(step, 55), 0.2, -0.2),
        num_steps=115,
    ),
    "UpdateLost.moved": like("UpdateLost", gradients=lambda name, step: (0.03, 0.01)),
    "checkup.update_use._ABOVE_EPS": like(
        "UpdateLost",
        anatomy=model(
            parameters=parameters(a={"last_gradient_step": STEPS - 1}),
            optimizers=optimizer(betas=[0.9, 0.999], eps=1e-8),
        ),
        gradients=lambda name, step: (3e-6, 1e-7),
    ),
    "checkup.update_use._SCORED": {"anatomy": model(num_cut_samples=STEPS, num_scored_samples=60)},
    "checkup.ranks_use._LEAST_SECONDS": {
        "ranks": of_ranks(own=lambda rank: 0.002 if rank == 1 else 0.0005, seconds=0.003)
    },
    "checkup.ranks_use._PATIENCE": {
        "ranks": of_ranks(updates=lambda rank, number: max(0, number - rank % 2))
    },
    "checkup.vitals_rule.SMALL_BATCH": like("UnshuffledLabels", vitals={"batch_size": 10}),
    "saved.vital_signs.FEWEST_LOSSES": like("LossRising", num_steps=60),
    "saved.vital_signs._TENTH": {"loss": lambda step: 5.0 if step >= STEPS - 10 else falling(step)},
    "saved.vital_signs._FEWEST_FIRST": {
        "loss": lambda step: 1.0 if step < 7 else 3.0,
        "num_steps": 60,
    },
    "saved.vital_signs._MOST_FIRST": {"loss": lambda step: 1.0 if step < 12 else 3.0},
    "saved.vital_signs._FEWEST_LAST": {
        "loss": lambda step: 1.0 if step < 50 else 3.0,
        "num_steps": 60,
    },
    "saved.vital_signs._FEWEST_IN_THIRD": {
        "anatomy": model(parameters=FROZEN),
        "loss": lambda step: 2.25 - 0.15 * step / 120,
        "num_steps": 120,
    },
    "saved.vital_signs._NOISE": {
        "anatomy": model(parameters=FROZEN),
        "loss": lambda step: 2.25 - 0.15 * step / 110,
        "num_steps": 110,
    },
    "saved.vital_signs._LINGERING_IN_ALL": CASES[
        "a gradient that fades, and a loss that falls late"
    ],
    "saved.vital_signs.EXPLAINED": {**over_amounts(), "loss": lambda step: 0.2},
    "saved.vital_signs._NOT_LOWER": {**over_amounts(), "loss": between(0.7, 0.66)},
    "saved.vital_signs._AS_THE_MEAN": {**over_amounts(), "loss": between(1.3, 1.17)},
    "saved.vital_signs._NEAR_CHANCE": {"loss": lambda step: 5.0 if step < 30 else 2.6},
    "saved.vital_signs._SAME_LOSS": {
        **over_amounts(loss_value=0.19),
        "loss": lambda step: 0.2,
    },
}
"""The training that a number decides, where none of `test_checkup` is near it."""
UNDECIDED = {
    "checkup.initial_weights._AT_START": "these trainings have every figure from step 0 on",
    "checkup.initial_weights._NAMES_SHOWN": "only shortens a message",
    "checkup.model_design._SHOWN": "only shortens a message",
    "checkup.optimizing._NAMES_SHOWN": "only shortens a message",
    "checkup.rank_death._ENDED": "the number of a signal",
    "checkup.rank_death._TOGETHER_SECONDS": "of files of processes: `test_rank_death.py`",
    "checkup.ranks_use._MOST_NAMED": "only shortens a message",
    "checkup.ranks_use._MUCH": "only chooses a sentence of the message",
    "checkup.update_use._SMALLEST_FLOAT16": "only shown in a message",
    "saved.vital_signs.EPSILON": "only keeps a division by zero away",
    "saved.vital_signs.LONG_RUN": "decides while a job runs, and these trainings are over",
}
"""Numbers that no finished training shows, and why."""


@pytest.mark.parametrize("number", numbers(), ids=lambda number: number.name)
def test_a_number_decides_something(number: Number, tmp_path: Path):
    if number.name in UNDECIDED:
        return
    if number.name in BY_THEIR_OWN:
        case = BY_THEIR_OWN[number.name]
    else:
        assert number.name in BY_CASES, "name a training that is judged differently when it moves"
        name, variant = BY_CASES[number.name]
        case = changed(CASES[name], variant)
    vitals = vitals_of(course(tmp_path, **case))
    assert any(changes(number, vitals, factor) for factor in FACTORS)


def test_the_lists_name_no_number_that_is_gone():
    assert {*BY_CASES, *BY_THEIR_OWN, *UNDECIDED} == {number.name for number in numbers()}


def test_the_page_counts_the_numbers():
    page = Path(__file__).parents[3] / "docs" / "rules" / "checkup-numbers.md"
    assert f"use {len(numbers())} named numbers" in page.read_text()


def test_every_constant_has_its_reason_beside_it():
    named = {(module, number.constant) for number in numbers() for module in number.modules}
    without = []
    for module in sorted({module for module, _ in named}):
        body = ast.parse(Path(str(sys.modules[module].__file__)).read_text()).body
        for line, following in zip(body, [*body[1:], None], strict=True):
            is_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            if isinstance(line, ast.Assign) and not is_text:
                written = [
                    n.id for target in line.targets for n in ast.walk(target) if hasattr(n, "id")
                ]
                without += [f"{module}.{name}" for name in written if (module, name) in named]
    assert without == [], "write beside it why the number is what it is"


def changed(case: dict[str, Any], variant: str) -> dict[str, Any]:
    if not variant:
        return case
    if variant == "short":
        anatomy = copy.deepcopy(case.get("anatomy", {}))
        return {**case, "anatomy": replaced(anatomy, STEPS, FEW), "num_steps": FEW}
    share, _, what = variant.partition(" ")
    if what == "loss":
        return {**case, "loss": weakened(falling, case["loss"], float(share))}
    vitals = {
        name: weakened(VITALS.get(name), value, float(share))
        for name, value in case.get("vitals", {}).items()
    }
    return {**case, "vitals": vitals}


def replaced(value: Any, old: int, new: int) -> Any:
    if isinstance(value, dict):
        return {key: replaced(each, old, new) for key, each in value.items()}
    if isinstance(value, list):
        return [replaced(each, old, new) for each in value]
    return new if value == old and not isinstance(value, bool) else value


def weakened(usual: Any, wrong: Any, share: float) -> Any:
    """Between a figure of an ordinary training and this one."""
    if wrong is None:
        return None
    if not callable(usual) and not callable(wrong):
        return (usual or 0.0) + share * (wrong - (usual or 0.0))
    return lambda step: (1 - share) * at(usual, step) + share * at(wrong, step)


def at(figure: Any, step: int) -> float:
    value = figure(step) if callable(figure) else figure
    return float(value or 0.0)
