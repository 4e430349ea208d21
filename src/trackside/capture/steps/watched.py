"""One registered model: its parameters sorted once by what is wanted, and its taps."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.modules.loss import _Loss

from trackside.capture.copying.open_step import OpenStep
from trackside.capture.model.fused_layers import FusedLayers
from trackside.capture.model.module_hooks import ModuleHooks, Take
from trackside.capture.model.names import Names
from trackside.capture.selection.plan import CapturePlan, Origin, Treatment

Columns = tuple[str, ...]
Named = list[tuple[str, Tensor]]


@dataclass(frozen=True, slots=True)
class Sorted:
    """The tensors a set of collections wants, by what is done with them."""

    copied: list[tuple[str, Tensor, Treatment]] = field(default_factory=list)
    reduced: dict[Columns, tuple[tuple[str, ...], list[Tensor]]] = field(default_factory=dict)
    treatments: dict[str, Treatment] = field(default_factory=dict)


class WatchedModel:
    def __init__(self, root: nn.Module, names: Names) -> None:
        self.root = root
        self.names = names
        self.parameters: Named = list(names.parameters())
        self.gradients = [(f"gradient/{name}", p) for name, p in self.parameters]
        self.has_flat_gradients = any(hasattr(p, "_fsdp_flattened") for _, p in self.parameters)
        """Those of the first FSDP: hooks of its parameters do not fire, and what it leaves in
        `.grad` is there when a whole group of them has been reduced."""
        self._parameters: dict[int, Sorted] = {}
        self._gradients: dict[int, Sorted] = {}
        self._taps = ModuleHooks(FusedLayers(module for _, module in names.modules()))
        self._activation_mask = 0

    def prepare(self, plan: CapturePlan, take: Take | None) -> None:
        """Tap only modules where some collection could want something; none without `take`."""
        if not any(hasattr(p, "_local_tensor") for _, p in self.parameters):
            # Possibly replaced since registration (`load_state_dict(assign=True)`). Not so for
            # sharded ones: within a forward the model shows their gathered stand-ins.
            self.parameters[:] = self.names.parameters()
            self.gradients[:] = [(f"gradient/{name}", p) for name, p in self.parameters]
        if take is None:
            return
        for name, module in self.names.modules():
            if isinstance(module, torch.jit.ScriptModule) and module is not self.names.module:
                continue  # is never called from Python
            origin = Origin.LOSS if isinstance(module, _Loss) else Origin.ACTIVATION
            wanted = plan.wanted_of_module(name, origin)
            if wanted:
                self._activation_mask |= wanted
                self._taps.add(module, name, origin, take)

    def begin(self, mask: int) -> None:
        self._taps.turn(bool(mask & self._activation_mask))

    def expect_graph(self) -> None:
        self._taps.install()

    def take_parameters(self, plan: CapturePlan, step: OpenStep) -> None:
        wanted = self._parameters.get(step.mask)
        if wanted is None:
            wanted = _sort(plan, self.parameters, Origin.PARAMETER, step.mask)
            self._parameters[step.mask] = wanted
        _take(wanted, step)

    def wants_gradients(self, plan: CapturePlan, mask: int) -> bool:
        return bool(self._sorted_gradients(plan, mask).treatments)

    def take_gradients(
        self, plan: CapturePlan, step: OpenStep, gradient: Callable[[Tensor], Tensor | None]
    ) -> None:
        """All existing ones, as `gradient` returns them for a parameter."""
        _take(self._sorted_gradients(plan, step.mask), step, gradient)

    def remove(self) -> None:
        self._taps.remove()

    def _sorted_gradients(self, plan: CapturePlan, mask: int) -> Sorted:
        wanted = self._gradients.get(mask)
        if wanted is None:
            trainable = [(name, p) for name, p in self.gradients if p.requires_grad]
            wanted = self._gradients[mask] = _sort(plan, trainable, Origin.GRADIENT, mask)
        return wanted


def _sort(plan: CapturePlan, tensors: Named, origin: Origin, mask: int) -> Sorted:
    found = Sorted()
    for name, tensor in tensors:
        treatment = plan.treatment(name, origin, mask)
        if treatment is None:
            continue
        found.treatments[name] = treatment
        if treatment.raw or treatment.shape:
            found.copied.append((name, tensor, treatment))
        if treatment.columns:
            names, chosen = found.reduced.get(treatment.columns, ((), []))
            found.reduced[treatment.columns] = ((*names, name), [*chosen, tensor])
    return found


def _take(
    wanted: Sorted, step: OpenStep, value: Callable[[Tensor], Tensor | None] | None = None
) -> None:
    """The tensors themselves, or the result of `value` for each that has one."""
    step.treatments.update(wanted.treatments)
    for name, tensor, treatment in wanted.copied:
        current = tensor if value is None else value(tensor)
        if current is not None:
            step.copy(name, current, treatment)
    for columns, (names, tensors) in wanted.reduced.items():
        if value is None:
            step.reduce(names, tensors, columns)
        else:
            _reduce_found(names, [value(tensor) for tensor in tensors], columns, step)


def _reduce_found(
    names: tuple[str, ...], values: list[Tensor | None], columns: Columns, step: OpenStep
) -> None:
    there = [value for value in values if value is not None]
    if len(there) < len(values):
        names = tuple(n for n, value in zip(names, values, strict=True) if value is not None)
    if there:
        step.reduce(names, there, columns)
