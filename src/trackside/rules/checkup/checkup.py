"""The check-up: every rule of our own on one run, as one rule. What `--rule all` asks for."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from trackside.records.finding import Finding
from trackside.rules.builtin import Need, TensorRule
from trackside.rules.checkup.axis_use import (
    AttentionAxisWrong,
    TargetOrderDiffers,
    ViewForTranspose,
)
from trackside.rules.checkup.data_use import (
    ConstantInput,
    ConstantLabels,
    EvaluationInputDiffers,
    InputNotFinite,
    OneClassPredicted,
    SameBatch,
    SlowDataLoading,
    UnnormalizedInput,
    UnshuffledLabels,
)
from trackside.rules.checkup.initial_weights import (
    SymmetricWeights,
    WeightsTooLarge,
    WeightsTooSmall,
)
from trackside.rules.checkup.layers import (
    DeadLayer,
    ExplodingGradient,
    FadingGradient,
    SaturatedLayer,
)
from trackside.rules.checkup.learning_rates import (
    GradientClippedAway,
    LearningRateTooHigh,
    LearningRateTooLow,
    LearningRateZero,
    WeightDecayTooStrong,
)
from trackside.rules.checkup.loader_use import (
    EpochCutShort,
    EvaluationOnTrainingData,
    OneSampleOfBatch,
    RepeatedBatches,
)
from trackside.rules.checkup.loss_terms import LossTermDominates, LossWithoutBound
from trackside.rules.checkup.loss_use import (
    LossInputAlreadySoftmax,
    LossInputNotLogProbabilities,
    LossShapeMismatch,
    OutputRangeTooNarrow,
)
from trackside.rules.checkup.model_design import (
    ActivationMissing,
    DropoutTooStrong,
    FrozenByMistake,
)
from trackside.rules.checkup.model_outputs import (
    ConstantOutput,
    OutputIgnoresInput,
    TemperatureTooHigh,
)
from trackside.rules.checkup.modes_use import (
    BatchNormOfOneSample,
    EvaluationInTrainingMode,
    TrainingInEvaluationMode,
)
from trackside.rules.checkup.optimizing import (
    ForgottenZeroGrad,
    GradientMissing,
    ModelRecreated,
    OptimizerNotStepping,
    OptimizerOfAnotherModel,
    OptimizerRecreated,
    OptimizerSettings,
    ParametersNotOptimized,
)
from trackside.rules.checkup.outcomes import LossNotFinite, LossRising, NothingLearnt, Overfitting
from trackside.rules.checkup.sequence_use import (
    BatchTakenForTime,
    FutureVisible,
    PaddingInLoss,
    PaddingMaskInverted,
    PaddingReadLast,
    StateOfOtherSamples,
    TargetIsInput,
)
from trackside.rules.checkup.targets_use import (
    ClassesAsAmounts,
    LabelsOutOfRange,
    UnnormalizedTarget,
)
from trackside.rules.checkup.update_use import (
    AccumulationCleared,
    GradientUnderflow,
    LowPrecisionWeights,
    PolicyGradientReversed,
    SampleCutsGraph,
    UpdateLost,
    UpdatesStop,
    WarmUpNeverEnds,
)
from trackside.rules.checkup.vitals_rule import FIGURES, VitalsRule, missing_vitals
from trackside.rules.saved.evidence import Evidence

logger = logging.getLogger(__name__)

PARTS: tuple[type[VitalsRule], ...] = (
    OptimizerNotStepping,
    OptimizerOfAnotherModel,
    ModelRecreated,
    InputNotFinite,
    GradientMissing,
    LearningRateZero,
    ConstantInput,
    ConstantLabels,
    SymmetricWeights,
    LossShapeMismatch,
    BatchTakenForTime,
    TargetOrderDiffers,
    AttentionAxisWrong,
    ViewForTranspose,
    PaddingMaskInverted,
    LossInputNotLogProbabilities,
    ConstantOutput,
    LabelsOutOfRange,
    LossInputAlreadySoftmax,
    SampleCutsGraph,
    PolicyGradientReversed,
    ForgottenZeroGrad,
    AccumulationCleared,
    ParametersNotOptimized,
    OptimizerSettings,
    OptimizerRecreated,
    WarmUpNeverEnds,
    FutureVisible,
    TargetIsInput,
    PaddingInLoss,
    StateOfOtherSamples,
    UnshuffledLabels,
    OutputRangeTooNarrow,
    SameBatch,
    OneSampleOfBatch,
    EpochCutShort,
    TrainingInEvaluationMode,
    EvaluationInTrainingMode,
    EvaluationOnTrainingData,
    BatchNormOfOneSample,
    ActivationMissing,
    UpdateLost,
    UpdatesStop,
    LowPrecisionWeights,
    GradientUnderflow,
    LossWithoutBound,
    LossTermDominates,
    UnnormalizedInput,
    UnnormalizedTarget,
    FrozenByMistake,
    DropoutTooStrong,
    TemperatureTooHigh,
    PaddingReadLast,
    GradientClippedAway,
    WeightsTooLarge,
    WeightsTooSmall,
    WeightDecayTooStrong,
    ExplodingGradient,
    LearningRateTooHigh,
    DeadLayer,
    SaturatedLayer,
    FadingGradient,
    LearningRateTooLow,
    ClassesAsAmounts,
    EvaluationInputDiffers,
    RepeatedBatches,
    OneClassPredicted,
    SlowDataLoading,
    Overfitting,
    LossNotFinite,
    LossRising,
    NothingLearnt,
    OutputIgnoresInput,
)
"""All rules of the check-up, the likeliest cause first: mistakes, then causes, then outcomes."""


@dataclass
class Checkup(TensorRule):
    """Checks a training for every common mistake, without configuration.

    It runs all rules on vitals with their defaults. A finding has the name of the rule that
    reported it. The rules judge a run by its own course and by what its code does, not by fixed
    thresholds, so that a healthy run has no findings.
    """

    advice = (
        "See the advice of each finding. The diagnosis groups the findings that have one cause."
    )

    _parts: list[VitalsRule] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._parts = [part() for part in PARTS]

    def needs(self) -> tuple[Need, ...]:
        return FIGURES

    def missing(self, evidence: Evidence) -> str:
        return missing_vitals(evidence)

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        found: list[Finding] = []
        for part in list(self._parts):
            try:
                found += part.check(evidence)
            except Exception:  # a defect in one must not silence the others
                logger.exception("%s is left out from here on", part.name())
                self._parts.remove(part)
        return found
