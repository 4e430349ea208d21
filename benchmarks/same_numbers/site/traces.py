"""What one process leaves of its numbers. Installed before the first line of the script."""

import atexit
import gc
import hashlib
import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

EVALUATED_EVERY = 7
"""Updates from one evaluation of mode `eval` to the next."""
_READING = ("item", "tolist", "__float__", "__int__", "__bool__")


def install(folder: str, mode: str) -> None:
    random.seed(0)  # for a script that does not: each of its runs would differ
    np.random.seed(0)
    torch.manual_seed(0)
    traces = Traces(Path(folder), mode)
    sys.stdout = Printed(sys.stdout, traces.printed)  # type: ignore[assignment]
    for name in _READING:
        setattr(Tensor, name, traces.reading(getattr(Tensor, name)))
    register_optimizer_step_post_hook(traces.on_update)
    made: Any = Optimizer.__init__

    def make(optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:
        made(optimizer, *args, **kwargs)
        traces.on_optimizer(optimizer)

    Optimizer.__init__ = make  # type: ignore[method-assign]
    if mode == "amp":
        torch.autocast("cpu", dtype=torch.bfloat16).__enter__()
    atexit.register(traces.leave, os.getpid())


class Printed:
    """Standard output, whose text is kept, too."""

    def __init__(self, inner: Any, kept: list[str]) -> None:
        self._inner = inner
        self._kept = kept

    def write(self, text: str) -> int:
        if sys._getframe(1).f_globals.get("__name__") in ("__main__", "__mp_main__"):
            self._kept.append(text)
        return int(self._inner.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Traces:
    def __init__(self, folder: Path, mode: str) -> None:
        self.printed: list[str] = []
        self._folder = folder
        self._mode = mode
        self._read = hashlib.sha256()
        self._num_read = self._num_updates = 0
        self._evaluated = hashlib.sha256()
        self._optimizers: list[Optimizer] = []
        self._roots: list[nn.Module] = []
        self._inputs: dict[int, tuple[Any, Any]] = {}

    def reading(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def read(tensor: Tensor) -> Any:
            value = method(tensor)
            name = sys._getframe(1).f_globals.get("__name__")
            if name in ("__main__", "__mp_main__"):  # the script's own, not those of torch or ours
                self._num_read += 1
                self._read.update(repr(value).encode())
            return value

        return read

    def on_optimizer(self, optimizer: Optimizer) -> None:
        """It is kept: what it trains is compared at the end, even if the script has let go."""
        self._optimizers.append(optimizer)
        if self._mode not in ("compile", "eval"):
            return
        for root in _roots_of(optimizer):
            if any(root is known for known in self._roots):
                continue
            self._roots.append(root)
            if self._mode == "compile":
                root.compile(backend="aot_eager")
            else:
                root.register_forward_pre_hook(self._on_call, with_kwargs=True)

    def on_update(self, *_: Any) -> None:
        self._num_updates += 1
        if self._mode == "eval" and self._num_updates % EVALUATED_EVERY == 0:
            for root in self._roots:
                self._evaluate(root)

    def _on_call(self, root: nn.Module, args: Any, kwargs: Any) -> None:
        if root.training:
            self._inputs[id(root)] = (args, kwargs)

    def _evaluate(self, root: nn.Module) -> None:
        if id(root) not in self._inputs:
            return
        args, kwargs = self._inputs[id(root)]
        modes = [(module, module.training) for module in root.modules()]
        root.eval()
        with torch.no_grad():
            found = root(*args, **kwargs)
        for module, training in modes:
            module.training = training
        for tensor in _tensors_in(found):
            self._evaluated.update(_digest(tensor).encode())

    def leave(self, pid: int) -> None:
        if os.getpid() != pid:
            return
        about = {
            "printed": "".join(self.printed),
            "read": f"{self._num_read} {self._read.hexdigest()}",
            "evaluated": self._evaluated.hexdigest(),
            "num_updates": self._num_updates,
            "trained": [_state(optimizer) for optimizer in self._optimizers],
            "random": {
                "torch": _digest(torch.random.get_rng_state()),
                "numpy": hashlib.sha256(repr(np.random.get_state()).encode()).hexdigest(),
                "python": hashlib.sha256(repr(random.getstate()).encode()).hexdigest(),
            },
        }
        (self._folder / f"{pid}.json").write_text(json.dumps(about))


def _roots_of(optimizer: Optimizer) -> list[nn.Module]:
    """The outermost modules with a parameter of the optimizer."""
    trained = {id(p) for group in optimizer.param_groups for p in group["params"]}
    # By their own class: `isinstance` would follow proxies, also those of what is gone.
    modules = [each for each in gc.get_objects() if issubclass(type(each), nn.Module)]
    inner = {id(part) for each in modules for part in each.modules() if part is not each}
    return [
        each
        for each in modules
        if id(each) not in inner and any(id(p) in trained for p in each.parameters())
    ]


def _state(optimizer: Optimizer) -> list[str]:
    """Digests of all that it trains and keeps, in its order."""
    found = []
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            kept = optimizer.state.get(parameter, {})
            values = [parameter, parameter.grad, *(kept[name] for name in sorted(kept, key=str))]
            found.append(" ".join(map(_digest, values)))
    return found


def _digest(value: Any) -> str:
    if not isinstance(value, Tensor):
        return repr(value)
    plain = getattr(value, "_local_tensor", value).detach()
    plain = (plain.to_dense() if plain.layout is not torch.strided else plain).contiguous().cpu()
    if not plain.numel():
        return str(tuple(plain.shape))
    data = plain.reshape(-1).view(torch.uint8) if plain.dtype is not torch.bool else plain.byte()
    return hashlib.sha256(data.numpy().tobytes()).hexdigest()[:16]


def _tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors_in(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors_in(each)
