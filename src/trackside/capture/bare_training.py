"""Watches trainings of bare tensors, in which no module call starts a step.

`autohook.py` owns it, and removes it if it finds a model first. `bare_tensors.py` names the
tensors.
"""

import logging
import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

from trackside.capture import other_frameworks
from trackside.capture.model import functional_losses

logger = logging.getLogger(__name__)

_NUM_KEPT = 64
"""Elements of a tensor by which a change is noticed."""


class BareTraining:
    """Starts a step with the first loss since the last backward.

    `make_hook` returns None if the script made its own.
    """

    def __init__(self, make_hook: Callable[[], Any]) -> None:
        self._make_hook = make_hook
        self._hook: Any = None
        self._tensors: Any = None
        """The stand-in for a model, once something is trained."""
        self._optimizers: list[weakref.ref[Any]] = []
        self._modules: weakref.WeakSet[Any] = weakref.WeakSet()
        self._kept: list[tuple[weakref.ref[Any], Any]] = []
        """Tensors that the last backward went to, and what was in them."""
        self._is_started = False
        self._is_over = False
        self._wrapping: Any = None
        self._in_front: Any = None

    def install(self) -> None:
        # Imports torch, which is there by now.
        from trackside.capture.model.function_patches import FunctionPatch

        torch = sys.modules["torch"]
        self._wrapping, self._in_front = FunctionPatch(), FunctionPatch()
        self._wrapping.wrap(torch.optim.Optimizer, "__init__", after=self._on_optimizer)
        self._wrapping.wrap(torch.Tensor, "backward", before=self._on_first_backward)
        functional_losses.listen(self._on_loss)

    def remove(self) -> None:
        """Permanent: if other code has wrapped the same since, calls still arrive here."""
        self._is_over = True
        self._in_front.undo()
        self._wrapping.undo()
        functional_losses.stop_listening(self._on_loss)
        self._tensors = None
        self._kept = []

    def see_module(self, module: Any) -> None:
        """A module that is called and not known to be trained: its tensors are its own."""
        self._modules.add(module)

    def _on_optimizer(self, _: None, optimizer: Any, *__: Any, **___: Any) -> None:
        if self._tensors is None and not self._is_over:
            self._optimizers.append(weakref.ref(optimizer))

    def _on_loss(self, name: str, args: Any, kwargs: Any, frame: FrameType, result: Any) -> None:
        if not (self._is_started or self._is_over) and getattr(result, "requires_grad", False):
            self._begin(result)

    def _on_first_backward(self, loss: Any, *_: Any, **__: Any) -> None:
        """And each later one until something is trained."""
        if self._tensors is None and not self._is_over:
            self._begin(loss, is_backward=True)

    def _on_backward(self, loss: Any, *_: Any, **__: Any) -> None:
        if not (self._is_started or self._is_over):
            self._begin(loss)
        self._is_started = False

    def _begin(self, loss: Any, *, is_backward: bool = False) -> None:
        try:
            if self._tensors is None and not self._start(loss, is_backward=is_backward):
                return
            self._hook.begin(self._tensors)
            self._is_started = not is_backward
            if is_backward:  # the hook comes too late to see it by itself
                self._hook.note_loss(loss)
        except Exception as error:
            logger.warning("Capture could not be set up; training continues.", exc_info=True)
            other_frameworks.report_failure(error)
            self.remove()

    def _start(self, loss: Any, *, is_backward: bool) -> bool:
        from trackside.capture.model.bare_tensors import BareTensors, leaves_of

        parts = {id(p) for module in self._modules for p in module.parameters()}
        leaves = [leaf for leaf in leaves_of(loss) if id(leaf) not in parts]
        optimizers = [each for ref in self._optimizers if (each := ref()) is not None]
        tensors = BareTensors(optimizers, leaves, without=parts)
        if not (tensors.is_optimized or (is_backward and self._is_changed(leaves))):
            return False
        self._hook = self._make_hook()
        if self._hook is None:
            self.remove()
            return False
        self._kept = []
        self._hook.register_module(tensors)
        self._tensors = tensors
        # Before the hook's own wrapper: a step starts, then its loss is read.
        self._in_front.wrap(sys.modules["torch"].Tensor, "backward", before=self._on_backward)
        return True

    def _is_changed(self, leaves: list[Any]) -> bool:
        """Since the last backward, by the script itself. If there are optimizers or modules, such
        changes are to other tensors: to inputs, in adversarial attacks."""
        if self._modules or self._optimizers:
            return False
        kept = {id(tensor): values for ref, values in self._kept if (tensor := ref()) is not None}
        now = {id(leaf): leaf.detach().flatten()[:_NUM_KEPT].clone() for leaf in leaves}
        self._kept = [(weakref.ref(leaf), now[id(leaf)]) for leaf in leaves]
        return any(key in kept and not now[key].equal(kept[key]) for key in now)
