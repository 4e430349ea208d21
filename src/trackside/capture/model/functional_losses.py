"""Notifies listeners of calls of `torch.nn.functional`'s losses, by scripts and by loss modules.

Light enough to be installed as soon as torch is imported, before a script runs
`from torch.nn.functional import cross_entropy`.
"""

import sys
from collections.abc import Callable
from functools import wraps
from types import FrameType
from typing import Any

FUNCTIONS = (
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cross_entropy",
    "ctc_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
)

Listener = Callable[[str, tuple[Any, ...], dict[str, Any], FrameType, Any], None]
"""Gets the function's name, its arguments, its caller's frame, and its result. It must not raise,
nor keep the frame.
"""

_listeners: list[Listener] = []
_replaced: dict[str, tuple[Any, Any]] = {}


def install() -> None:
    """Needs torch to be imported; without a listener nothing changes."""
    torch = sys.modules["torch"]
    for name in FUNCTIONS:
        if name not in _replaced and hasattr(torch.nn.functional, name):
            original = getattr(torch.nn.functional, name)
            wrapper = _with_listeners(torch, name, original)
            _replaced[name] = (original, wrapper)
            setattr(torch.nn.functional, name, wrapper)


def listen(listener: Listener) -> None:
    install()
    _listeners.append(listener)


def stop_listening(listener: Listener) -> None:
    """The last one restores torch's own functions."""
    if listener in _listeners:
        _listeners.remove(listener)
    if _listeners:
        return
    functional = sys.modules["torch"].nn.functional
    for name, (original, wrapper) in _replaced.items():
        if getattr(functional, name) is wrapper:  # otherwise other code has wrapped it since
            setattr(functional, name, original)
    _replaced.clear()


def caller_in(frame: FrameType) -> Any:
    """The `self` of the method that runs there. Not for every call: the frame keeps all its locals
    alive from then on, including tensors that the script has released.
    """
    return frame.f_locals.get("self")


def _with_listeners(torch: Any, name: str, original: Any) -> Any:
    is_compiling = torch.compiler.is_compiling

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_compiling() or torch.jit.is_tracing():  # checked first: a graph then has no listener
            return original(*args, **kwargs)
        result = original(*args, **kwargs)
        frame = sys._getframe(1)
        for listener in _listeners:
            listener(name, args, kwargs, frame, result)
        return result

    # What torch.jit compiles instead.
    vars(call)["__prepare_scriptable__"] = lambda: original
    return call
