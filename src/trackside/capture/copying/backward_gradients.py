"""Gradients of one backward: noted as they are computed, handed over together at the end.

A note costs a microsecond per parameter. If `.grad` will be different at the end of the backward
(accumulated, averaged over ranks, consumed), a copy is made at once.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._C import _current_graph_task_id

from trackside.capture.copying.open_step import OpenStep
from trackside.capture.failures import Failures, guarded

Came = Callable[[Tensor], Tensor | None]
"""A parameter to its gradient from this backward."""


class BackwardGradients:
    """ModuleHooks are on the parameters only while gradients are wanted.

    `current` returns the open step; `take` gets all gradients.
    """

    def __init__(
        self,
        failures: Failures,
        *,
        keep_all: bool,
        current: Callable[[], OpenStep | None],
        take: Callable[[Came], None],
    ) -> None:
        self.failures = failures
        self._keep_all = keep_all
        self._current = current
        self._take = take
        self._handles: dict[int, list[Any]] = {}
        self._came: dict[int, dict[int, Tensor | None]] = {}
        """For each backward under way (they may be nested): identity of a parameter to the copy
        that was kept, or None where `.grad` will do."""

    def begin(self) -> None:
        """A step starts: leftovers of an interrupted backward are discarded."""
        self._came.clear()

    def switch(self, key: int, parameters: Sequence[tuple[str, Tensor]]) -> None:
        """Tap these parameters of the model `key`; none removes the taps."""
        if bool(parameters) == bool(self._handles.get(key)):
            return
        for handle in self._handles.pop(key, []):
            handle.remove()
        self._handles[key] = [self._tap(each) for _, each in parameters if each.requires_grad]

    def remove(self) -> None:
        for key in list(self._handles):
            self.switch(key, [])

    def _tap(self, parameter: Tensor) -> Any:
        if hasattr(parameter, "_local_tensor"):
            # Tensor hooks of sharded parameters never fire; this one does, with the shard's.
            return parameter.register_post_accumulate_grad_hook(
                lambda sharded: self._note(sharded, sharded.grad)
            )
        return parameter.register_hook(partial(self._note, parameter))

    def _note(self, parameter: Tensor, gradient: Tensor | None) -> None:
        """Must hold no gradient but a copy: autograd moves one without other references into
        `.grad` and copies any other. Called for each parameter: only what can raise is guarded.
        """
        backward = _current_graph_task_id()
        if backward not in self._came:
            self._expect_end(backward)
        came = self._came.get(backward)
        if came is None:
            return
        if (
            self._keep_all
            or parameter.grad is not None
            or parameter._post_accumulate_grad_hooks
            or len(parameter._backward_hooks or ()) > 1
        ):
            self._keep(came, parameter, gradient)
        else:
            came[id(parameter)] = None

    @guarded
    def _expect_end(self, backward: int) -> None:
        engine = torch.autograd.Variable._execution_engine
        engine.queue_callback(partial(self._finish, backward))
        self._came[backward] = {}

    @guarded
    def _keep(
        self, came: dict[int, Tensor | None], parameter: Tensor, gradient: Tensor | None
    ) -> None:
        step = self._current()
        if step is not None and gradient is not None:
            came[id(parameter)] = step.keep(gradient)

    @guarded
    def _finish(self, backward: int) -> None:
        came = self._came.pop(backward, {})

        def gradient_of(parameter: Tensor) -> Tensor | None:
            key = id(parameter)
            if key not in came:
                return None
            kept = came[key]
            return parameter.grad if kept is None else kept

        self._take(gradient_of)
