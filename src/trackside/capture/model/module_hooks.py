"""The hooks installed on modules. They only decide when to act.

A tap that is pickled or deep-copied with its model becomes one that does nothing, so that saved
models load without Trackside and copies of a model are not taken for the model.
"""

import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch._C._dynamo.eval_frame import get_eval_frame_callback
from torch._dynamo.callback import callback_handler
from torch._dynamo.eval_frame import skip_code
from torch._dynamo.symbolic_convert import InstructionTranslator

from trackside.capture.model.function_patches import is_tracing
from trackside.capture.model.fused_layers import FusedLayers
from trackside.capture.selection.plan import Origin

NOTHING = partial(sys.audit, "trackside.tap")
"""A picklable callable of the standard library that takes anything and returns None."""


@dataclass(slots=True)
class Switch:
    """What module taps check: a plain attribute, on which compiled graphs can specialise.

    It is False on every step that saves no activation, and then taps add nothing to a graph.
    """

    on: bool = False


Begin = Callable[[nn.Module, tuple[Any, ...]], None]
"""Gets the root, and what it is called with: its arguments and its keyword arguments."""


class RootTap:
    """Starts a step when the registered root is called; not by `torch.jit.trace`, which would take
    what is measured there for a part of the model."""

    def __init__(self, root: nn.Module, begin: Begin) -> None:
        self._root = root
        self._begin = begin
        self._begin_apart = torch.compiler.disable(begin)

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if module is not self._root:
            return
        if torch.compiler.is_compiling() or get_eval_frame_callback() is not None:
            self._begin_apart(module, (args, kwargs))
        elif not is_tracing():
            self._begin(module, (args, kwargs))

    def __reduce__(self) -> Any:
        return NOTHING.__reduce__()

    def install(self) -> Any:
        # Dynamo takes the hooks of torch's own containers into the graph of `torch.compile`.
        is_traced = type(self._root).__module__.startswith("torch.nn.")
        tap = TracedRootTap(self) if is_traced else self
        # A scripted root refuses the method, but is called like any other module.
        return nn.Module.register_forward_pre_hook(self._root, tap, with_kwargs=True)


class TracedRootTap:
    """For roots whose hooks are traced: stays out of graphs that must be whole."""

    def __init__(self, tap: RootTap) -> None:
        self._tap = tap

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if _may_leave_graph():
            self._tap(module, args, kwargs)

    def __reduce__(self) -> Any:
        return NOTHING.__reduce__()


Take = Callable[[str, Origin, tuple[Any, ...], dict[str, Any], Any], None]


class ModuleHooks:
    """Hooks on some modules, installed only while needed: even one that does nothing costs more
    than a microsecond per call.

    In a compiled graph they cost nothing, and a graph is valid, and shows what its modules do, only
    if they were there when it was traced, and as long as they are: `install` them before, and those
    that were traced stay.
    """

    def __init__(self, fused: FusedLayers | None = None) -> None:
        self.switch = Switch()
        self._fused = fused
        self._taps: list[ModuleTap] = []
        self._handles: dict[int, Any] = {}

    def add(self, module: nn.Module, name: str, origin: Origin, take: Take) -> None:
        self._taps.append(ModuleTap(module, name, origin, self.switch, take))

    def turn(self, on: bool) -> None:
        self.switch.on = on
        if on:
            self._uninstall([tap for tap in self._taps if self._is_fused(tap)])
            self.install()
        elif self._handles:
            self._uninstall([tap for tap in self._taps if tap.key not in _traced])

    def remove(self) -> None:
        self.switch.on = False
        self._uninstall(self._taps)

    def install(self) -> None:
        for tap in self._taps:
            if tap.key not in self._handles and not self._is_fused(tap):
                self._handles[tap.key] = tap.install()

    def _is_fused(self, tap: "ModuleTap") -> bool:
        return self._fused is not None and self._fused.holds(tap.module)

    def _uninstall(self, taps: "list[ModuleTap]") -> None:
        for tap in taps:
            if tap.key in self._handles:
                self._handles.pop(tap.key).remove()


GraphListener = Callable[[Any], None]
"""Gets dynamo's compilation events. It must not raise."""


def add_graph_listener(listener: GraphListener) -> None:
    """Have it called whenever `torch.compile` is about to trace something. To be repeated at
    each step: `torch._dynamo.reset` drops it."""
    if listener not in callback_handler.start_callbacks:
        callback_handler.register_start_callback(listener)


def remove_graph_listener(listener: GraphListener) -> None:
    if listener in callback_handler.start_callbacks:
        callback_handler.remove_start_callback(listener)


_keys = itertools.count()
_traced: set[int] = set()


def next_key() -> int:
    """A key for a tap, by which it is recognized once it was traced."""
    return next(_keys)


@torch._dynamo.assume_constant_result  # type: ignore[untyped-decorator]
def note_traced(key: int) -> None:
    """Runs while a graph is traced, and leaves nothing in it."""
    _traced.add(key)


def was_traced(key: int) -> bool:
    return key in _traced


class ModuleTap:
    """Takes a module's inputs and outputs, while its switch is on."""

    def __init__(
        self, module: nn.Module, name: str, origin: Origin, switch: Switch, take: Take
    ) -> None:
        self.module = module
        self._name = name
        self._origin = origin
        self._switch = switch
        self._take = torch.compiler.disable(take)
        self.key = next_key()

    def __call__(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> None:
        if torch.compiler.is_compiling():
            note_traced(self.key)
        if self._switch.on and module is self.module and _may_leave_graph():
            self._take(self._name, self._origin, args, kwargs, output)

    def __reduce__(self) -> Any:
        return NOTHING.__reduce__()

    def install(self) -> Any:
        return nn.Module.register_forward_hook(self.module, self, with_kwargs=True)


def _may_leave_graph() -> bool:
    """False where a graph is traced that must be whole (`fullgraph=True`, `torch.jit.trace`)."""
    if torch.compiler.is_compiling():
        return bool(_graph_may_break())
    return not is_tracing()


@torch._dynamo.assume_constant_result  # type: ignore[untyped-decorator]
def _graph_may_break() -> bool:
    """Called while tracing; the result becomes part of the graph."""
    return not InstructionTranslator.current_tx().one_graph


# Called from outside a graph they are frames like any other, which dynamo would compile for
# themselves. Inside a graph they are traced as ever.
for _function in (RootTap.__call__, ModuleTap.__call__, _may_leave_graph):
    skip_code(_function.__code__)
