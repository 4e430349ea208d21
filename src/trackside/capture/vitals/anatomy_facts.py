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
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm

from trackside.capture.checkpoints import checkpoint_watch
from trackside.capture.checkpoints.spans import Spans
from trackside.capture.checkpoints.trace import trace
from trackside.capture.model.loader_watch import LoaderWatch
from trackside.capture.model.names import Names
from trackside.capture.model.values import readable
from trackside.capture.vitals.copies import EvaluatedModels, copied_tables
from trackside.capture.vitals.crash import crash_facts
from trackside.capture.vitals.loss_graph import read_graph
from trackside.capture.vitals.loss_setup import weights_of
from trackside.capture.vitals.losses import BINARY, ELEMENTWISE, OVER_CLASSES, LossCall
from trackside.capture.vitals.norms import FrozenNorms
from trackside.capture.vitals.onlookers import Onlookers
from trackside.capture.vitals.optimizers import WatchedOptimizer
from trackside.capture.vitals.rhythm import UpdateRhythm
from trackside.capture.vitals.script import remarks_on_script
from trackside.capture.vitals.texts import TextWatch

_MOST_OUTSIDE = 64
_NUM_GRAPHS = 3
"""Number of first backwards whose graph is read: models that alternate have one each."""
_MOST_OPTIMIZERS = 256
_FULL_SIZE = 4
"""Bytes of a float32."""
_SECONDS = 30.0
"""Between two writes of counts that only grow; new facts are written at once."""


class AnatomyFacts:
    def __init__(self, worker: str, world_size: int) -> None:
        self.is_changed = True
        self.loaders = LoaderWatch()
        self.evaluations = Spans()
        self.first_step: int | None = None
        """Of this process: more than 0 after a resumption."""
        self._num_events = 0
        self.texts = TextWatch()
        self.rhythm = UpdateRhythm()
        self.evaluated = EvaluatedModels()
        self._frozen_norms = FrozenNorms()
        self._copied: dict[int, str] = {}
        """Weights that began with the values of an embedding, and its name."""
        self._precision: Counter[str] = Counter()
        """Training steps under autocast, and outputs of layers in few and in all bits."""
        self.num_cut_samples = self.num_scored_samples = 0
        self.num_scaled = 0
        """Losses that a GradScaler scaled, and whether it ever took that back."""
        self.is_ever_unscaled = False
        self._clipped: Counter[bool] = Counter()
        self._dropped: Counter[str] = Counter()
        self.padding_mask: Tensor | None = None
        """That attention got in the sampled step."""
        self._policy: dict[str, Any] = {
            "weight": "",
            "num_encouraged": 0,
            "num_discouraged": 0,
        }
        self.num_evaluated_early = 0
        """Calls in evaluation mode before the training began."""
        self.onlookers: Onlookers | None = None
        self.objective: dict[str, Any] = {}
        """By the names of `ObjectiveFacts`."""
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
        self._dropouts: dict[int, tuple[float, int]] = {}
        """The share of each, and since which step."""
        self._schedulers: Counter[str] = Counter()
        self._first_epochs: dict[str, int | None] = {}
        self._idle: Counter[str] = Counter()
        self._idle_since: dict[str, int] = {}
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
        self._first_gradient: dict[int, int] = {}
        self._last_gradient: dict[int, int] = {}
        self._in_optimizer: set[int] = set()
        self._autocast: str | None = None
        self._scaler: str | None = None
        self._scale: float | None = None
        self._device: str | None = None
        self._crash: dict[str, Any] | None = None
        self._written_at = 0.0
        self._remarks: list[dict[str, Any]] | None = None

    def add_model(self, names: Names) -> None:
        self._models.append(names)
        self._copied |= copied_tables(names)
        self._trained += [p for _, p in names.parameters() if p.requires_grad]
        self.is_changed = True

    def count_forward(self, training: bool, grad: bool, *, is_frozen: bool = False) -> None:
        self._since_backward += training and grad
        if grad:  # a teacher in evaluation mode next to it leaves a student in training
            self._is_training = training or is_frozen or self._since_backward > 0
        count = self._forwards[training, grad] = self._forwards[training, grad] + 1
        if count == 1:
            self.is_changed = True

    def look_for_copies(self, num_updates: int) -> None:
        """Batches go to a model that is not watched."""
        self.evaluated.look(self._models, num_updates)

    def find_copies(self, num_updates: int) -> None:
        self.evaluated.find(self._models, num_updates)

    def see_crash(self) -> None:
        """At the end: the exception that ends the process, if one does."""
        self._crash = crash_facts(self._models)

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

    def see_autocast(self, *, is_on: bool) -> None:
        """In a sampled training step: at the call of the model, and at the loss."""
        if is_on:
            self.is_changed |= not self._precision["num_asked"]
            self._precision["num_asked"] += 1

    def see_output(self, dtype: torch.dtype) -> None:
        """Of a layer that autocast applies to, in a sampled training step."""
        self._precision["num_low" if dtype.itemsize < _FULL_SIZE else "num_full"] += 1

    def see_modes_of_modules(self, step: int) -> None:
        """In a training step: what evaluation switches does not count."""
        for names in self._models:
            for part in names.module.modules():
                self._trains[id(part)] = part.training
                if isinstance(part, _DropoutNd):
                    self._see_dropout(part, step)

    def _see_dropout(self, module: _DropoutNd, step: int) -> None:
        known = self._dropouts.get(id(module))
        if known is None or known[0] != module.p:
            self._dropouts[id(module)] = (module.p, 0 if known is None else step)
            self.is_changed = True

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
        owners = {id(p): n for n, each in enumerate(self._models) for _, p in each.parameters()}
        graph = read_graph(first, names, owners)
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

    def see_objective_fact(self, name: str, value: str | bool | list[int]) -> None:
        self.is_changed |= name not in self.objective
        self.objective[name] = value

    def count_objective_fact(self, name: str, count: int = 1) -> None:
        self.is_changed |= name not in self.objective
        self.objective[name] = self.objective.get(name, 0) + count

    def name_of(self, parameter: Tensor) -> str:
        """As models have it; empty for a tensor of the script's own."""
        known = ((name, p) for names in self._models for name, p in names.parameters())
        return next((name for name, p in known if p is parameter), "")

    def see_clipping(self, *, is_used: bool) -> None:
        """Of gradients that an optimizer's step has used already, or that are to be used."""
        self.is_changed |= not self._clipped[is_used]
        self._clipped[is_used] += 1

    def see_dropped(self, place: str) -> None:
        """By a dropout in evaluation, called there, that is told no mode."""
        self.is_changed |= not self._dropped[place]
        self._dropped[place] += 1

    def see_scaler(self, kind: str) -> None:
        self._scaler, self.is_changed = kind, True

    def see_scheduler(self, kind: str, last_epoch: Any) -> None:
        if kind not in self._schedulers:
            self.is_changed = True
            self._first_epochs[kind] = last_epoch if isinstance(last_epoch, int) else None
        self._schedulers[kind] += 1

    def see_idle_scheduler(self, kind: str, num_updates: int) -> None:
        self._idle_since.setdefault(kind, num_updates)
        self._idle[kind] += 1

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
            "weights": (weights := weights_of(call)),
            "class_counts": [0] * len(weights),
            "smoothing": call.smoothing,
            "is_objective": False,
        }
        if known is None or (described["broadcasts"] and not known["broadcasts"]):
            self._losses[key] = described  # a smaller last batch is not new
            self.is_changed = True

    def class_counts(self, call: LossCall) -> list[int]:
        """To be counted further; empty where classes have no weights."""
        known = self._losses.get((call.function, call.module))
        counts: list[int] = known["class_counts"] if known is not None else []
        return counts

    def see_objective(self, function: str) -> None:
        """`backward` was called on the value of this very loss."""
        for (name, _), described in self._losses.items():
            if name == function and not described["is_objective"]:
                described["is_objective"] = self.is_changed = True

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
                    self._see_gradient(parameter, step)

        return saw

    def check_gradients(self, step: int) -> None:
        """For parameters that no optimizer holds, only whether there is a gradient at all."""
        for parameter in self._trained:
            if id(parameter) not in self._in_optimizer and parameter.grad is not None:
                self._see_gradient(parameter, step)

    def _see_gradient(self, parameter: Tensor, step: int) -> None:
        if id(parameter) not in self._last_gradient:
            self.is_changed = True
            self._first_gradient[id(parameter)] = step
        self._last_gradient[id(parameter)] = step

    def see_step(self, step: int, trains: bool) -> None:
        if self.first_step is None:
            self.first_step = step
        if not trains:
            self.evaluations.extend(time.time(), step)
        elif self.evaluations.is_open:
            self.evaluations.end(time.time())

    def is_due(self, step: int, now: float) -> bool:
        """Rarely: when something is new, when counts have doubled, and now and then.

        `now` is of `time.perf_counter`.
        """
        self.is_changed |= checkpoint_watch.log.num_news != self._num_events
        is_new = self.is_changed or self.texts.is_changed
        return is_new or step & (step - 1) == 0 or now - self._written_at > _SECONDS

    def to_json_dict(self, optimizers: Iterable[WatchedOptimizer]) -> dict[str, Any]:
        self.is_changed = False
        self._num_events = checkpoint_watch.log.num_news
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
            "holds_spectral_norm": any(map(_is_spectral, (m for _, m in modules))),
            "parameters": self._parameters(),
            "evaluated": self.evaluated.to_json(self._in_optimizer, self._models),
            "remarks": self._read_script(),
            "rhythm": self.rhythm.to_json(),
            "precision": dict(self._precision),
            "optimizers": [optimizer for optimizer, _ in self._optimizers.values()],
            "num_remade": self._num_remade,
            "schedulers": [
                {
                    "name": kind,
                    "num_steps": count,
                    "first_epoch": self._first_epochs[kind],
                    "num_idle": self._idle[kind],
                    "idle_since": self._idle_since.get(kind, 0),
                }
                for kind, count in self._schedulers.items()
            ],
            "losses": list(self._losses.values()),
            **self._graph,
            "loaders": self.loaders.to_json(),
            "first_step": self.first_step or 0,
            "evaluations": self.evaluations.to_json(),
            "saves": checkpoint_watch.log.saves.to_json(),
            "checkpoints": checkpoint_watch.log.to_json(map(id, self._trained)),
            "continued": trace.continued,
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
            "num_evaluated_early": self.num_evaluated_early,
            "objective": self.objective or None,
            "onlookers": [] if self.onlookers is None else self.onlookers.to_json(),
            "num_clipped": self._clipped[False],
            "num_clipped_late": self._clipped[True],
            "dropped_in_evaluation": dict(self._dropped),
            "num_scaled": self.num_scaled,
            "is_ever_unscaled": self.is_ever_unscaled,
            "text": self.texts.to_json(),
            "autocast": self._autocast,
            "grad_scaler": self._scaler,
            "grad_scale": self._scale,
            "crash": self._crash,
        }

    def _read_script(self) -> list[dict[str, Any]]:
        """Once, when something was trained."""
        if self._remarks is None and self._optimizers:
            self._remarks = remarks_on_script()
        return self._remarks or []

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
            return {"dropped": module.p, "dropped_since": self._dropouts.get(id(module), (0, 0))[1]}
        if isinstance(module, _BatchNorm):
            return _statistics(module) | {"statistics_moved": self._frozen_norms.moved(module)}
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
        # A model may have got further parts since it was added.
        self._trained = [
            p for each in self._models for _, p in each.parameters() if p.requires_grad
        ]
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
                        "copied_from": self._copied.get(id(parameter)),
                        "optimizer": optimizer,
                        "group": group,
                        "ever_had_gradient": last is not None,
                        "last_gradient_step": last,
                        "first_gradient_step": self._first_gradient.get(id(parameter)),
                        "is_zero": last is None and optimizer is not None and _is_zero(parameter),
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
        "last_step": watched.last_step,
        "backwards_per_step": {str(k): n for k, n in watched.backwards_per_step.items()},
        "num_discarded": watched.num_discarded,
        "groups": [
            {key: _plain(value) for key, value in group.items() if key != "params"}
            | {"num_parameters": len(group["params"])}
            for group in groups
        ],
    }


def _is_zero(parameter: Tensor) -> bool:
    """Read only of what is trained and never had a gradient, which is rare."""
    values = readable(parameter.detach())
    return values is not None and bool(values.numel()) and not bool(values.any())


def _is_spectral(module: nn.Module) -> bool:
    """A spectral norm, as a parametrization or as a hook: it iterates in training mode only."""
    if isinstance(module, _SpectralNorm):
        return True
    hooks = module._forward_pre_hooks.values()
    return any(isinstance(each, SpectralNorm) for each in hooks)


def _statistics(norm: _BatchNorm) -> dict[str, Any]:
    """How a batch norm follows its batches, where it keeps statistics."""
    is_kept = norm.track_running_stats and norm.momentum is not None
    return {"momentum": norm.momentum} if is_kept else {}


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
