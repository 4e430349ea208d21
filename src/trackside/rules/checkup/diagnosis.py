"""From findings to what is wrong: those with one cause together, the likeliest cause first.

Decides by the findings alone, so that it can be asked again wherever they are read.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from trackside.finding import Finding

_MISTAKES = (
    "OptimizerNotStepping",
    "OptimizerOfAnotherModel",
    "InputNotFinite",
    "GradientMissing",
    "LearningRateZero",
    "ConstantInput",
    "ConstantLabels",
    "SymmetricWeights",
    "LossShapeMismatch",
    "LossInputNotLogProbabilities",
    "LossInputAlreadySoftmax",
    "ForgottenZeroGrad",
    "ParametersNotOptimized",
    "OptimizerSettings",
    "UnshuffledLabels",
    "OutputRangeTooNarrow",
    "SameBatch",
    "TrainingInEvaluationMode",
    "EvaluationInTrainingMode",
    "BatchNormOfOneSample",
)
"""What the code does, seen as such: hardly anything else looks like it."""
_CAUSES = (
    "UnnormalizedInput",
    "GradientClippedAway",
    "WeightsTooLarge",
    "WeightDecayTooStrong",
    "ExplodingGradient",
    "LearningRateTooHigh",
    "DeadLayer",
    "SaturatedLayer",
    "FadingGradient",
    "LearningRateTooLow",
    "EvaluationInputDiffers",
    "OneClassPredicted",
    "SlowDataLoading",
    "Overfitting",
)
"""Inferred from figures."""
_OUTCOMES = ("LossNotFinite", "LossRising", "NothingLearnt")
"""What comes of them. Alone, they are all that is known."""
_ORDER = {name: place for place, name in enumerate((*_MISTAKES, *_CAUSES, *_OUTCOMES))}

_ASIDE = frozenset(
    (
        "TrainingInEvaluationMode",
        "EvaluationInTrainingMode",
        "EvaluationInputDiffers",
        "SlowDataLoading",
        "BatchNormOfOneSample",
        "OneClassPredicted",
        "Overfitting",
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
    "BatchNormOfOneSample": {"NothingLearnt"},
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
    """certain, likely or possible."""
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

    Findings of rules that are no part of the check-up come last, each rule for itself.
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


def _place(name: str, by_rule: dict[str, list[Finding]]) -> float:
    place = float(_ORDER.get(name, len(_ORDER)))
    if name == "DeadLayer" and _first_step(by_rule[name]) == 0:
        return _ORDER["WeightsTooLarge"] - 0.5  # dead before any update: no update did it
    return place


def _explains(cause: str, effect: str, by_rule: dict[str, list[Finding]]) -> bool:
    if effect in _ALSO.get(cause, ()):
        return True
    if cause in _ASIDE or effect in _INDEPENDENT or cause not in _ORDER or effect not in _ORDER:
        return False
    if cause in _OUTCOMES:
        return effect in _OUTCOMES
    return True


def _diagnosis(name: str, found: Sequence[Finding], consequences: Sequence[Finding]) -> Diagnosis:
    first = min(found, key=lambda finding: finding.step or 0)
    confidence = "certain" if name in _MISTAKES else "likely" if name in _CAUSES else "possible"
    return Diagnosis(
        cause=name,
        confidence=confidence,
        step=first.step,
        tensor=first.tensor,
        message=first.message,
        advice=first.advice,
        findings=(*found, *consequences),
    )


def _first_step(found: Sequence[Finding]) -> int:
    return min(finding.step or 0 for finding in found)
