"""Wraps functions of torch with callbacks, and restores them at the end."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

Around = Callable[..., None]


class FunctionPatch:
    def __init__(self) -> None:
        self._originals: list[tuple[Any, str, Any, Any]] = []

    def wrap(
        self, owner: Any, name: str, *, before: Around | None = None, after: Around | None = None
    ) -> None:
        """`before` gets the arguments of the call, `after` what it returned and then the same
        arguments; neither may raise, and neither is called while a graph is traced."""
        original = getattr(owner, name)

        @wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return original(*args, **kwargs)
            if before is not None:
                before(*args, **kwargs)
            result = original(*args, **kwargs)
            if after is not None:
                after(result, *args, **kwargs)
            return result

        self._originals.append((owner, name, original, call))
        setattr(owner, name, call)

    def undo(self) -> None:
        for owner, name, original, call in self._originals:
            if getattr(owner, name) is call:  # otherwise other code has wrapped it since
                setattr(owner, name, original)
        self._originals = []
