"""Measures what modules return, on sampled steps only.

The hooks are installed during such a step and removed afterwards: even an idle hook costs a
microsecond a call, and a large model calls hundreds of modules.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from trackside.capture.failures import Failures, guarded
from trackside.capture.model.fused_layers import FusedLayers
from trackside.capture.model.module_hooks import NOTHING, next_key, note_traced, was_traced
from trackside.capture.model.names import Names
from trackside.capture.model.values import in_backward, readable
from trackside.capture.vitals.anatomy_facts import AnatomyFacts
from trackside.capture.vitals.measures import Activation, judge_activation, sample_activation
from trackside.capture.vitals.pack import Figures, Pack

_KINDS: dict[type[nn.Module], Activation] = {
    nn.ReLU: "relu",
    nn.ReLU6: "relu",
    nn.Threshold: "relu",
    nn.Sigmoid: "sigmoid",
    nn.Hardsigmoid: "sigmoid",
    nn.Tanh: "tanh",
    nn.Hardtanh: "tanh",
    nn.Linear: "linear",
    nn.Conv1d: "linear",
    nn.Conv2d: "linear",
    nn.Conv3d: "linear",
}
_CAST = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
"""Layers that autocast computes in few bits."""
_OVER_TIME = (nn.RNNBase, nn.MultiheadAttention)
_MOST_MODULES = 128
"""Per model: more are thinned out evenly."""


class Activations:
    """The modules of one model that are worth measuring."""

    def __init__(
        self,
        names: Names,
        failures: Failures,
        facts: AnatomyFacts,
    ) -> None:
        self.failures = failures
        self._facts = facts
        self._modules = _chosen(names)
        self._fused = FusedLayers(module for _, module in names.modules())
        self._handles: dict[int, tuple[_Tap, Any]] = {}
        self._pack: Pack | None = None
        self._channels_first = False
        self._seen: set[str] = set()
        self._tensors: set[int] = set()

    def watch(self, pack: Pack) -> None:
        self._pack = pack
        self._channels_first = False
        self._seen.clear()
        self._tensors.clear()
        for index, (name, module, kind) in enumerate(self._modules):
            if index not in self._handles and not self._fused.holds(module):
                tap = _Tap(module, name, kind, self.take, self._facts)
                handle = module.register_forward_hook(tap, with_kwargs=True)
                self._handles[index] = (tap, handle)

    def rest(self, *, permanently: bool = False) -> None:
        """Remove the hooks, except those in a compiled graph, where they cost nothing: the graph is
        valid only while they exist.
        """
        self._pack = None
        for index, (tap, handle) in list(self._handles.items()):
            if permanently or not was_traced(tap.key):
                handle.remove()
                del self._handles[index]

    @guarded
    @torch.no_grad()
    def take(self, name: str, module: nn.Module, kind: Activation, output: Tensor) -> None:
        if self._pack is None or name in self._seen or in_backward():
            return
        if kind == "linear":
            self._channels_first = not isinstance(module, nn.Linear)
        values = readable(output)
        if values is None or values.dim() < 2 or not values.numel():
            return
        if kind == "unknown" and id(output) in self._tensors:
            return  # a container that returns its last part's output
        self._seen.add(name)
        self._tensors.add(id(output))
        num_axes = values.dim()
        axis = 1 if num_axes >= 4 or (self._channels_first and num_axes > 2) else num_axes - 1
        sample = sample_activation(values, axis)
        self._pack.add(sample, partial(_figures, name, tuple(sample.shape), axis, kind))


class _Tap:
    def __init__(
        self, module: nn.Module, name: str, kind: Activation, take: Any, facts: AnatomyFacts
    ) -> None:
        self._module = module
        self._arguments = (name, module, kind)
        self._take = take
        self._facts = facts
        self.key = next_key()

    def __call__(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if torch.compiler.is_compiling():
            note_traced(self.key)
            return
        if module is not self._module:
            return
        if isinstance(module, _OVER_TIME):
            _note_time(self._facts, module, args, kwargs)
            if isinstance(module, nn.RNNBase) and isinstance(output, tuple):
                _note_state(self._facts, module, args, kwargs, output[1])
        elif isinstance(output, Tensor) and output.is_floating_point():
            if isinstance(module, _CAST) and module.training and torch.is_grad_enabled():
                self._facts.see_output(output.dtype)
            self._take(*self._arguments, output)

    def __reduce__(self) -> Any:
        return NOTHING.__reduce__()


def _note_time(
    facts: AnatomyFacts, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    if args and isinstance(args[0], Tensor):
        facts.see_given(module, tuple(args[0].shape))
    if isinstance(module, nn.MultiheadAttention) and len(args) > 1 and args[0] is args[1]:
        padding = args[3] if len(args) > 3 else kwargs.get("key_padding_mask")
        if isinstance(padding, Tensor):
            facts.padding_mask = padding.detach()
        mask = args[5] if len(args) > 5 else kwargs.get("attn_mask")
        facts.see_attention(module, mask is not None or bool(kwargs.get("is_causal")))


def _note_state(
    facts: AnatomyFacts,
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    returned: Any,
) -> None:
    given = args[1] if len(args) > 1 else kwargs.get("hx")
    given, returned = (each[0] if isinstance(each, tuple) else each for each in (given, returned))
    if isinstance(returned, Tensor):
        facts.see_state(module, given, returned)


def _figures(
    name: str, shape: tuple[int, ...], axis: int, kind: Activation, values: Any
) -> Figures:
    judged = judge_activation(values.reshape(shape), axis, kind)
    return {f"activation/{name}/{figure}": value for figure, value in judged.items()}


def _chosen(names: Names) -> list[tuple[str, nn.Module, Activation]]:
    """Known activations, layers with weights, and blocks, which may end with `F.relu`."""
    found: list[tuple[str, nn.Module, Activation]] = []
    for name, module in names.modules():
        kind = _KINDS.get(type(module))
        is_over_time = isinstance(module, _OVER_TIME)
        if kind is None and (is_over_time or (_is_block(module) and module is not names.module)):
            kind = "unknown"
        if kind is not None and _takes_hooks(module):
            found.append((name, module, kind))
    return found[:: -(-len(found) // _MOST_MODULES) or 1]


def _is_block(module: nn.Module) -> bool:
    return next(module.children(), None) is not None


def _takes_hooks(module: nn.Module) -> bool:
    """Compiled ones would be recompiled, scripted ones refuse."""
    is_compiled = getattr(module, "_compiled_call_impl", None) is not None
    return not is_compiled and not isinstance(module, torch.jit.ScriptModule)
