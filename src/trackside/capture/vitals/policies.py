"""How distributions are used: whether a policy gradient has the right sign, and whether samples cut
the graph.

The sign: by what is named a reward, a return or an advantage, and by the gradients of the log
probabilities that it weighs. Costs are weighed with the other sign, so names decide. `sample`
leaves the graph where `rsample` stays in it. A policy wants that, and computes the log probability
of the sample; a script that does not has cut off the distribution's parameters.
"""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, MultivariateNormal, Normal

from trackside.capture.dtypes import Array
from trackside.capture.failures import Failures, guarded
from trackside.capture.model.function_patches import FunctionPatch
from trackside.capture.vitals.anatomy_facts import AnatomyFacts
from trackside.capture.vitals.script_names import script_variables, weights_among

_KINDS = (Bernoulli, Categorical, Normal)
_NUM_BACKWARDS = 40
"""From the first on, that are compared."""
_MOST_SCORES = 4096
_LEAST = 0.3
"""A correlation that is none by chance, over as many backwards."""
_CONTINUOUS = (Normal, MultivariateNormal)
"""That have an `rsample` as well. Others are made of them, mostly."""


class Policies:
    def __init__(self, failures: Failures, facts: AnatomyFacts) -> None:
        self.failures = failures
        self._facts = facts
        self._wrapping = FunctionPatch()
        self._gradients: list[Tensor | None] = []
        """Of each score since the last backward."""
        self._num_backwards = 0

    def install(self) -> None:
        for kind in _KINDS:
            self._wrapping.wrap(kind, "log_prob", after=self._on_score)
        self._wrapping.wrap(torch.autograd, "backward", after=self._after_backward)

    def remove(self) -> None:
        self._wrapping.undo()

    @guarded
    def _on_score(self, result: Any, *_: Any, **__: Any) -> None:
        is_wanted = self._num_backwards < _NUM_BACKWARDS and len(self._gradients) < _MOST_SCORES
        if is_wanted and isinstance(result, Tensor) and result.requires_grad:
            result.register_hook(partial(self._keep, len(self._gradients)))
            self._gradients.append(None)

    def _keep(self, index: int, gradient: Tensor) -> None:
        if index < len(self._gradients):
            self._gradients[index] = gradient.detach()

    @guarded
    def _after_backward(self, *_: Any, **__: Any) -> None:
        if not self._gradients:
            return
        gradients = [each for each in self._gradients if each is not None]
        self._gradients = []
        self._num_backwards += 1
        try:
            self._compare(gradients)
        except (RuntimeError, TypeError, ValueError):
            self._num_backwards = _NUM_BACKWARDS  # a value of another kind with such a name

    def _compare(self, gradients: list[Tensor]) -> None:
        if not gradients:
            return
        per_sample = torch.cat([_of_samples(each) for each in gradients]).double().cpu().numpy()
        for name, value in weights_among(script_variables()):
            weight = _numbers(value)
            if weight is None or len(weight) != len(per_sample) or len(per_sample) < 3:
                continue
            if np.ptp(per_sample) > 0 and np.ptp(weight) > 0:
                self._facts.see_policy(name, _sign(per_sample, weight))
                return


def _of_samples(gradient: Tensor) -> Tensor:
    """One number for each: an action of several numbers is one sample."""
    return gradient.flatten(1).mean(1) if gradient.dim() == 2 else gradient.flatten()


def _sign(per_sample: Array, weight: Array) -> int:
    """1 where descent makes more of what weighs more, -1 where it makes less, 0 where it is not
    clear."""
    correlation = float(np.corrcoef(per_sample, weight)[0, 1])
    return 0 if abs(correlation) < _LEAST else -1 if correlation > 0 else 1


def _numbers(value: Any) -> Array | None:
    if isinstance(value, list | tuple) and value and all(isinstance(v, Tensor) for v in value):
        value = torch.cat([each.detach().flatten() for each in value])
    if not isinstance(value, Tensor | np.ndarray | list | tuple):
        return None
    found: Array = torch.as_tensor(value).detach().double().flatten().cpu().numpy()
    return found


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
