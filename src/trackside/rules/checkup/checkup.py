"""The check-up: every rule of our own on one run, as one rule. What `--rule all` asks for."""

import logging
from collections.abc import Iterable
from dataclasses import field

from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.rules.builtin import Need, TensorRule
from trackside.rules.checkup.axis_use import (
    AttentionAxisWrong,
    TargetOrderDiffers,
    ViewForTranspose,
)
from trackside.rules.checkup.checkpoint_use import (
    BestWeightsNotCopied,
    DataRepeatedAtResume,
    GradientJumpsAtResume,
    LossJumpsAtResume,
    OldRateBroughtBack,
    OptimizerNotSaved,
    RateJumpsAtResume,
    StateNotRestored,
    WeightsNotLoaded,
    WeightsPartlyLoaded,
)
from trackside.rules.checkup.copies_use import AverageLeftIn, CopyNotMade
from trackside.rules.checkup.crashes import Crash
from trackside.rules.checkup.data_use import (
    ClassesRenamed,
    ConstantInput,
    ConstantLabels,
    EvaluationInputDiffers,
    InputNotFinite,
    OneClassPredicted,
    SameBatch,
    SameTargets,
    SlowDataLoading,
    UnnormalizedInput,
    UnshuffledLabels,
)
from trackside.rules.checkup.finetuning_use import (
    AdapterMergedTwice,
    AdaptersNotTrained,
    AnswersCutOff,
    BaseNotFrozen,
    EndNeverTrained,
    FineTuningRate,
    LossScaledWrongly,
    NewTokensNotTrained,
    NothingSupervised,
    PackedTextsMixed,
    PaddingAttended,
    PromptTrained,
    TargetsShiftedWrongly,
    TemplateMisused,
)
from trackside.rules.checkup.hang import Hang
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
    EvaluationAugmented,
    EvaluationOnTrainingData,
    FewDistinctSamples,
    IteratorUsedUp,
    OneSampleOfBatch,
    RepeatedBatches,
    SameOrderEachEpoch,
    SamplerWeightsReversed,
    SamplesNeverDrawn,
    TrainedOnEvaluationData,
)
from trackside.rules.checkup.loss_setup import (
    ClassWeightsReversed,
    LossSummed,
    RealClassIgnored,
    SmoothedTwice,
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
    AutocastWithoutEffect,
    AverageMisweighted,
    BatchNormOfOneSample,
    BatchNormStatistics,
    DropoutInEvaluation,
    EvaluationInTrainingMode,
    FrozenNormsDrift,
    StaleCopyEvaluated,
    TrainingInEvaluationMode,
)
from trackside.rules.checkup.objective_use import (
    AdvantageTrained,
    DeviationNotTaken,
    DivergenceRaised,
    EntropyLowered,
    EpisodeEndIgnored,
    GeneratorLabelsSwapped,
    PairedWithItself,
    RatioAlwaysOne,
    TargetIsOwnOutput,
    TeacherTrained,
)
from trackside.rules.checkup.onlooker_use import (
    EvaluatedBeforeTraining,
    TargetNetworkFixed,
    TeacherDropsOut,
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
from trackside.rules.checkup.rank_death import RankDied
from trackside.rules.checkup.ranks_use import (
    AveragedRanksDiffer,
    BuffersNotShared,
    ReplicasDiffer,
    SameDataOnRanks,
    SlowRank,
    UnequalSteps,
)
from trackside.rules.checkup.reading_results import (
    AccumulationMiscounted,
    AccumulationNotDivided,
    AugmentedAlike,
    MaskNotUsed,
    MeanOfMeans,
    MetricMiscomputed,
    NoiseNotAdded,
    ScheduleBeforeOptimizer,
    ScheduleInOtherUnits,
    ScheduleNeverStepped,
    ScheduleOfAnotherOptimizer,
    TargetWithGradients,
    TemperatureOnOneSide,
    TimeDrawnAgain,
    WorstWeightsKept,
)
from trackside.rules.checkup.reading_use import (
    FreezeNeverCalled,
    LabelsShuffledApart,
    WorkersSeededAlike,
)
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
    TargetLeaks,
    UnnormalizedTarget,
)
from trackside.rules.checkup.update_use import (
    AccumulationCleared,
    AccumulationInverted,
    ClippedAfterStep,
    Float16Overflow,
    GradientUnderflow,
    LowPrecisionWeights,
    PolicyGradientReversed,
    SampleCutsGraph,
    ScaleNotRemoved,
    UpdateLost,
    UpdatesStop,
    WarmUpNeverEnds,
    WeightsUntied,
)
from trackside.rules.checkup.vitals_rule import FIGURES, VitalsRule, missing_vitals
from trackside.rules.saved.evidence import Evidence
from trackside.storage.locate import Location

logger = logging.getLogger(__name__)

PARTS: tuple[type[VitalsRule], ...] = (
    RankDied,
    Crash,
    UnequalSteps,
    ReplicasDiffer,
    SameDataOnRanks,
    OptimizerNotStepping,
    OptimizerOfAnotherModel,
    ModelRecreated,
    WeightsNotLoaded,
    CopyNotMade,
    BestWeightsNotCopied,
    InputNotFinite,
    NothingSupervised,
    AdaptersNotTrained,
    GradientMissing,
    ScheduleInOtherUnits,
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
    AdvantageTrained,
    RatioAlwaysOne,
    TeacherTrained,
    TargetIsOwnOutput,
    PairedWithItself,
    DeviationNotTaken,
    DivergenceRaised,
    GeneratorLabelsSwapped,
    ScaleNotRemoved,
    ClippedAfterStep,
    ForgottenZeroGrad,
    AccumulationCleared,
    AccumulationInverted,
    ParametersNotOptimized,
    OptimizerSettings,
    OptimizerRecreated,
    WarmUpNeverEnds,
    FutureVisible,
    TargetsShiftedWrongly,
    TemplateMisused,
    EndNeverTrained,
    PaddingAttended,
    NewTokensNotTrained,
    TargetIsInput,
    PaddingInLoss,
    StateOfOtherSamples,
    UnshuffledLabels,
    OutputRangeTooNarrow,
    SamplesNeverDrawn,
    SameBatch,
    OneSampleOfBatch,
    SamplerWeightsReversed,
    EpochCutShort,
    IteratorUsedUp,
    AugmentedAlike,
    AccumulationMiscounted,
    ScheduleBeforeOptimizer,
    ScheduleOfAnotherOptimizer,
    ScheduleNeverStepped,
    MetricMiscomputed,
    WorstWeightsKept,
    TrainingInEvaluationMode,
    EvaluationInTrainingMode,
    DropoutInEvaluation,
    StaleCopyEvaluated,
    AutocastWithoutEffect,
    EvaluationOnTrainingData,
    BatchNormOfOneSample,
    ActivationMissing,
    AveragedRanksDiffer,
    Hang,
    LabelsShuffledApart,
    WorkersSeededAlike,
    FreezeNeverCalled,
    MaskNotUsed,
    TimeDrawnAgain,
    NoiseNotAdded,
    TemperatureOnOneSide,
    TargetWithGradients,
    AccumulationNotDivided,
    UpdateLost,
    UpdatesStop,
    WeightsUntied,
    LowPrecisionWeights,
    Float16Overflow,
    GradientUnderflow,
    WeightsPartlyLoaded,
    StateNotRestored,
    OptimizerNotSaved,
    RateJumpsAtResume,
    OldRateBroughtBack,
    DataRepeatedAtResume,
    AverageLeftIn,
    LossJumpsAtResume,
    GradientJumpsAtResume,
    AnswersCutOff,
    PackedTextsMixed,
    LossScaledWrongly,
    AdapterMergedTwice,
    BaseNotFrozen,
    PromptTrained,
    FineTuningRate,
    ClassWeightsReversed,
    RealClassIgnored,
    SmoothedTwice,
    EntropyLowered,
    EpisodeEndIgnored,
    TargetNetworkFixed,
    TeacherDropsOut,
    LossSummed,
    LossWithoutBound,
    LossTermDominates,
    SameTargets,
    FewDistinctSamples,
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
    TargetLeaks,
    ClassesRenamed,
    BatchNormStatistics,
    AverageMisweighted,
    EvaluationAugmented,
    MeanOfMeans,
    TrainedOnEvaluationData,
    EvaluationInputDiffers,
    SameOrderEachEpoch,
    RepeatedBatches,
    OneClassPredicted,
    SlowDataLoading,
    SlowRank,
    Overfitting,
    LossNotFinite,
    LossRising,
    NothingLearnt,
    OutputIgnoresInput,
    EvaluatedBeforeTraining,
    BuffersNotShared,
    FrozenNormsDrift,
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

    def check_before_start(self, place: Location) -> Iterable[Finding]:
        return [each for part in self._parts for each in part.check_before_start(place)]

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        found: list[Finding] = []
        for part in list(self._parts):
            try:
                found += part.check(evidence)
            except Exception:  # a defect in one must not silence the others
                logger.exception("%s is left out from here on", part.name())
                self._parts.remove(part)
        return found
