"""Notifies a listener when a script calls one of a few functions of torch that are easily called at
the wrong place: dropout without a mode, and the clipping of gradients.

Installed with the losses (`functional_losses.py`), before a script imports a function by name.
"""

import sys
from collections.abc import Callable
from functools import wraps
from types import FrameType
from typing import Any

DROPOUTS = ("alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d")
CLIPPING = "clip_grad_norm_"

Listener = Callable[[tuple[Any, ...], dict[str, Any], FrameType, Any], None]
"""Gets the arguments, the caller's frame and the result. It must not raise, nor keep the frame."""

_listeners: dict[str, Listener] = {}
_replaced: list[tuple[Any, str, Any, Any]] = []


def install() -> None:
    """Needs torch to be imported; without a listener nothing changes."""
    torch = sys.modules["torch"]
    if _replaced:
        return
    utils = torch.nn.utils
    places = [(torch.nn.functional, name) for name in DROPOUTS]
    for owner, name in [*places, (utils, CLIPPING), (utils.clip_grad, CLIPPING)]:
        if hasattr(owner, name):
            original = getattr(owner, name)
            wrapper = _with_listener(torch, name, original)
            _replaced.append((owner, name, original, wrapper))
            setattr(owner, name, wrapper)


def listen(names: tuple[str, ...], listener: Listener) -> None:
    install()
    _listeners.update(dict.fromkeys(names, listener))


def stop_listening() -> None:
    """Restores torch's own functions."""
    _listeners.clear()
    for owner, name, original, wrapper in _replaced:
        if getattr(owner, name) is wrapper:  # otherwise other code has wrapped it since
            setattr(owner, name, original)
    _replaced.clear()


def _with_listener(torch: Any, name: str, original: Any) -> Any:
    is_compiling = torch.compiler.is_compiling

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        is_traced = is_compiling() or torch.jit.is_tracing()
        listener = None if is_traced else _listeners.get(name)
        if listener is not None:
            listener(args, kwargs, sys._getframe(1), result)
        return result

    # What torch.jit compiles instead.
    vars(call)["__prepare_scriptable__"] = lambda: original
    return call
