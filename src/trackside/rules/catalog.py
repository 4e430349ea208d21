"""All built-in rules by the name that `rule_to_invoke` has."""

import difflib
from typing import Any

from trackside.rules.builtin import BuiltInRule, TensorRule
from trackside.rules.checkup.checkup import PARTS, Checkup
from trackside.rules.profiler import profiler_report
from trackside.rules.tensor.activations import DeadRelu, SaturatedActivation
from trackside.rules.tensor.any_tensors import (
    AllZero,
    ExplodingTensor,
    TensorVariance,
    UnchangedTensor,
)
from trackside.rules.tensor.classes import ClassImbalance, Confusion
from trackside.rules.tensor.comparisons import SimilarAcrossRuns
from trackside.rules.tensor.gradients import VanishingGradient
from trackside.rules.tensor.inputs import CheckInputImages, NLPSequenceRatio
from trackside.rules.tensor.losses import LossNotDecreasing, Overfit, Overtraining
from trackside.rules.tensor.progress import StalledTrainingRule
from trackside.rules.tensor.weights import PoorWeightInitialization, WeightUpdateRatio
from trackside.rules.tensor.xgboost import FeatureImportanceOverweight, TreeDepth
from trackside.rules.tensor.xgboost_report import CreateXgboostReport

GROUPS: dict[str, tuple[type[BuiltInRule[Any]], ...]] = {
    "Gradients and weights": (
        VanishingGradient,
        ExplodingTensor,
        WeightUpdateRatio,
        PoorWeightInitialization,
    ),
    "Losses": (LossNotDecreasing, Overfit, Overtraining),
    "Activations": (DeadRelu, SaturatedActivation),
    "Any tensors": (AllZero, UnchangedTensor, TensorVariance, SimilarAcrossRuns),
    "Data and predictions": (ClassImbalance, Confusion, CheckInputImages, NLPSequenceRatio),
    "The job itself": (StalledTrainingRule,),
    "XGBoost": (FeatureImportanceOverweight, TreeDepth, CreateXgboostReport),
    "The check-up": (Checkup, *PARTS),
    "The machine": profiler_report.ALL,
}
"""By what they watch, as they are listed."""
TENSOR_RULES: dict[str, type[BuiltInRule[Any]]] = {
    rule.name(): rule for rules in GROUPS.values() for rule in rules if issubclass(rule, TensorRule)
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
