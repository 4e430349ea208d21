"""Records the state of a training before each update, for `trackside audit-resume`, and ends the
process where the audit wants it.

Not for ordinary jobs: it reads every tensor at every step. `views/job/resume_audit.py` compares
what three such runs have written.
"""

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from trackside.capture.checkpoints.audit_plan import AuditPlan
from trackside.capture.checkpoints.digests import digest, leaves, tensor_digest, tensors_digest
from trackside.capture.model.function_patches import FunctionPatch
from trackside.capture.model.values import tensors_in


class AuditRecorder:
    def __init__(self, plan: AuditPlan) -> None:
        self._plan = plan
        self._patch = FunctionPatch()
        self._file = plan.record.open("a", encoding="utf-8")
        self._depth = 0
        self._roots: dict[int, nn.Module] = {}
        self._optimizers: list[Any] = []
        self._scaler: Any = None
        self._batches: list[str] = []
        self._loss: float | None = None
        self._before: dict[str, Any] = {}
        self._unnamed: dict[int, str] = {}
        """Digests of parameters whose model is not known yet: one that is first called by the
        closure of an optimizer."""
        self._done = 0
        self._saved_at: list[int] = []
        """Updates that were done at each checkpoint; files of one count once."""

    def install(self) -> None:
        torch.manual_seed(self._plan.seed)
        np.random.seed(self._plan.seed)
        random.seed(self._plan.seed)
        self._watch_calls()
        self._patch.wrap(Tensor, "backward", before=self._on_backward)
        self._patch.wrap(torch.amp.GradScaler, "step", before=self._on_scaler)
        for owner in (torch, torch.serialization):
            self._patch.wrap(owner, "save", after=self._on_save)
        try:
            from safetensors import torch as tensors
        except ImportError:
            pass
        else:
            self._patch.wrap(tensors, "save_file", after=self._on_save)
        register_optimizer_step_pre_hook(self._before_step)
        register_optimizer_step_post_hook(self._after_step)

    def _watch_calls(self) -> None:
        original = nn.Module.__call__

        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return original(module, *args, **kwargs)
            if not self._depth and module.training and torch.is_grad_enabled():
                self._on_call(module, args, kwargs)
            self._depth += 1
            try:
                return original(module, *args, **kwargs)
            finally:
                self._depth -= 1

        nn.Module.__call__ = call  # type: ignore[method-assign]

    def _on_call(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if any(True for _ in module.parameters()):
            self._roots[id(module)] = module
            if self._unnamed:
                self._name_weights(module)
            self._batches.append(tensors_digest(tensors_in(args, kwargs)))

    def _on_backward(self, loss: Tensor, *_: Any, **__: Any) -> None:
        self._loss = float(loss.detach()) if loss.numel() == 1 else None

    def _on_scaler(self, scaler: Any, *_: Any, **__: Any) -> None:
        self._scaler = scaler

    def _on_save(self, _: None, saved: Any, f: Any = None, *__: Any, **kwargs: Any) -> None:
        target = f if f is not None else kwargs.get("filename")
        path = str(target) if isinstance(target, str | os.PathLike) else ""
        if not self._saved_at or self._saved_at[-1] != self._done:
            self._saved_at.append(self._done)
        self._write({"kind": "save", "done": self._done, "path": path, "content": leaves(saved)})

    def _before_step(self, optimizer: Any, *_: Any) -> None:
        self._before = {
            "kind": "step",
            "done": self._done,
            "optimizer": self._number_of(optimizer),
            **self._weights(optimizer),
            "state": _state_of(optimizer),
            "rates": [float(group["lr"]) for group in optimizer.param_groups if "lr" in group],
            "scaler": _scaler_state(self._scaler),
            "random": _random_states(),
        }
        if self._is_at_seam():
            self._finish("seam")

    def _after_step(self, optimizer: Any, *_: Any) -> None:
        self._finish_record()
        self._done += 1
        if self._is_over():
            self._end("over")

    def _is_at_seam(self) -> bool:
        at = [done for done in self._saved_at if done > 0]
        return self._plan.stops_at is not None and len(at) >= self._plan.stops_at

    def _is_over(self) -> bool:
        """In the unbroken run: one more checkpoint, and some steps, behind that of the seam."""
        if self._plan.num_steps is not None:
            return self._done >= self._plan.num_steps
        if self._plan.passes is None:
            return False
        at = [done for done in self._saved_at if done > 0]
        if len(at) <= self._plan.passes:
            return False
        return self._done >= at[self._plan.passes - 1] + self._plan.fewest

    def _finish(self, why: str) -> None:
        self._finish_record()
        self._end(why)

    def _name_weights(self, module: nn.Module) -> None:
        """Those that the running step has found by their place in the optimizer."""
        self._before["parameters"] = {
            name: self._unnamed[id(parameter)]
            for name, parameter in module.named_parameters()
            if id(parameter) in self._unnamed
        }
        buffers = module.named_buffers()
        self._before["buffers"] = {name: tensor_digest(buffer) for name, buffer in buffers}
        self._unnamed = {}

    def _finish_record(self) -> None:
        self._unnamed = {}
        self._write({**self._before, "batches": self._batches, "loss": self._loss})
        self._batches = []

    def _end(self, why: str) -> None:
        self._write({"kind": "end", "why": why, "done": self._done})
        self._file.close()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    def _number_of(self, optimizer: Any) -> int:
        for number, known in enumerate(self._optimizers):
            if known is optimizer:
                return number
        self._optimizers.append(optimizer)
        return len(self._optimizers) - 1

    def _weights(self, optimizer: Any) -> dict[str, dict[str, str]]:
        parameters: dict[str, str] = {}
        buffers: dict[str, str] = {}
        named: set[int] = set()
        for module in self._roots.values():
            for name, parameter in module.named_parameters():
                parameters.setdefault(name, tensor_digest(parameter))
                named.add(id(parameter))
            for name, buffer in module.named_buffers():
                buffers.setdefault(name, tensor_digest(buffer))
        held = [p for group in optimizer.param_groups for p in group["params"]]
        for number, parameter in enumerate(held):
            if id(parameter) not in named and not self._roots:
                found = self._unnamed[id(parameter)] = tensor_digest(parameter)
                parameters[f"parameter {number}"] = found
        return {"parameters": parameters, "buffers": buffers}

    def _write(self, record: dict[str, Any]) -> None:
        self._file.write(json.dumps(record, separators=(",", ":")) + "\n")
        self._file.flush()


def _state_of(optimizer: Any) -> dict[str, str]:
    """Digests of what it keeps for each parameter, over all of them, by name."""
    kept: dict[str, list[str]] = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            for name, value in optimizer.state.get(parameter, {}).items():
                text = tensor_digest(value.float()) if isinstance(value, Tensor) else repr(value)
                kept.setdefault(str(name), []).append(text)
    return {name: digest("".join(texts).encode()) for name, texts in kept.items()}


def _scaler_state(scaler: Any) -> list[float] | None:
    if scaler is None or not scaler.is_enabled():
        return None
    state = scaler.state_dict()
    return [float(state.get("scale", 0.0)), float(state.get("_growth_tracker", 0))]


def _random_states() -> dict[str, str]:
    legacy = np.random.get_state(legacy=False)
    inner = legacy["state"]
    return {
        "torch": tensor_digest(torch.get_rng_state()),
        "numpy": digest(np.asarray(inner["key"]).tobytes() + str(inner["pos"]).encode()),
        "python": digest(repr(random.getstate()).encode()),
    }


def install(path: Path) -> None:
    AuditRecorder(AuditPlan.read(path)).install()
