"""The classes of all built-in rules. Imports every one of them; `catalog` does without."""

from typing import Any

from trackside.rules.builtin import BuiltInRule
from trackside.rules.checkup.checkup import PARTS, Checkup
from trackside.rules.report import profiler_report
from trackside.rules.report.xgboost_report import CreateXgboostReport
from trackside.rules.tensor.activations import DeadRelu, SaturatedActivation
from trackside.rules.tensor.any_tensors import (
    AllZero,
    ExplodingTensor,
    TensorVariance,
    UnchangedTensor,
)
from trackside.rules.tensor.classes import ClassImbalance, Confusion
from trackside.rules.tensor.comparisons import SimilarAcrossRuns
from trackside.rules.tensor.inputs import CheckInputImages, NLPSequenceRatio
from trackside.rules.tensor.losses import LossNotDecreasing, Overfit, Overtraining
from trackside.rules.tensor.progress import StalledTrainingRule
from trackside.rules.tensor.weights import (
    PoorWeightInitialization,
    VanishingGradient,
    WeightUpdateRatio,
)
from trackside.rules.tensor.xgboost import FeatureImportanceOverweight, TreeDepth

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
