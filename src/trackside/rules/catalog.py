"""All built-in rules by the name that `rule_to_invoke` has."""

import difflib
from typing import Any

from trackside.rules import profiler_report
from trackside.rules.activations import DeadRelu, SaturatedActivation
from trackside.rules.builtin import BuiltInRule
from trackside.rules.classes import ClassImbalance, Confusion
from trackside.rules.comparisons import SimilarAcrossRuns
from trackside.rules.gradients import VanishingGradient
from trackside.rules.inputs import CheckInputImages, NLPSequenceRatio
from trackside.rules.losses import LossNotDecreasing, Overfit, Overtraining
from trackside.rules.progress import StalledTrainingRule
from trackside.rules.tensors import AllZero, ExplodingTensor, TensorVariance, UnchangedTensor
from trackside.rules.weights import PoorWeightInitialization, WeightUpdateRatio
from trackside.rules.xgboost import FeatureImportanceOverweight, TreeDepth
from trackside.rules.xgboost_report import CreateXgboostReport

TENSOR_RULES: dict[str, type[BuiltInRule[Any]]] = {
    rule.name(): rule
    for rule in (
        VanishingGradient,
        ExplodingTensor,
        WeightUpdateRatio,
        PoorWeightInitialization,
        LossNotDecreasing,
        Overfit,
        Overtraining,
        StalledTrainingRule,
        DeadRelu,
        SaturatedActivation,
        AllZero,
        UnchangedTensor,
        TensorVariance,
        SimilarAcrossRuns,
        ClassImbalance,
        Confusion,
        CheckInputImages,
        NLPSequenceRatio,
        FeatureImportanceOverweight,
        TreeDepth,
        CreateXgboostReport,
    )
}
PROFILER_RULES: dict[str, type[BuiltInRule[Any]]] = {
    rule.name(): rule for rule in profiler_report.ALL
}


class UnknownRule(ValueError):
    """No built-in rule has this name; the message has the nearest."""


def find(name: str) -> type[BuiltInRule[Any]]:
    """By name in any letter case, with or without underscores."""
    by_key = {_key(each): rule for each, rule in {**TENSOR_RULES, **PROFILER_RULES}.items()}
    key = _key(name.partition("-")[0])  # the SDK's DetailedProfilerProcessingJobConfig-<time>
    if key in by_key:
        return by_key[key]
    near = difflib.get_close_matches(key, by_key, n=1)
    meant = f" Did you mean {by_key[near[0]].name()!r}?" if near else ""
    raise UnknownRule(f"No rule is called {name!r}.{meant} `trackside rules` lists them.")


def _key(name: str) -> str:
    return name.replace("_", "").lower()
