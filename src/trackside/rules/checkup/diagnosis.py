"""From findings to what is wrong: those with one cause together, the likeliest cause first.

Decides by the findings alone, so that it can be asked again wherever they are read.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from trackside.records.finding import Finding

_MISTAKES = (
    "OptimizerNotStepping",
    "OptimizerOfAnotherModel",
    "ModelRecreated",
    "InputNotFinite",
    "GradientMissing",
    "LearningRateZero",
    "ConstantInput",
    "ConstantLabels",
    "SymmetricWeights",
    "LossShapeMismatch",
    "BatchTakenForTime",
    "TargetOrderDiffers",
    "AttentionAxisWrong",
    "ViewForTranspose",
    "PaddingMaskInverted",
    "LossInputNotLogProbabilities",
    "ConstantOutput",
    "LabelsOutOfRange",
    "LossInputAlreadySoftmax",
    "SampleCutsGraph",
    "PolicyGradientReversed",
    "ForgottenZeroGrad",
    "AccumulationCleared",
    "ParametersNotOptimized",
    "OptimizerSettings",
    "OptimizerRecreated",
    "WarmUpNeverEnds",
    "FutureVisible",
    "TargetIsInput",
    "PaddingInLoss",
    "StateOfOtherSamples",
    "UnshuffledLabels",
    "OutputRangeTooNarrow",
    "SameBatch",
    "EpochCutShort",
    "TrainingInEvaluationMode",
    "EvaluationInTrainingMode",
    "EvaluationOnTrainingData",
    "BatchNormOfOneSample",
    "ActivationMissing",
)
"""What the code does, seen as such: hardly anything else looks like it."""
_CAUSES = (
    "LowPrecisionWeights",
    "GradientUnderflow",
    "LossWithoutBound",
    "LossTermDominates",
    "UnnormalizedInput",
    "UnnormalizedTarget",
    "FrozenByMistake",
    "DropoutTooStrong",
    "TemperatureTooHigh",
    "PaddingReadLast",
    "GradientClippedAway",
    "WeightsTooLarge",
    "WeightsTooSmall",
    "WeightDecayTooStrong",
    "ExplodingGradient",
    "LearningRateTooHigh",
    "DeadLayer",
    "SaturatedLayer",
    "FadingGradient",
    "LearningRateTooLow",
    "ClassesAsAmounts",
    "EvaluationInputDiffers",
    "OneClassPredicted",
    "SlowDataLoading",
    "Overfitting",
)
"""Inferred from figures."""
_OUTCOMES = ("LossNotFinite", "LossRising", "NothingLearnt", "OutputIgnoresInput")
"""What comes of them. Alone, they are all that is known."""
_MACHINE = (
    "IOBottleneck",
    "Dataloader",
    "CPUBottleneck",
    "LoadBalancing",
    "BatchSize",
    "LowGPUUtilization",
    "GPUMemoryIncrease",
    "StepOutlier",
    "MaxInitializationTime",
)
"""Profiler rules: what costs time, and leaves what is learnt as it is."""
_SYMPTOMS = frozenset(
    (
        "LossNotDecreasing",
        "VanishingGradient",
        "ExplodingTensor",
        "WeightUpdateRatio",
        "UnchangedTensor",
        "AllZero",
        "TensorVariance",
        "DeadRelu",
        "SaturatedActivation",
        "PoorWeightInitialization",
    )
)
"""Rules with limits of the user's, which see what any of the above comes to."""
_ORDER = {name: place for place, name in enumerate((*_MISTAKES, *_CAUSES, *_OUTCOMES))}

_ASIDE = frozenset(
    (
        "TrainingInEvaluationMode",
        "EvaluationInTrainingMode",
        "EvaluationInputDiffers",
        "EvaluationOnTrainingData",
        "SlowDataLoading",
        "BatchNormOfOneSample",
        "OneClassPredicted",
        "Overfitting",
        "ActivationMissing",
        "AccumulationCleared",
        "ClassesAsAmounts",
        "FutureVisible",
        "TargetIsInput",
        "StateOfOtherSamples",
    )
)
"""They leave the loss of training as it is: of what goes wrong with that they explain nothing."""
_ALSO = {
    "EvaluationInputDiffers": {"Overfitting"},
    "TrainingInEvaluationMode": {"Overfitting"},
    "EvaluationInTrainingMode": {"Overfitting"},
    "SameBatch": {"Overfitting"},
    "UnshuffledLabels": {"OneClassPredicted", "Overfitting"},
    "ConstantLabels": {"OneClassPredicted", "Overfitting"},
    "PaddingInLoss": {"OneClassPredicted"},
    "FutureVisible": {"Overfitting"},
    "BatchNormOfOneSample": {"NothingLearnt"},
    "ClassesAsAmounts": {"NothingLearnt"},
    "Overfitting": {"Overfit", "Overtraining"},
    "SlowDataLoading": {"Dataloader", "CPUBottleneck", "BatchSize", "LowGPUUtilization"},
    "IOBottleneck": {"Dataloader", "CPUBottleneck", "BatchSize", "LowGPUUtilization"},
    "Dataloader": {"CPUBottleneck", "BatchSize", "LowGPUUtilization"},
    "CPUBottleneck": {"BatchSize", "LowGPUUtilization"},
    "BatchSize": {"LowGPUUtilization"},
}
"""What these explain besides."""
_INDEPENDENT = frozenset(
    (*_ASIDE, "ForgottenZeroGrad", "ParametersNotOptimized", "SameBatch", "UnshuffledLabels")
) | {"LossInputAlreadySoftmax", "LossShapeMismatch", "OptimizerSettings", "OutputRangeTooNarrow"}
"""Mistakes of their own, whatever else is wrong."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing that is wrong."""

    cause: str
    """The rule that found it."""
    confidence: str
    """certain, likely or possible; found for rules whose limits the user chose."""
    step: int | None
    """Where it began."""
    tensor: str
    """The layer or tensor where it began; empty when it concerns all of the training."""
    message: str
    advice: str
    findings: tuple[Finding, ...]
    """The evidence: those of the cause, then what it explains."""

    @property
    def explains(self) -> tuple[str, ...]:
        """Rules whose findings are its consequences."""
        names = dict.fromkeys(finding.rule for finding in self.findings)
        return tuple(name for name in names if name != self.cause)

    def to_line(self, rank: int) -> bytes:
        """A line of JSON, for programs; `diagnosis` is its place, from 1, the likeliest."""
        record: dict[str, Any] = {
            "diagnosis": rank,
            "rule": self.cause,
            "cause": self.cause,
            "confidence": self.confidence,
            "step": self.step,
            "tensor": self.tensor,
            "message": self.message,
            "advice": self.advice,
            "explains": list(self.explains),
        }
        return json.dumps(record, ensure_ascii=False).encode() + b"\n"


def is_of_checkup(finding: Finding) -> bool:
    return finding.rule in _ORDER


def diagnose(findings: Iterable[Finding]) -> list[Diagnosis]:
    """What is wrong, the likeliest first; nothing when nothing was found.

    Those of the check-up come first, then what the user's own choice of rules found, by the step
    at which it began, then what is only slow.
    """
    by_rule: dict[str, list[Finding]] = {}
    for finding in findings:
        by_rule.setdefault(finding.rule, []).append(finding)
    ordered = sorted(by_rule, key=lambda name: _place(name, by_rule))
    causes: list[str] = []
    consequences: dict[str, list[str]] = {}
    for name in ordered:
        cause = next((each for each in causes if _explains(each, name, by_rule)), None)
        if cause is None:
            causes.append(name)
        else:
            consequences.setdefault(cause, []).append(name)
    return [
        _diagnosis(name, by_rule[name], [f for c in consequences.get(name, ()) for f in by_rule[c]])
        for name in causes
    ]


def _place(name: str, by_rule: dict[str, list[Finding]]) -> tuple[float, float]:
    steps = [finding.step for finding in by_rule[name] if finding.step is not None]
    began = min(steps, default=math.inf)
    if name == "DeadLayer" and began == 0:
        return _ORDER["WeightsTooLarge"] - 0.5, began  # dead before any update: no update did it
    if name in _MACHINE:
        return len(_ORDER) + 1 + _MACHINE.index(name), 0
    return _ORDER.get(name, len(_ORDER)), began


def _explains(cause: str, effect: str, by_rule: dict[str, list[Finding]]) -> bool:
    if effect in _ALSO.get(cause, ()):
        return True
    if cause in _ASIDE or cause not in _ORDER or effect in _INDEPENDENT:
        return False
    if effect in _SYMPTOMS:
        return True
    if effect not in _ORDER:
        return False
    if cause in _OUTCOMES:
        return effect in _OUTCOMES
    return True


def _diagnosis(name: str, found: Sequence[Finding], consequences: Sequence[Finding]) -> Diagnosis:
    first = min(found, key=lambda finding: finding.step or 0)
    return Diagnosis(
        cause=name,
        confidence=_confidence(name),
        step=first.step,
        tensor=first.tensor,
        message=first.message,
        advice=first.advice,
        findings=(*found, *consequences),
    )


def _confidence(name: str) -> str:
    if name in _MISTAKES:
        return "certain"
    if name in _CAUSES or name in _MACHINE:
        return "likely"
    return "possible" if name in _OUTCOMES else "found"
