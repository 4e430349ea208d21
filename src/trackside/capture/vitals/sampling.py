"""Counts samples of distributions through which no gradient goes back, and those that are scored.

`sample` leaves the graph where `rsample` stays in it. A policy wants that, and asks for the
sample's logarithm of probability; who does not, has cut off what made the distribution.
"""

from typing import Any

import torch
from torch.distributions import MultivariateNormal, Normal

from trackside.capture.model.function_patches import FunctionPatch
from trackside.capture.vitals.anatomy_facts import AnatomyFacts

_CONTINUOUS = (Normal, MultivariateNormal)
"""That have an `rsample` as well. Others are made of them, mostly."""


class Sampling:
    def __init__(self, facts: AnatomyFacts) -> None:
        self._facts = facts
        self._wrapping = FunctionPatch()

    def install(self) -> None:
        for kind in _CONTINUOUS:
            self._wrapping.wrap(kind, "sample", before=self._on_sample)
            self._wrapping.wrap(kind, "log_prob", before=self._on_score)

    def remove(self) -> None:
        self._wrapping.undo()

    def _on_sample(self, distribution: Any, *_: Any, **__: Any) -> None:
        loc = getattr(distribution, "loc", None)
        if torch.is_grad_enabled() and getattr(loc, "requires_grad", False):
            self._facts.num_cut_samples += 1

    def _on_score(self, *_: Any, **__: Any) -> None:
        self._facts.num_scored_samples += 1
