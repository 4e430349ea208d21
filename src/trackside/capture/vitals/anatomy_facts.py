"""Collects lasting facts about a training: its model, optimizers, losses and habits.

The result is the content of the anatomy file, which `anatomy.py` reads.
"""

import platform
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from trackside.capture.model.loader_watch import LoaderWatch
from trackside.capture.model.names import Names
from trackside.capture.vitals.loss_graph import read_graph
from trackside.capture.vitals.losses import BINARY, ELEMENTWISE, OVER_CLASSES, LossCall
from trackside.capture.vitals.optimizers import WatchedOptimizer

_MOST_OUTSIDE = 64
_NUM_GRAPHS = 3
"""Number of first backwards whose graph is read: models that alternate have one each."""
_MOST_OPTIMIZERS = 256
_SECONDS = 30.0
"""Between two writes of counts that only grow; new facts are written at once."""


class AnatomyFacts:
    def __init__(self, worker: str, world_size: int) -> None:
        self.is_changed = True
        self.loaders = LoaderWatch()
        self.num_cut_samples = self.num_scored_samples = 0
        self.padding_mask: Tensor | None = None
        """That attention got in the sampled step."""
        self._policy: dict[str, Any] = {
            "weight": "",
            "num_encouraged": 0,
            "num_discouraged": 0,
        }
        self._worker, self._world_size = worker, world_size
        self._models: list[Names] = []
        self._trained: list[Tensor] = []
        self._losses: dict[tuple[str, str | None], dict[str, Any]] = {}
        self._graph: dict[str, Any] = {
            "outputs": [],
            "pairs": [],
            "attention": [],
            "reshaped": [],
            "broadcast": None,
            "asks_for_others": False,
            "is_likeness_scaled": False,
        }
        self._num_graphs = 0
        self._first_optimized: int | None = None
        self._num_remade = 0
        self._optimizers: dict[int, tuple[dict[str, Any], dict[int, tuple[int, int]]]] = {}
        """Each one's description, and the optimizer and group of each parameter it holds."""
        self._parts: set[int] = set()
        self._outside: dict[int, tuple[str, list[nn.Parameter]]] = {}
        self._schedulers: Counter[str] = Counter()
        self._forwards: Counter[tuple[bool, bool]] = Counter()
        self._backwards: Counter[bool] = Counter()
        self._is_training = True
        self._since_backward = 0
        self._forwards_per_backward: Counter[int] = Counter()
        self._trains: dict[int, bool] = {}
        self._given: dict[int, tuple[int, ...]] = {}
        self._masked: dict[int, bool] = {}
        self._states: dict[int, Tensor] = {}
        self._carrying: set[int] = set()
        self._last_gradient: dict[int, int] = {}
        self._in_optimizer: set[int] = set()
        self._autocast: str | None = None
        self._scaler: str | None = None
        self._scale: float | None = None
        self._device: str | None = None
        self._written_at = 0.0

    def add_model(self, names: Names) -> None:
        self._models.append(names)
        self._trained += [p for _, p in names.parameters() if p.requires_grad]
        self.is_changed = True

    def count_forward(self, training: bool, grad: bool) -> None:
        self._since_backward += training and grad
        if grad:  # a teacher in evaluation mode next to it leaves a student in training
            self._is_training = training or self._since_backward > 0
        count = self._forwards[training, grad] = self._forwards[training, grad] + 1
        if count == 1:
            self.is_changed = True

    def see_part(self, module: nn.Module) -> None:
        """A module not registered in any model, such as one in a plain list, is outside."""
        if id(module) in self._outside or id(module) in self._parts:
            return
        held = [p for p in module.parameters(recurse=False) if p.requires_grad]
        if any(module is part for names in self._models for part in names.module.modules()):
            self._parts.add(id(module))
        elif held and len(self._outside) < _MOST_OUTSIDE:
            self._outside[id(module)] = (type(module).__name__, held)
            self.is_changed = True

    def see_device(self, device: torch.device) -> None:
        if self._device != str(device):
            self._device = str(device)
            self.is_changed = True
        if self._autocast is None and torch._C._is_any_autocast_enabled():
            self._autocast = _name(torch.get_autocast_dtype(device.type))
            self.is_changed = True

    def see_modes_of_modules(self) -> None:
        """In a training step: what evaluation switches does not count."""
        for names in self._models:
            self._trains |= {id(part): part.training for part in names.module.modules()}

    def see_given(self, module: nn.Module, shape: tuple[int, ...]) -> None:
        """For a layer that processes sequences: the shape of its first input."""
        if id(module) not in self._given:
            self._given[id(module)] = shape
            self.is_changed = True

    def see_attention(self, module: nn.Module, is_masked: bool) -> None:
        """Attention between tokens: whether some of them are masked."""
        self.is_changed |= id(module) not in self._masked
        self._masked[id(module)] = is_masked or self._masked.get(id(module), False)

    def see_state(self, module: nn.Module, given: Any, returned: Tensor) -> None:
        """For a recurrent layer: its initial and its final state. The last one is kept alive, so
        that its address is not reused.
        """
        last = self._states.get(id(module))
        is_kept = isinstance(given, Tensor) and not given.requires_grad
        if is_kept and last is not None and given.data_ptr() == last.data_ptr():
            self.is_changed |= id(module) not in self._carrying
            self._carrying.add(id(module))
        self._states[id(module)] = returned.detach()

    def see_backward(self) -> None:
        self._forwards_per_backward[self._since_backward] += 1
        self._since_backward = 0
        count = self._backwards[self._is_training] = self._backwards[self._is_training] + 1
        if count == 1:
            self.is_changed = True

    @property
    def wants_graph(self) -> bool:
        return self._num_graphs < _NUM_GRAPHS

    def see_graph(self, loss: Any) -> None:
        """`loss` is what backward was given: a tensor, or several."""
        self._num_graphs += 1
        first = loss if isinstance(loss, Tensor) else next(iter(loss))
        names = {id(p): name for names in self._models for name, p in names.parameters()}
        graph = read_graph(first, names)
        for kind in ("outputs", "pairs", "attention", "reshaped"):
            self._graph[kind] += [each for each in graph[kind] if each not in self._graph[kind]]
        for kind in ("broadcast", "asks_for_others", "is_likeness_scaled"):
            self._graph[kind] = self._graph[kind] or graph[kind]
        self.is_changed = True

    def see_optimizer(self, first: Tensor | None) -> None:
        """A new one, by its first parameters: the previous one's again, or others."""
        self._num_remade += first is not None and id(first) == self._first_optimized
        self._first_optimized = None if first is None else id(first)
        self.is_changed = True

    def see_policy(self, weight: str, sign: int) -> None:
        """By a gradient that increases (1) or decreases (-1) what weighs more."""
        self.is_changed |= self._policy["weight"] != weight
        self._policy["weight"] = weight
        self._policy["num_encouraged"] += sign > 0
        self._policy["num_discouraged"] += sign < 0

    def see_scaler(self, kind: str) -> None:
        self._scaler, self.is_changed = kind, True

    def see_scheduler(self, kind: str) -> None:
        self.is_changed |= kind not in self._schedulers
        self._schedulers[kind] += 1

    def see_loss(self, call: LossCall, *, is_target_input: bool = False) -> None:
        key = (call.function, call.module)
        known = self._losses.get(key)
        shapes = [tuple(call.prediction.shape), tuple(call.target.shape)]
        if known is not None and known["shapes"] == shapes:
            return
        has_classes = call.function in OVER_CLASSES
        axis = min(1, call.prediction.dim() - 1)
        described = {
            "name": call.module or call.function,
            "function": call.function,
            "is_module": call.module is not None,
            "reduction": call.reduction,
            "shapes": shapes,
            "dtypes": [_name(call.prediction.dtype), _name(call.target.dtype)],
            "broadcasts": call.function in (*BINARY, *ELEMENTWISE) and shapes[0] != shapes[1],
            "num_classes": call.prediction.shape[axis] if has_classes else None,
            "label_min": None,
            "label_max": None,
            "ignored": call.ignored if has_classes else None,
            "flattened": call.flattened,
            "is_target_trained": call.is_target_trained,
            "is_target_input": is_target_input,
            "bend": call.bend,
        }
        if known is None or (described["broadcasts"] and not known["broadcasts"]):
            self._losses[key] = described  # a smaller last batch is not new
            self.is_changed = True

    def see_figures(self, figures: dict[str, float]) -> None:
        self._scale = figures.get("grad_scale", self._scale)
        low, high = figures.get("labels/min"), figures.get("labels/max")
        if low is None or high is None:
            return
        for loss in self._losses.values():
            if loss["num_classes"] is not None:
                before = (loss["label_min"], loss["label_max"])
                loss["label_min"] = int(min(low, low if before[0] is None else before[0]))
                loss["label_max"] = int(max(high, high if before[1] is None else before[1]))

    def seeing_gradients(self, step: int) -> Callable[[list[Tensor], Any], None]:
        def saw(parameters: list[Tensor], norms: Any) -> None:
            for parameter, norm in zip(parameters, norms.tolist(), strict=True):
                if norm != 0:
                    self.is_changed |= id(parameter) not in self._last_gradient
                    self._last_gradient[id(parameter)] = step

        return saw

    def check_gradients(self, step: int) -> None:
        """For parameters that no optimizer holds, only whether there is a gradient at all."""
        for parameter in self._trained:
            if id(parameter) not in self._in_optimizer and parameter.grad is not None:
                self._last_gradient[id(parameter)] = step

    def is_due(self, step: int, now: float) -> bool:
        """Rarely: when something is new, when counts have doubled, and now and then.

        `now` is of `time.perf_counter`.
        """
        return self.is_changed or step & (step - 1) == 0 or now - self._written_at > _SECONDS

    def to_json_dict(self, optimizers: Iterable[WatchedOptimizer]) -> dict[str, Any]:
        self.is_changed = False
        self._written_at = time.perf_counter()
        self.remember(optimizers)
        modules = [found for names in self._models for found in names.modules()]
        return {
            "worker": self._worker,
            "world_size": self._world_size,
            "device": self._device,
            "versions": {"python": platform.python_version(), "torch": torch.__version__},
            "models": [names.root for names in self._models],
            "modules": self._modules(modules),
            "holds_dropout": any(isinstance(m, _DropoutNd) and m.p > 0 for _, m in modules),
            "holds_batch_norm": any(isinstance(m, _BatchNorm) for _, m in modules),
            "parameters": self._parameters(),
            "optimizers": [optimizer for optimizer, _ in self._optimizers.values()],
            "num_remade": self._num_remade,
            "schedulers": [{"name": k, "num_steps": n} for k, n in self._schedulers.items()],
            "losses": list(self._losses.values()),
            **self._graph,
            "loaders": self.loaders.to_json(),
            "strangers": self._describe_outside(),
            "forwards": [
                {"training": training, "grad": grad, "count": count}
                for (training, grad), count in self._forwards.items()
            ],
            "backwards": [
                {"training": training, "count": count}
                for training, count in self._backwards.items()
            ],
            "forwards_per_backward": {str(k): n for k, n in self._forwards_per_backward.items()},
            "forwards_since_backward": self._since_backward,
            "num_cut_samples": self.num_cut_samples,
            "num_scored_samples": self.num_scored_samples,
            "policy": self._policy if self._policy["weight"] else None,
            "autocast": self._autocast,
            "grad_scaler": self._scaler,
            "grad_scale": self._scale,
        }

    def _modules(self, modules: list[tuple[str, Any]]) -> list[dict[str, Any]]:
        return [
            {
                "name": name,
                "type": type(module).__name__,
                "training": self._trains.get(id(module), module.training),
                **self._peculiar(module),
            }
            for name, module in modules
        ]

    def _peculiar(self, module: nn.Module) -> dict[str, Any]:
        if isinstance(module, _DropoutNd):
            return {"dropped": module.p}
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            return {"padding": module.padding_idx}
        if id(module) in self._given:
            return {
                "given": list(self._given[id(module)]),
                "batch_first": module.batch_first,
                "looks_ahead": not self._masked.get(id(module), True)
                or getattr(module, "bidirectional", False),
                "carries_state": id(module) in self._carrying,
            }
        return {}

    def _describe_outside(self) -> list[dict[str, Any]]:
        held = {each for _, places in self._optimizers.values() for each in places}
        return [
            {
                "type": kind,
                "numel": sum(p.numel() for p in parameters),
                "has_gradient": any(p.grad is not None for p in parameters),
                "is_optimized": any(id(p) in held for p in parameters),
            }
            for kind, parameters in self._outside.values()
        ]

    def remember(self, optimizers: Iterable[WatchedOptimizer]) -> None:
        """One that is gone, as when the function that created it has returned, is described as last
        seen.
        """
        for each in optimizers:
            if each.index >= _MOST_OPTIMIZERS:
                continue
            if each.optimizer() is not None:
                places = {
                    id(parameter): (each.index, number)
                    for number, group in enumerate(each.groups())
                    for parameter in group["params"]
                }
                self._optimizers[each.index] = (_describe(each), places)
            elif each.index in self._optimizers:
                self._optimizers[each.index][0]["num_steps"] = each.num_steps

    def _parameters(self) -> list[dict[str, Any]]:
        places: dict[int, tuple[int, int]] = {}
        for _, held in self._optimizers.values():
            places |= held
        self._in_optimizer = set(places)
        described = []
        for names in self._models:
            first: dict[int, str] = {}
            for name, parameter in names.parameters(tied=True):
                tied_to = first.get(id(parameter))
                first.setdefault(id(parameter), name)
                optimizer, group = places.get(id(parameter)) or (None, None)
                last = self._last_gradient.get(id(parameter))
                described.append(
                    {
                        "name": name,
                        "shape": list(parameter.shape),
                        "numel": parameter.numel(),
                        "dtype": _name(parameter.dtype),
                        "requires_grad": parameter.requires_grad,
                        "tied_to": tied_to,
                        "optimizer": optimizer,
                        "group": group,
                        "ever_had_gradient": last is not None,
                        "last_gradient_step": last,
                    }
                )
        return described


def _describe(watched: WatchedOptimizer) -> dict[str, Any]:
    optimizer = watched.optimizer()
    groups = watched.groups()
    return {
        "index": watched.index,
        "type": type(optimizer).__name__,
        "num_steps": watched.num_steps,
        "backwards_per_step": {str(k): n for k, n in watched.backwards_per_step.items()},
        "num_discarded": watched.num_discarded,
        "groups": [
            {key: _plain(value) for key, value in group.items() if key != "params"}
            | {"num_parameters": len(group["params"])}
            for group in groups
        ],
    }


def _plain(value: Any) -> Any:
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, Tensor) and value.numel() == 1 and value.device.type == "cpu":
        return float(value)
    return str(value)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
