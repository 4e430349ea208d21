"""What a saved object holds: the states of a model, an optimizer, a schedule, …, by their keys."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

MODEL, OPTIMIZER, SCHEDULER, SCALER = "model", "optimizer", "scheduler", "scaler"
RANDOM, AVERAGE, PROGRESS = "random", "average", "progress"
_DEEPEST = 4
_MOST_ITEMS = 256
"""Of one mapping or list: states of optimizers and models are recognised, not entered."""
_RANDOM_NAMES = ("rng", "random_state", "randomstate")
_AVERAGE_NAMES = ("ema", "average", "averaged", "swa", "shadow")
_PROGRESS_NAMES = ("epoch", "step", "iteration", "iter", "global_step", "num_steps", "batch")


def kinds_in(saved: Any) -> list[str]:
    """Sorted, each once; empty for objects that nothing is known about."""
    return sorted(set(_kinds("", saved, 0)))


def _kinds(name: str, value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, nn.Module):
        yield _of_weights(name)
    elif isinstance(value, Mapping):
        yield from _in_mapping(name, value, depth)
    elif _means(name, _RANDOM_NAMES) and value is not None:
        yield RANDOM
    elif isinstance(value, list | tuple) and depth < _DEEPEST:
        for item in value[:_MOST_ITEMS]:
            if isinstance(item, Mapping | nn.Module):
                yield from _kinds(name, item, depth + 1)
    elif isinstance(value, int) and _means(name, _PROGRESS_NAMES):
        yield PROGRESS


def _in_mapping(name: str, value: Mapping[Any, Any], depth: int) -> Iterator[str]:
    if "param_groups" in value and "state" in value:
        yield OPTIMIZER
    elif "last_epoch" in value or "_step_count" in value:
        yield SCHEDULER
    elif "scale" in value and "growth_factor" in value:
        yield SCALER
    elif is_state_of_module(value):
        yield _of_weights(name)
    elif _means(name, _RANDOM_NAMES) and value:
        yield RANDOM
    elif depth < _DEEPEST:
        for key, item in list(value.items())[:_MOST_ITEMS]:
            yield from _kinds(str(key), item, depth + 1)


def is_state_of_module(value: Mapping[Any, Any]) -> bool:
    """Only tensors, by name, of which one at least could be a weight."""
    weights = [each for key, each in value.items() if isinstance(key, str)]
    if not weights or len(weights) < len(value):
        return False
    if not all(isinstance(each, Tensor) for each in weights):
        return False
    return any(each.dtype.is_floating_point and each.dtype != torch.uint8 for each in weights)


def _of_weights(name: str) -> str:
    return AVERAGE if _means(name, _AVERAGE_NAMES) else MODEL


def _means(name: str, known: tuple[str, ...]) -> bool:
    """By its whole name, or by one of the words that underscores part."""
    lower = name.lower()
    return lower in known or any(word in known for word in lower.replace("-", "_").split("_"))
