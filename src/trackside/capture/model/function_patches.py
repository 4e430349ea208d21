"""Wraps functions of torch with callbacks, and restores them at the end."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch

Around = Callable[..., None]


@dataclass(slots=True, eq=False)
class _Wrapping:
    owner: Any
    name: str
    original: Any
    wrapper: Any = None
    is_undone: bool = False


def is_tracing() -> bool:
    """Whether `torch.jit.trace` records what runs."""
    return bool(torch.jit.is_tracing())  # type: ignore[attr-defined,no-untyped-call]


class FunctionPatch:
    def __init__(self) -> None:
        self._wrappings: list[_Wrapping] = []

    def wrap(
        self, owner: Any, name: str, *, before: Around | None = None, after: Around | None = None
    ) -> None:
        """`before` gets the arguments of the call, `after` what it returned and then the same
        arguments; neither may raise, and neither is called while a graph is traced."""
        original = getattr(owner, name)
        wrapping = _Wrapping(owner, name, original)

        @wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or wrapping.is_undone or is_tracing():
                return original(*args, **kwargs)
            if before is not None:
                before(*args, **kwargs)
            result = original(*args, **kwargs)
            if after is not None:
                after(result, *args, **kwargs)
            return result

        wrapping.wrapper = call
        call._trackside_wrapping = wrapping  # type: ignore[attr-defined]
        self._wrappings.append(wrapping)
        setattr(owner, name, call)

    @property
    def is_used(self) -> bool:
        return bool(self._wrappings)

    def undo(self) -> None:
        """A function that was wrapped again since then keeps its wrapper, which does nothing from
        now on, until the later one is undone."""
        for wrapping in self._wrappings:
            wrapping.is_undone = True
        for wrapping in self._wrappings:
            _unwrap(wrapping.owner, wrapping.name)
        self._wrappings = []


def _unwrap(owner: Any, name: str) -> None:
    current = getattr(owner, name)
    wrapping = getattr(current, "_trackside_wrapping", None)
    # `functools.wraps` gives a wrapper of other code the attributes of what it wraps.
    while wrapping is not None and wrapping.wrapper is current and wrapping.is_undone:
        current = wrapping.original
        setattr(owner, name, current)
        wrapping = getattr(current, "_trackside_wrapping", None)
