"""Watches what is minimised: what weighs log probabilities, whether targets are trained, which way
entropies and ratios of a policy go.
"""

import re
import weakref
from collections import Counter, deque
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Normal

from trackside.capture.failures import Failures, guarded
from trackside.capture.model.function_patches import FunctionPatch
from trackside.capture.vitals.anatomy_facts import AnatomyFacts
from trackside.capture.vitals.loss_graph import kind_of
from trackside.capture.vitals.losses import LossCall
from trackside.capture.vitals.measures import sample_parameter
from trackside.capture.vitals.objective_graph import (
    entropy_of_policy,
    has_free_precision,
    is_likelihood,
    is_weight_trained,
    leaves,
    raw_spread,
    softmax_over_samples,
    variance_in_divergence,
)
from trackside.capture.vitals.script_names import script_variables, weights_among
from trackside.capture.vitals.step import RunningStep

_KINDS = (Bernoulli, Categorical, Normal)
_GRAPHS_OF_A_KIND = 3
"""Backwards read of each kind of objective: stages of a training have different ones."""
_MOST_KINDS = 16
_NUM_BACKWARDS = 40
"""Backwards of a policy whose ratios are looked at."""
_MOST_SCORES = 8
"""Log probabilities whose nodes are held until the next backward: the last ones."""
_LOSSES = {
    "NllLoss": "cross_entropy",
    "MseLoss": "mse_loss",
    "SmoothL1Loss": "smooth_l1_loss",
    "HuberLoss": "huber_loss",
    "BinaryCrossEntropyWithLogits": "binary_cross_entropy_with_logits",
    "BinaryCrossEntropy": "binary_cross_entropy",
}
_RATIO = re.compile(r"(\w+_)?ratios?(_\w+)?")


class Objectives:
    def __init__(self, failures: Failures, facts: AnatomyFacts, running: RunningStep) -> None:
        self.failures = failures
        self._facts = facts
        self._running = running
        self._wrapping = FunctionPatch()
        self._drawn_after: int | None = None
        """Updates before actions were last drawn; None where none ever were."""
        self._read: Counter[tuple[str, ...]] = Counter()
        self._scores: deque[Any] = deque(maxlen=_MOST_SCORES)
        """Nodes of log probabilities since the last backward."""
        self._num_policies = 0
        self._num_entropies: int | None = None
        """Backwards with an entropy by the script's own arithmetic; None before the first."""
        self._target: Any = None
        """The node of a target that is computed with gradients, in the running step."""
        self._apart: tuple[Tensor, Tensor] | None = None
        """A parameter that only the target has, and what it was."""
        self._weights: weakref.ref[Tensor] | None = None
        """The advantages of the last backward."""

    def install(self) -> None:
        for kind in _KINDS:
            self._wrapping.wrap(kind, "log_prob", after=self._on_score)
            self._wrapping.wrap(kind, "entropy", after=self._on_entropy)
            self._wrapping.wrap(kind, "sample", after=self._on_sample)
        self._wrapping.wrap(torch.autograd, "backward", before=self._before_backward)

    def remove(self) -> None:
        self._wrapping.undo()

    def see_loss(self, call: LossCall) -> None:
        """Of a divergence between two outputs, which is to change one of them."""
        if call.function == "kl_div" and call.graphs is not None:
            prediction, target = (leaves(each) for each in call.graphs)
            if target and not prediction.keys() & target.keys():
                self._target = call.graphs[1]

    @guarded
    def _on_score(self, result: Any, *_: Any, **__: Any) -> None:
        is_wanted = self._num_policies < _NUM_BACKWARDS
        if is_wanted and isinstance(result, Tensor) and result.grad_fn is not None:
            self._scores.append(result.grad_fn)

    @guarded
    def _on_sample(self, *_: Any, **__: Any) -> None:
        self._drawn_after = self._running.num_updates

    @guarded
    def _on_entropy(self, result: Any, *_: Any, **__: Any) -> None:
        is_wanted = self._num_policies < _NUM_BACKWARDS and self._scores
        if is_wanted and isinstance(result, Tensor) and result.requires_grad:
            result.register_hook(partial(_see_entropy, self._facts))

    @guarded
    def _before_backward(self, losses: Any = None, *_: Any, **__: Any) -> None:
        first = losses if isinstance(losses, Tensor) else next(iter(losses or ()), None)
        root = getattr(first, "grad_fn", None)
        scores = set(self._scores)
        self._scores.clear()
        target, self._target = self._target, None
        if root is None:
            return
        if target is not None:
            self._see_target(root, target)
        if scores:
            self._see_policy(root, scores)
        key = (kind_of(root), *(kind_of(arm) for arm, _ in root.next_functions if arm is not None))
        if self._read[key] < _GRAPHS_OF_A_KIND and len(self._read) <= _MOST_KINDS:
            self._read[key] += 1
            self._see_graph(root, key[0])
        if self._num_entropies is not None and self._num_entropies < _NUM_BACKWARDS:
            self._see_own_entropy(root)

    def _see_graph(self, root: Any, kind: str) -> None:
        if kind in _LOSSES:
            self._facts.see_objective(_LOSSES[kind])
        if found := raw_spread(root):
            self._facts.see_objective_fact("raw_spread", found)
        if (variance := variance_in_divergence(root)) is not None:
            variance.register_prehook(partial(_see_divergence, self._facts))
        if is_likelihood(root) and not any(weights_among(script_variables())):
            self._facts.see_objective_fact("is_likelihood", True)
        if has_free_precision(root):
            self._facts.see_objective_fact("has_free_precision", True)
        if shape := softmax_over_samples(root):
            self._facts.see_objective_fact("softmax_over_samples", list(shape))
        is_new = self._num_entropies is None and any(weights_among(script_variables()))
        if is_new and entropy_of_policy(root) is not None:
            self._num_entropies = 0

    def _see_own_entropy(self, root: Any) -> None:
        product = entropy_of_policy(root)
        if product is not None and self._num_entropies is not None:
            self._num_entropies += 1
            product.register_prehook(partial(_see_own_entropy, self._facts))

    def _see_target(self, root: Any, target: Any) -> None:
        """Whether gradients reach the target's parameters by no other way, and move them."""
        apart = leaves(target)
        if apart.keys() & leaves(root, without=target).keys():
            self._facts.see_objective_fact("target_trained", "")
            self._apart = None
            return
        if self._apart is None or id(self._apart[0]) not in apart:
            first = next(iter(apart.values()))
            self._apart = (first, sample_parameter(first).clone())
            return
        parameter, before = self._apart
        if not torch.equal(sample_parameter(parameter), before):
            name = self._facts.name_of(parameter)
            self._facts.see_objective_fact("target_trained", name)

    def _see_policy(self, root: Any, scores: set[Any]) -> None:
        self._num_policies += 1
        if is_weight_trained(root, scores):
            self._facts.count_objective_fact("num_weights_trained")
        known = script_variables()
        weights = next((v for _, v in weights_among(known) if isinstance(v, Tensor)), None)
        ratios = [v for n, v in known.items() if _RATIO.fullmatch(n) and isinstance(v, Tensor)]
        if weights is None or not ratios:
            return
        # On actions that were drawn before the last update, as from a batch that is split.
        are_old = self._drawn_after is not None and self._running.num_updates > self._drawn_after
        if are_old or (self._weights is not None and self._weights() is weights):
            is_alike = all(bool((each.detach() == 1).all()) for each in ratios)
            self._facts.count_objective_fact("num_repeated")
            self._facts.count_objective_fact("num_repeated_alike", int(is_alike))
        self._weights = weakref.ref(weights)


def _see_entropy(facts: AnatomyFacts, gradient: Tensor) -> None:
    """Descent makes less of what has a positive gradient."""
    total = float(gradient.sum())
    if total:
        name = "num_entropies_lowered" if total > 0 else "num_entropies_raised"
        facts.count_objective_fact(name)


def _see_own_entropy(facts: AnatomyFacts, gradients: tuple[Tensor | None, ...]) -> None:
    """Of p * log p, whose sum is the entropy with a minus sign."""
    for each in gradients:
        if each is not None:
            _see_entropy(facts, -each)


def _see_divergence(facts: AnatomyFacts, gradients: tuple[Tensor | None, ...]) -> None:
    """Of the variance, of which a divergence from the prior grows: descent must lower it."""
    total = sum(float(each.sum()) for each in gradients if each is not None)
    if total:
        name = "num_divergences_raised" if total < 0 else "num_divergences_lowered"
        facts.count_objective_fact(name)
