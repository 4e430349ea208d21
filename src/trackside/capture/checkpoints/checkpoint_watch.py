"""Watches what scripts save and load: files of torch and safetensors, and states that models,
optimizers, schedules, scalers and random generators are given.

Installed as soon as torch is imported, since a script loads its checkpoint before it trains.
"""

import os
import random
import sys
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import register_optimizer_step_post_hook

from trackside.capture.checkpoints.checkpoint_log import CheckpointLog, Event, weakly
from trackside.capture.checkpoints.contents import (
    MODEL,
    OPTIMIZER,
    RANDOM,
    SCALER,
    SCHEDULER,
    kinds_in,
)
from trackside.capture.checkpoints.trace import trace
from trackside.capture.model.function_patches import FunctionPatch

_NUM_EXAMPLES = 5
_PREFIXES = ("module.", "_orig_mod.", "model.", "_forward_module.", "net.", "encoder.")
"""By DDP, torch.compile, Lightning and others, which wrap a model."""


@dataclass(slots=True, eq=False)
class _Awaited:
    """An optimizer that was given its state, and has made no step since."""

    optimizer: "weakref.ref[torch.optim.Optimizer]"
    event: Event
    num_others: int = 0
    """Steps that others have made."""


log = CheckpointLog()
"""Of this process."""
_patch = FunctionPatch()
_began: list[tuple[float, Any]] = []
"""Of the running calls: when, and for a model whether it is given its own tensors, for an optimizer
its rate."""
_IDLE_UPDATES = 10
"""By other optimizers, after which one that has made none is not used."""
_is_installed = False
_parallel: Any = None
_awaited: list[_Awaited] = []
_steps: Any = None
"""The handle of `_on_step`, once an optimizer was given a state."""


def install() -> None:
    """Once; further calls add only what was imported meanwhile, until `remove`."""
    global _is_installed
    _watch_parallel_files()
    if _is_installed:
        return
    _is_installed = True
    _watch_files()
    _wrap(nn.Module, "load_state_dict", _after_model, before=_before_model)
    _wrap(torch.optim.Optimizer, "load_state_dict", _after_optimizer, before=_rate)
    for schedule in vars(torch.optim.lr_scheduler).values():
        is_one = isinstance(schedule, type) and issubclass(schedule, LRScheduler)
        if is_one and "load_state_dict" in vars(schedule):
            _wrap(schedule, "load_state_dict", _after_state(SCHEDULER))
    _wrap(torch.amp.GradScaler, "load_state_dict", _after_state(SCALER))
    for owner in (torch, torch.random):
        _wrap(owner, "set_rng_state", _after_random)
    _wrap(np.random, "set_state", _after_random)
    _wrap(random, "setstate", _after_random)


def remove() -> None:
    global _is_installed, _parallel, _steps
    _patch.undo()
    _awaited.clear()
    if _steps is not None:
        _steps.remove()
    _steps = None
    _is_installed, _parallel = False, None


def _watch_files() -> None:
    for owner in (torch, torch.serialization):
        _wrap(owner, "save", _after_save)
        _wrap(owner, "load", _after_load)
    if find_spec("safetensors") is not None:
        with suppress(ImportError):  # it may be there without torch's part
            tensors = import_module("safetensors.torch")
            _wrap(tensors, "save_file", _after_save)
            _wrap(tensors, "load_file", _after_load)


def _watch_parallel_files() -> None:
    """Of torch.distributed.checkpoint, which is large, and imported by those that use it."""
    global _parallel
    parallel = sys.modules.get("torch.distributed.checkpoint")
    if parallel is not None and _parallel is None:
        _parallel = parallel
        _wrap(parallel, "save", _after_parallel_save)
        _wrap(parallel, "load", _after_parallel_load)


def _wrap(
    owner: Any, name: str, after: Callable[..., None], before: Callable[..., Any] | None = None
) -> None:
    def begin(*args: Any, **kwargs: Any) -> None:
        found: Any = None
        if log.is_full and before is not None:
            return
        with suppress(Exception):  # the boundary to the script: whatever it gives must not matter
            found = None if before is None else before(*args, **kwargs)
        del _began[8:]  # of calls that raised
        _began.append((time.time(), found))

    def end(result: Any, *args: Any, **kwargs: Any) -> None:
        if log.is_full and before is not None:
            return
        start, found = _began.pop() if _began else (time.time(), None)
        with suppress(Exception):
            after(start, found, result, *args, **kwargs)

    _patch.wrap(owner, name, before=begin, after=end)


def _after_save(start: float, _: Any, __: None, saved: Any, f: Any = None, **kwargs: Any) -> None:
    target = f if f is not None else kwargs.get("filename")
    log.add(Event("save", "file", start, path=_path(target), holds=kinds_in(saved)))


def _after_load(start: float, _: Any, loaded: Any, f: Any = None, *__: Any, **kwargs: Any) -> None:
    source = f if f is not None else kwargs.get("filename")
    log.add(Event("load", "file", start, path=_path(source), holds=kinds_in(loaded)))
    _note_continued(_path(source))


def _after_parallel_save(start: float, _: Any, __: Any, state: Any, **kwargs: Any) -> None:
    log.add(Event("save", "file", start, path=_path(_place(kwargs)), holds=kinds_in(state)))


def _after_parallel_load(start: float, _: Any, __: Any, state: Any, **kwargs: Any) -> None:
    log.add(Event("load", "file", start, path=_path(_place(kwargs)), holds=kinds_in(state)))
    _note_continued(_path(_place(kwargs)))


def _note_continued(path: str) -> None:
    """Before the first step a training may be continued by what was loaded."""
    if path and log.step() < 0:
        trace.note_loaded(path)


def _place(given: Mapping[str, Any]) -> Any:
    part = given.get("storage_writer") or given.get("storage_reader")
    return given.get("checkpoint_id") or getattr(part, "path", None)


def _before_model(module: nn.Module, state_dict: Mapping[str, Any], *_: Any, **__: Any) -> bool:
    """Whether all that it is given is in its own memory: loading that changes nothing."""
    own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    pairs = [(own.get(key), value) for key, value in state_dict.items()]
    filled = [(a, b) for a, b in pairs if isinstance(a, Tensor) and isinstance(b, Tensor)]
    filled = [(a, b) for a, b in filled if a.numel() and not a.is_meta]
    return bool(filled) and all(a.data_ptr() == b.data_ptr() for a, b in filled)


def _after_model(
    start: float,
    is_own: bool | None,
    result: Any,
    module: nn.Module,
    state_dict: Mapping[str, Any],
    *_: Any,
    **__: Any,
) -> None:
    missing, unexpected = list(result.missing_keys), list(result.unexpected_keys)
    event = Event("load", MODEL, start, type=type(module).__name__, is_own=bool(is_own))
    event.num_keys = len(state_dict)
    event.num_missing, event.num_unexpected = len(missing), len(unexpected)
    learnt = {name for name, each in module.named_parameters() if each.requires_grad}
    event.num_learnt_missing = len(learnt & {*missing})
    event.num_matched = len(state_dict) - len(unexpected)
    event.missing, event.unexpected = missing[:_NUM_EXAMPLES], unexpected[:_NUM_EXAMPLES]
    event.prefix = _common_prefix(missing, unexpected)
    event.holder = weakly(module)
    log.add(event)


def _common_prefix(missing: list[str], unexpected: list[str]) -> str:
    """What the given keys have in front, or in front of a part, compared with those that are
    missing: `-` before it if they lack it. Empty if that explains none."""
    if not missing or not unexpected:
        return ""
    for prefix in _PREFIXES:
        if {_without(prefix, key) for key in unexpected} & {*missing}:
            return prefix
        if {_without(prefix, key) for key in missing} & {*unexpected}:
            return f"-{prefix}"
    return ""


def _without(prefix: str, key: str) -> str | None:
    """A wrapper may be around the whole model or around a part; None if the key has none."""
    before, found, after = f".{key}".partition(f".{prefix}")
    return f"{before}.{after}".removeprefix(".") if found else None


def _rate(optimizer: torch.optim.Optimizer, *_: Any, **__: Any) -> float:
    """Of its first group."""
    return float(optimizer.param_groups[0]["lr"])


def _after_optimizer(
    start: float,
    rate: float | None,
    _: None,
    optimizer: torch.optim.Optimizer,
    *__: Any,
    **___: Any,
) -> None:
    event = Event("load", OPTIMIZER, start, type=type(optimizer).__name__)
    with suppress(LookupError, TypeError, ValueError):  # one without a rate
        event.rates = [] if rate is None else [rate, _rate(optimizer)]
    _await_step(optimizer, event)
    log.add(event)


def _await_step(optimizer: torch.optim.Optimizer, event: Event) -> None:
    """Notes whether this very object makes steps, or only others do."""
    global _steps
    if _steps is None:
        _steps = register_optimizer_step_post_hook(_on_step)
    _awaited.append(_Awaited(weakref.ref(optimizer), event))


def _on_step(stepped: torch.optim.Optimizer, *_: Any) -> None:
    """Its handle is left alone: torch goes through the hooks while this one runs."""
    for each in [*_awaited]:
        optimizer = each.optimizer()
        each.num_others += 1
        each.event.is_idle = stepped is not optimizer and each.num_others >= _IDLE_UPDATES
        if stepped is optimizer or (optimizer is None and each.event.is_idle):
            _awaited.remove(each)


def _after_state(kind: str) -> Callable[..., None]:
    def after(start: float, _: Any, __: Any, holder: Any, *___: Any, **____: Any) -> None:
        log.add(Event("load", kind, start, type=type(holder).__name__))

    return after


def _after_random(start: float, *_: Any, **__: Any) -> None:
    """Not by torch itself, which sets states when it recomputes activations."""
    caller = sys._getframe(3).f_globals.get("__name__", "")
    if caller.split(".")[0] != "torch":
        log.add(Event("load", RANDOM, start))


def _path(target: Any) -> str:
    """Relative to the working folder where it is below it; empty for an open file."""
    name = target if isinstance(target, str | os.PathLike) else getattr(target, "name", "")
    text = os.fspath(name) if isinstance(name, str | os.PathLike) else ""
    if not isinstance(text, str) or not text:
        return ""
    relative = os.path.relpath(text)
    return text if relative.startswith("..") else relative
