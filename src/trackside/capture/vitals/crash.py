"""What is known about the exception that ends a training: where it was raised, in which layers, and
the shapes, types and ranges of the tensors there. Read at exit, so that it costs nothing before.
"""

import linecache
import math
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import CodeType, FrameType, TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from trackside.capture.model.names import Names

_MOST_CALLS = 12
"""The innermost ones: a layer within a layer, the loss function, and the script's own lines."""
_MOST_TENSORS = 8
_MOST_MESSAGE = 2000
"""One that holds the traceback of a worker or of a spawned rank says at its end what was raised."""
_MOST_TEXT = 200
_MOST_VALUES = 1 << 20
"""Numbers of which the range is taken."""


def crash_facts(models: Iterable[Names]) -> dict[str, Any] | None:
    """None if no exception ends this process; the interpreter notes one before it exits."""
    error = getattr(sys, "last_value", None)
    if not isinstance(error, Exception) or hasattr(sys, "ps1"):
        return None
    names = {id(module): name for each in models for name, module in each.modules()}
    calls = [_call(frame, line, names) for frame, line in _frames(error.__traceback__)]
    return {
        "error": type(error).__name__,
        "message": _shortened(str(error)),
        "calls": calls[-_MOST_CALLS:],
    }


def _shortened(message: str) -> str:
    if len(message) <= _MOST_MESSAGE:
        return message
    half = _MOST_MESSAGE // 2
    return f"{message[:half]}\n…\n{message[-half:]}"


def _frames(trace: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    """The outermost first; without those that only pass a call on, ours among them."""
    while trace is not None:
        frame = trace.tb_frame
        is_ours = str(frame.f_globals.get("__name__")).partition(".")[0] == "trackside"
        if not is_ours and frame.f_code.co_name not in ("_call_impl", "_wrapped_call_impl"):
            yield frame, trace.tb_lineno
        trace = trace.tb_next


def _call(frame: FrameType, line: int, names: dict[int, str]) -> dict[str, Any]:
    given: dict[str, Any] = dict(frame.f_locals)
    owner = given.get("self")
    layer = owner if isinstance(owner, nn.Module) else None
    own = () if layer is None else layer.named_parameters(recurse=False)
    return {
        "path": _below_script(frame.f_code.co_filename),
        "line": line,
        "function": frame.f_code.co_name,
        "source": linecache.getline(frame.f_code.co_filename, line).strip()[:_MOST_TEXT],
        "layer": "" if layer is None else names.get(id(layer), ""),
        "layer_kind": "" if layer is None else _described(layer),
        "tensors": _tensors([*_used(frame.f_code, given), *own]),
    }


def _below_script(path: str) -> str:
    """As the user knows a file of the script's own; others as they are."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    folder = os.path.dirname(os.path.abspath(script)) if script else os.getcwd()
    return path.removeprefix(f"{folder.rstrip(os.sep)}{os.sep}")


def _described(module: nn.Module) -> str:
    """`Linear(in_features=8, out_features=3, bias=True)`."""
    with suppress(Exception):  # a class of the script may fail here
        if not any(True for _ in module.children()):
            return repr(module)[:_MOST_TEXT]
    return type(module).__name__


def _used(code: CodeType, given: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Arguments first: what a function was called with says most."""
    for name in dict.fromkeys((*code.co_varnames, *given)):
        if name in given and not name.startswith("__"):
            yield name, given[name]


def _tensors(values: Iterable[tuple[str, Any]]) -> list[dict[str, Any]]:
    found = [(name, value) for name, value in values if isinstance(value, Tensor)]
    return [_tensor(name, value) for name, value in found[:_MOST_TENSORS]]


def _tensor(name: str, value: Tensor) -> dict[str, Any]:
    least, most = _range(value)
    return {
        "name": name,
        "shape": list(value.shape),
        "dtype": str(value.dtype).removeprefix("torch."),
        "device": str(value.device),
        "least": least,
        "most": most,
    }


def _range(value: Tensor) -> tuple[float | None, float | None]:
    """Of what is in the memory of this machine: a device that failed may never answer."""
    if value.device.type != "cpu" or not 0 < value.numel() <= _MOST_VALUES:
        return None, None
    try:
        with torch.no_grad():
            low, high = torch.aminmax(value.detach())
        least, most = float(low), float(high)
    except (RuntimeError, TypeError, NotImplementedError):
        return None, None
    return (least, most) if math.isfinite(least) and math.isfinite(most) else (None, None)
