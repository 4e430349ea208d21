"""Finds the tensors in modules' inputs and outputs, and which of them can be read."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import Parameter, is_lazy
from torch.nn.utils.rnn import PackedSequence


def tensors_in(*values: Any) -> list[Tensor]:
    """Those of tuples and lists first, depth first, in the positions smdebug gives them.

    Those of dicts, dataclasses and packed sequences, which smdebug omits, follow.
    """
    if all(isinstance(value, Tensor) for value in values):
        return [*values]
    return [*_plain(values), *(t for part in _parts(values) for t in tensors_in(*part))]


def readable(tensor: Tensor) -> Tensor | None:
    """The dense tensor behind it (of a distributed one, this rank's shard), or None."""
    if type(tensor) is not Tensor and type(tensor) is not Parameter:
        if is_lazy(tensor):
            return None
        tensor = getattr(tensor, "_local_tensor", tensor)
    if (
        tensor.is_meta
        or tensor.layout is not torch.strided
        or tensor.is_quantized
        or tensor.is_nested
        or torch._C._functorch.maybe_current_level() is not None  # in `torch.func`, what we
        or torch._C._functorch.is_functorch_wrapped_tensor(tensor)  # make would be wrapped too
    ):
        return None
    return tensor


def in_backward() -> bool:
    """Whether autograd is running: a forward seen now is a recomputation for a checkpoint."""
    return torch._C._current_graph_task_id() != -1


def _plain(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list) and not isinstance(value, PackedSequence):
        for item in value:
            yield from _plain(item)


def _parts(value: Any) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, PackedSequence):
        yield (value.data,)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _parts(item)
    elif isinstance(value, Mapping):
        yield tuple(value.values())
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield tuple(getattr(value, field.name) for field in dataclasses.fields(value))


def num_values_of(tensors: Iterable[Any]) -> int:
    """Of all of them; one that has no shape yet counts as nothing."""
    return sum(each.numel() for each in tensors if isinstance(each, Tensor) and not is_lazy(each))
