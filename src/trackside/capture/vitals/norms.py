"""How far the running statistics of frozen batch norms move: read when facts are written."""

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from trackside.capture.model.values import readable


class FrozenNorms:
    def __init__(self) -> None:
        self._first: dict[int, tuple[Tensor, Tensor]] = {}
        """Means and variances, as first seen after the norm was frozen."""

    def moved(self, norm: _BatchNorm) -> float | None:
        """On average over channels, in deviations of then: how far the means are from where they
        were, or the deviations; None if the norm is trained or keeps no statistics."""
        if norm.weight is None or norm.weight.requires_grad:
            self._first.pop(id(norm), None)
            return None
        if norm.running_mean is None or norm.running_var is None:
            return None
        mean, variance = readable(norm.running_mean), readable(norm.running_var)
        if mean is None or variance is None:
            return None
        with torch.no_grad():
            first = self._first.setdefault(id(norm), (mean.clone(), variance.clone()))
            scale = (first[1] + norm.eps).sqrt()
            shifted = ((mean - first[0]).abs() / scale).mean()
            spread = (((variance + norm.eps).sqrt() - scale).abs() / scale).mean()
            return float(torch.maximum(shifted, spread))
