"""Rules about XGBoost models, by the names its tensors have."""

import math
from collections.abc import Iterable
from dataclasses import field

import numpy as np

from trackside.quick_dataclass import dataclass
from trackside.records.finding import Finding
from trackside.rules.builtin import Need, TensorRule
from trackside.rules.onsets import Onsets
from trackside.rules.parameters import Pattern, parameter
from trackside.rules.saved.evidence import Evidence, Selection

_NODES = r"trees/Node$"


@dataclass
class FeatureImportanceOverweight(TensorRule):
    """A few features have nearly all of the importance.

    Fires when the `nfeatures` largest importances make up more than `threshold` of the sum of all.
    Does not fire with at most `nfeatures` features.
    """

    advice = (
        "Check that none of these features leaks the label; otherwise limit what a tree sees "
        "(colsample_bytree, max_depth) or regularise (lambda, alpha)."
    )

    threshold: float = parameter(0.8, "Share that is too large.", at_least=0, at_most=1)
    nfeatures: int = parameter(3, "Number of the largest importances that are summed.", at_least=1)
    tensor_regex: Pattern = parameter(".*feature_importance/weight", "Names of the importances.")
    _onsets: Onsets = field(default_factory=Onsets, init=False)

    def needs(self) -> tuple[Need, ...]:
        return (Need("feature_importance", self.tensor_regex),)

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        names = evidence.names(Selection(patterns=(self.tensor_regex,)))
        cube = evidence.figures(evidence.scalars(names), "mean")
        values = np.where(cube.saved, np.nan_to_num(cube.values), 0.0)
        for step, importances in zip(cube.steps, values, strict=True):
            order = np.argsort(importances)[::-1][: self.nfeatures]
            total = float(importances.sum())
            share = float(importances[order].sum()) / total if total > 0 else 0.0
            is_informative = int(np.count_nonzero(importances)) > self.nfeatures
            if self._onsets.begins("", is_informative and share > self.threshold):
                features = ", ".join(cube.names[place].rpartition("/")[2] for place in order)
                yield self.found(
                    evidence,
                    step,
                    f"The features {features} make up {share:.3g} of the importance, more than "
                    f"{self.threshold:g}.",
                    tensor=cube.names[int(order[0])],
                    value=share,
                    threshold=self.threshold,
                )


@dataclass
class TreeDepth(TensorRule):
    """The trees are so deep that they may memorise the training data.

    Fires when the integer part of log2(largest node number + 1) is above `depth`. This is the depth
    of a tree whose levels are full; for any other tree it is a lower bound.
    """

    advice = (
        "Lower max_depth or raise min_child_weight or gamma, and compare the evaluation metric: "
        "deeper trees are worth it only if that improves."
    )

    depth: int = parameter(4, "Largest depth that is accepted.", at_least=0)
    _onsets: Onsets = field(default_factory=Onsets, init=False)

    def needs(self) -> tuple[Need, ...]:
        return (Need("trees", _NODES),)

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        for name in evidence.names(Selection(patterns=(_NODES,))):
            cube = evidence.figures((name,), "max")
            for step, largest in zip(cube.steps, cube.values[:, 0].tolist(), strict=True):
                depth = int(math.log2(largest + 1)) if largest > 0 else 0
                if self._onsets.begins(name, depth > self.depth):
                    yield self.found(
                        evidence,
                        step,
                        f"A tree has the node {largest:.0f}, so a depth of at least {depth}, "
                        f"above {self.depth}.",
                        tensor=name,
                        value=depth,
                        threshold=self.depth,
                    )
