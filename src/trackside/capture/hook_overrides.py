"""The methods of smdebug's `Hook` that scripts override in subclasses, or call there.

An overridden method replaces the hook's own behaviour at that point: it is called as smdebug calls
it, and the inherited one does what the hook would have done. Its exceptions are caught and
reported, like all others in capture.
"""

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.loss import _Loss

from trackside.capture.failures import Failures, guarded
from trackside.capture.model.module_hooks import ModuleTap, Switch
from trackside.capture.model.names import Names, loss_name
from trackside.capture.model.values import in_backward, tensors_in
from trackside.capture.selection.plan import Origin
from trackside.capture.steps.stepper import Stepper

logger = logging.getLogger(__name__)

_OF_MODULES = ("forward_hook", "_write_inputs", "_write_outputs")
_NEVER_CALLED = (
    *("_log_params", "_save_for_tensor", "_prepare_collections", "_increment_step"),
    *("_backward_apply", "_closure_for_registering_forward_hook", "fhook", "bhook"),
)
"""Further methods of smdebug, implemented elsewhere here."""


class Extensible:
    failures: Failures
    module_maps: dict[nn.Module, str]
    """Registered modules and losses, to the prefix of their tensors' names."""
    _loss_names: set[str]
    _stepper: Stepper
    _handles: list[Any]

    @classmethod
    def overrides(cls, *methods: str) -> bool:
        return any(getattr(cls, name) is not getattr(Extensible, name) for name in methods)

    @classmethod
    def takes_modules_itself(cls) -> bool:
        """Whether modules' inputs and outputs go through a method of the subclass."""
        return cls.overrides(*_OF_MODULES)

    def forward_pre_hook(self, module: nn.Module, inputs: Any) -> None:
        """A registered model is called: a step begins."""
        self._begin_step(module, (inputs, {}))

    def forward_hook(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
        """A module, or a registered loss, has returned."""
        name = self.module_maps[module]
        self._write_inputs(name, inputs)
        self._write_outputs(name, outputs)

    def backward_hook(self, tname: str) -> Callable[[Tensor], Tensor | None]:
        """For `Tensor.register_hook`: saves the gradient as `gradient/<tname>`."""

        def back(gradient: Tensor) -> None:
            self._take_gradient(f"gradient/{tname}", gradient)

        return back

    def _write_inputs(self, name: str, inputs: Any) -> None:
        self._take_side(name, "input", inputs)

    def _write_outputs(self, name: str, outputs: Any) -> None:
        self._take_side(name, "output", outputs)

    def _get_collections_to_save_for_step(self) -> set[str]:
        """Their names; none if nothing is saved of this step."""
        step, plan = self._stepper.open, self._stepper.plan
        return set() if step is None or plan is None else plan.names_in(step.mask)

    def _extend_module(self, module: nn.Module, names: Names) -> None:
        """Have the subclass's methods called for a model that is being registered."""
        named = {part: name for name, part in names.modules()}
        self.module_maps.update(named)
        self._loss_names |= {name for part, name in named.items() if isinstance(part, _Loss)}
        if self.takes_modules_itself():
            for part, name in named.items():
                inner = isinstance(part, torch.jit.ScriptModule) and part is not module
                if not inner:  # which is never called from Python
                    self._tap(part, name)
        if self.overrides("backward_hook"):
            for name, parameter in names.parameters():
                if parameter.requires_grad:
                    self._handles.append(parameter.register_hook(self._guarded_backward(name)))

    def _extend_loss(self, loss: nn.Module) -> None:
        self.module_maps[loss] = loss_name(loss)
        self._loss_names.add(loss_name(loss))
        if self.takes_modules_itself():
            self._tap(loss, loss_name(loss))

    def _prepare_extensions(self) -> None:
        """Before anything is registered: warns about overrides that have no effect."""
        self.module_maps, self._loss_names = {}, set()
        ours = Extensible.__mro__
        found = [
            name
            for name in _NEVER_CALLED
            if any(name in vars(each) for each in type(self).__mro__ if each not in ours)
        ]
        if found:
            logger.warning(
                "%s defines %s, which smdebug calls and Trackside does not. Override "
                "forward_pre_hook, forward_hook or backward_hook, or call save_tensor.",
                type(self).__name__,
                ", ".join(found),
            )

    def _tap(self, module: nn.Module, name: str) -> None:
        module.__dict__["_module_name"] = name  # where later releases of smdebug keep it

        def take(_: str, __: Origin, args: Any, kwargs: Any, output: Any) -> None:
            self._forward_hook(module, args, output)

        tap = ModuleTap(module, name, Origin.ACTIVATION, Switch(on=True), take)
        self._handles.append(tap.install())

    @guarded
    def _forward_hook(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
        if not in_backward():  # otherwise it is recomputed for a checkpoint
            self.forward_hook(module, inputs, outputs)

    def _guarded_backward(self, name: str) -> Callable[[Tensor], Tensor | None]:
        back = self.backward_hook(name)

        def call(gradient: Tensor) -> Tensor | None:
            try:
                return back(gradient)
            except Exception as error:  # noqa: BLE001 this is the capture boundary
                self.failures.report("backward_hook", error)
                return None

        return call

    @guarded
    def _take_side(self, name: str, side: str, values: Any) -> None:
        origin = Origin.LOSS if name in self._loss_names else Origin.ACTIVATION
        self._stepper.take_all(f"{name}_{side}", origin, tensors_in(values))

    @guarded
    def _take_gradient(self, name: str, gradient: Tensor) -> None:
        self._stepper.take_one(name, Origin.GRADIENT, gradient)

    def _begin_step(self, root: nn.Module, given: tuple[Any, ...]) -> None:
        raise NotImplementedError
