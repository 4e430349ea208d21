"""Layers that torch computes by one fused operation in evaluation, unless they have hooks.

A hook on such a layer, or on a part of it, would change the last digits of its output. So none is
installed on it while torch may fuse it; the parts of a fused layer are not called anyway.
"""

from collections.abc import Iterable

import torch
from torch import nn


class FusedLayers:
    """The encoder layers of a model, and what is inside of them."""

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self._layer_of = {
            id(part): layer
            for layer in modules
            if isinstance(layer, nn.TransformerEncoderLayer)
            for part in layer.modules()
        }

    def holds(self, module: nn.Module) -> bool:
        """Whether the module is part of a layer that may be fused now."""
        layer = self._layer_of.get(id(module))
        return layer is not None and _may_be_fused(layer)


def _may_be_fused(layer: nn.Module) -> bool:
    if layer.training:
        return False
    return not torch.is_grad_enabled() or not any(p.requires_grad for p in layer.parameters())
