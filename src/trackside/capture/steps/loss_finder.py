"""Finds the loss of a step if the script registers none, and records it once.

In order: a loss module that is called, the `loss` of the model's output, and the tensor on which
`backward` is called; in evaluation, where there is none, a loss function's result. All but the
first are saved as `loss_output_0`.
"""

import weakref
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.eval_frame import skip_code
from torch.amp.grad_scaler import GradScaler
from torch.nn.modules.loss import _Loss

from trackside.capture.copying.open_step import OpenStep
from trackside.capture.failures import Failures, guarded
from trackside.capture.model.function_patches import FunctionPatch
from trackside.capture.model.functional_losses import caller_in, listen, stop_listening
from trackside.capture.model.module_hooks import NOTHING
from trackside.capture.model.names import loss_name
from trackside.capture.modes import ModeKeys
from trackside.capture.selection.plan import Origin
from trackside.capture.steps.stepper import Stepper

_STEM = "loss_output"


class LossFinder:
    """Wraps `Tensor.backward` and `GradScaler.scale` while it is installed."""

    def __init__(self, stepper: Stepper, failures: Failures) -> None:
        self.failures = failures
        self.is_step_over = False
        """A backward has run since the step began: the next forward is the next step's."""
        self.is_in_model = False
        """A model has been called and has not returned yet: what it calls is its own."""
        self._stepper = stepper
        self._unscaled: tuple[weakref.ref[Tensor], Tensor] | None = None
        self._backward_modes: set[str] = set()
        """Of saved steps: what is computed in others is not trained on."""
        self._wrapping = FunctionPatch()
        self.on_loss: Callable[[Tensor], None] | None = None
        """Called with the loss of every backward, also in processes that save nothing."""

    def install(self, *, loss_modules: bool = False) -> None:
        self._wrapping.wrap(Tensor, "backward", before=self.on_backward)
        self._wrapping.wrap(GradScaler, "scale", after=self._on_scaled)
        if loss_modules:
            listen(self._on_function)

    def remove(self) -> None:
        stop_listening(self._on_function)
        self._wrapping.undo()

    def watch_output(self, root: nn.Module) -> Any:
        """A root whose output contains the loss, as in Hugging Face models."""
        return nn.Module.register_forward_hook(root, _OutputTap(self))

    @guarded
    def on_output(self, output: Any) -> None:
        self.is_in_model = False
        loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
        self._record(loss)

    def _on_function(
        self, name: str, args: Any, kwargs: Any, frame: FrameType, result: Any
    ) -> None:
        """A loss module of torch, recognised by its function: it may be a new one each step."""
        step = self._stepper.open
        if step is None or self.is_in_model:
            return
        caller = caller_in(frame)
        if not isinstance(caller, _Loss):
            self._record_evaluated(step, kwargs, result)
        elif not self._stepper.has_loss(caller):
            inputs = args[:2]
            self._stepper.take_module(loss_name(caller), Origin.LOSS, inputs, {}, result)

    @guarded
    def _record_evaluated(self, step: OpenStep, kwargs: Any, result: Any) -> None:
        """No backward will show it, unless the model is trained in evaluation mode. A sum has
        another scale than the training loss.
        """
        is_mean = kwargs.get("reduction", "mean") == "mean"
        is_final = not result.requires_grad or self._backward_modes == {ModeKeys.TRAIN.name}
        if step.mode == ModeKeys.EVAL.name and is_mean and is_final:
            self._record(result)

    @guarded
    def on_backward(self, tensor: Tensor, *_: Any, **__: Any) -> None:
        if type(tensor) is not Tensor:
            return
        self.is_step_over = True
        if self._stepper.open is not None:
            self._backward_modes.add(self._stepper.open.mode)
        scaled = self._unscaled
        loss = scaled[1] if scaled is not None and scaled[0]() is tensor else tensor
        if self.on_loss is not None:
            self.on_loss(loss)
        self._record(loss)

    @guarded
    def _on_scaled(self, scaled: Any, scaler: GradScaler, outputs: Any) -> None:
        if isinstance(scaled, Tensor) and isinstance(outputs, Tensor):
            self._unscaled = (weakref.ref(scaled), outputs.detach())

    def _record(self, loss: Any) -> None:
        step = self._stepper.open
        if step is None or not isinstance(loss, Tensor) or loss.numel() != 1:
            return
        if not any(treatment.is_scalar for treatment in step.treatments.values()):
            self._stepper.take_all(_STEM, Origin.LOSS, [loss])


class _OutputTap:
    def __init__(self, finder: LossFinder) -> None:
        self._found = torch.compiler.disable(finder.on_output)

    def __call__(self, module: nn.Module, args: Any, output: Any) -> None:
        if not torch.compiler.is_compiling():  # not worth a graph break: `backward` shows it too
            self._found(output)

    def __reduce__(self) -> Any:
        return NOTHING.__reduce__()


skip_code(_OutputTap.__call__.__code__)
