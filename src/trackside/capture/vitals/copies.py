"""Copies of what is trained: models that are only evaluated, such as an average, and layers that
begin with the values of an embedding.
"""

import math
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.module import register_module_forward_pre_hook

from trackside.capture.model.module_hooks import NOTHING
from trackside.capture.model.names import Names
from trackside.capture.model.values import readable
from trackside.capture.vitals.script_names import reachable_modules

_MOST_MODELS = 16
_APART = 5
"""Updates between two evaluations; a teacher is called in every step."""
_MOST_LOOKS = 64
"""Evaluations at which a model's weights are looked at."""
_FOUND_AT = (1, 20, 200)
"""Updates after which copies are looked for among the script's own values: one is made before the
training, or after a warm-up."""
_MOST_CALLS = 1000
"""Of modules, up to which one of the trained model's class is waited for."""
_MOST_PARAMETERS, _MOST_VALUES = 128, 64
"""Of a model, and of each parameter, that are looked at."""
_MOST_ROWS = 64
"""Of an embedding, that are compared with those of another weight."""


@dataclass(slots=True)
class _Evaluated:
    model: "weakref.ref[nn.Module]"
    type: str
    called_at: int
    """Updates before its last call."""
    marks: list[float]
    num_evaluations: int = 1
    num_changes: int = 0
    """Evaluations at which its weights were others than at the one before."""
    statistics: list[float] | None = None
    """Of its batch norms, at the last of them; None if it has none."""
    num_statistics_changes: int = 0
    twin: "_Twin | None" = None
    is_trained: bool = False
    is_copy: bool | None = None
    """As long as it was there to be looked at."""

    def to_json(self) -> dict[str, Any]:
        return {
            "type": self.type,
            "num_evaluations": self.num_evaluations,
            "num_changes": self.num_changes,
            "is_trained": self.is_trained,
            "is_copy": self.is_copy,
            "num_statistics_changes": self.num_statistics_changes,
            "has_statistics": self.statistics is not None,
            "followed": None if self.twin is None else self.twin.followed,
            "behind": None if self.twin is None else self.twin.behind,
        }

    def see(self, model: nn.Module, num_updates: int) -> None:
        since, self.called_at = num_updates - self.called_at, num_updates
        if since < _APART or self.num_evaluations >= _MOST_LOOKS:
            return
        before, self.marks = self.marks, _marks(model)
        known, self.statistics = self.statistics, _statistics(model)
        if self.num_evaluations:
            self.num_changes += before != self.marks
            self.num_statistics_changes += known != self.statistics
        self.num_evaluations += 1
        if self.twin is not None:
            self.twin.see(self.marks, since)


@dataclass(slots=True)
class _Twin:
    """The trained model that a copy has the shapes of."""

    model: "weakref.ref[nn.Module]"
    first: list[float]
    """Its marks when the copy was found, …"""
    copied: list[float]
    """… and those of the copy."""
    last: list[float]
    followed: float | None = None
    """How far the copy has moved since then, of how far the trained model has."""
    behind: float | None = None
    """Updates that it would take the trained model to move as far as both are apart, at most."""

    def see(self, marks: list[float], num_updates: int) -> None:
        """At an evaluation of the copy, so many updates after the one before."""
        model = self.model()
        if model is None:
            return
        before, self.last = self.last, _marks(model)
        moved, since = _distance(self.last, self.first), _distance(self.last, before)
        if moved and since:
            self.followed = _distance(marks, self.copied) / moved
            behind = _distance(marks, self.last) / since * num_updates
            self.behind = max(behind, self.behind or 0.0)


class _CopyTap:
    """Sees the calls of a copy; one that is pickled or copied with it does nothing."""

    def __init__(self, evaluated: "EvaluatedModels") -> None:
        self._evaluated = evaluated

    def __call__(self, module: nn.Module, _: Any) -> None:
        if not torch.compiler.is_compiling() and not torch.is_grad_enabled():
            self._evaluated.see_copy(module)

    def __reduce__(self) -> Any:
        return NOTHING.__reduce__()


class EvaluatedModels:
    """Every model that is called without gradients, and whether its weights ever change."""

    def __init__(self) -> None:
        self._seen: dict[int, _Evaluated] = {}
        self._looking: Any = None
        self._num_looks = self._num_calls = 0
        self._num_updates = self._num_finds = 0
        self._taps: list[Any] = []

    def find(self, models: Sequence[Names], num_updates: int) -> None:
        """Copies that the script keeps, such as an average, before they are first evaluated."""
        self._num_updates = num_updates
        if self._num_finds == len(_FOUND_AT) or num_updates < _FOUND_AT[self._num_finds]:
            return
        self._num_finds += 1
        if _is_compiling():
            return
        watched = {id(part) for each in models for part in each.module.modules()}
        for root in [each.module for each in models]:
            shapes = _shapes(root)
            for found in reachable_modules(type(root)):
                if shapes and id(found) not in watched and _shapes(found) == shapes:
                    watched.add(id(found))
                    self._watch(found, root)

    def _watch(self, copy: nn.Module, root: nn.Module) -> None:
        known = self._seen.get(id(copy))
        if (known is not None and known.model() is copy) or len(self._seen) >= _MOST_MODELS:
            return
        first = _marks(root)
        evaluated = _Evaluated(
            weakref.ref(copy),
            type(copy).__name__,
            self._num_updates,
            _marks(copy),
            num_evaluations=0,
            statistics=_statistics(copy),
        )
        evaluated.twin = _Twin(weakref.ref(root), first, evaluated.marks, first)
        self._seen[id(copy)] = evaluated
        self._taps.append(nn.Module.register_forward_pre_hook(copy, _CopyTap(self)))

    def see_copy(self, copy: nn.Module) -> None:
        self.see(copy, self._num_updates)

    def remove(self) -> None:
        self.stop_looking()
        for tap in self._taps:
            tap.remove()

    def look(self, models: Sequence[Names], num_updates: int) -> None:
        """Data go to a model that is not watched. Listen to all modules until one of the watched
        models' classes is called. Not where graphs are compiled: that would compile them again."""
        if self._looking is not None or self._num_looks >= _MOST_LOOKS or _is_compiling():
            return
        self._num_looks += 1
        self._num_calls = 0
        types = {type(each.module) for each in models}

        def on_call(module: nn.Module, _: Any) -> None:
            self._num_calls += 1
            if type(module) in types:
                self.stop_looking()
                if not torch.is_grad_enabled():
                    self.see(module, num_updates)
            elif self._num_calls > _MOST_CALLS:
                self.stop_looking()

        self._looking = register_module_forward_pre_hook(on_call)

    def stop_looking(self) -> None:
        if self._looking is not None:
            self._looking.remove()
            self._looking = None

    def see(self, model: nn.Module, num_updates: int) -> None:
        known = self._seen.get(id(model))
        if known is not None and known.model() is model:
            known.see(model, num_updates)
        elif len(self._seen) < _MOST_MODELS:
            self._seen[id(model)] = _Evaluated(
                weakref.ref(model),
                type(model).__name__,
                num_updates,
                _marks(model),
                statistics=_statistics(model),
            )

    def to_json(self, optimized: set[int], models: Iterable[Names]) -> list[dict[str, Any]]:
        """`optimized` are the identities of parameters that an optimizer holds."""
        trained = [
            _shapes(each.module)
            for each in models
            if any(id(p) in optimized for p in each.module.parameters())
        ]
        found = []
        for each in self._seen.values():
            model = each.model()
            if model is not None:
                each.is_trained = any(id(p) in optimized for p in model.parameters())
                each.is_copy = not each.is_trained and _shapes(model) in trained
            if each.is_copy is not None and each.num_evaluations:
                found.append(each.to_json())
        return found


def _distance(first: list[float], second: list[float]) -> float:
    return math.dist(first, second) if len(first) == len(second) else 0.0


def _is_compiling() -> bool:
    return bool(counters["frames"])


def copied_tables(names: Names) -> dict[int, str]:
    """Identities of weights that have the values of an embedding, but not its memory, to its name.

    Called before the first update.
    """
    tables = {id(m.weight) for _, m in names.modules() if isinstance(m, nn.Embedding)}
    weights = [(name, p) for name, p in names.parameters() if p.dim() == 2]
    return {
        id(other): name
        for name, table in weights
        if id(table) in tables
        for _, other in weights
        if id(other) not in tables and _is_copy(table, other)
    }


def _is_copy(table: Tensor, other: Tensor) -> bool:
    if table.shape != other.shape or table.device != other.device or table.dtype != other.dtype:
        return False
    first, second = readable(table.detach()), readable(other.detach())
    if first is None or second is None or first.data_ptr() == second.data_ptr():
        return False
    rows = first[:_MOST_ROWS]
    return torch.equal(rows, second[:_MOST_ROWS]) and bool((rows != rows[0, 0]).any())


@torch.no_grad()
def _marks(model: nn.Module) -> list[float]:
    dense = [d for p in model.parameters() if (d := readable(p.detach())) is not None and d.numel()]
    chosen = dense[:: -(-len(dense) // _MOST_PARAMETERS) or 1]
    if len({each.device for each in chosen}) != 1:
        return []
    sums = [each.reshape(-1)[:_MOST_VALUES].double().sum() for each in chosen]
    return [float(each) for each in torch.stack(sums).tolist()]


@torch.no_grad()
def _statistics(model: nn.Module) -> list[float] | None:
    """Sums of the running means of batch norms; None where it keeps none."""
    norms = (each for each in model.modules() if isinstance(each, _BatchNorm))
    means = [each.running_mean for each in norms if each.running_mean is not None]
    chosen = means[:_MOST_PARAMETERS]
    if not chosen or len({each.device for each in chosen}) != 1:
        return None
    return [float(each) for each in torch.stack([m.double().sum() for m in chosen]).tolist()]


def _shapes(model: nn.Module) -> list[tuple[int, ...]]:
    return [tuple(p.shape) for p in model.parameters()]
