"""Short digests of tensors and of everything that a saved object holds, bit for bit."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_SIZE = 8
_DEEPEST, _MOST_LEAVES = 8, 50_000


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=_SIZE).hexdigest()


@torch.no_grad()
def tensor_digest(tensor: Tensor) -> str:
    """Of its values, type and shape; sparse and distributed ones by what this process has."""
    dense = getattr(tensor, "_local_tensor", tensor).detach()
    if dense.is_meta:
        return "meta"
    if dense.layout is not torch.strided:
        dense = dense.to_dense()
    plain = dense.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return digest(f"{dense.dtype}{tuple(dense.shape)}".encode() + plain)


def tensors_digest(tensors: list[Tensor]) -> str:
    return digest("".join(map(tensor_digest, tensors)).encode())


def leaves(saved: Any) -> dict[str, str]:
    """Digests of the tensors of numbers in it, by their path."""
    found: dict[str, str] = {}
    for path, value in _leaves("", saved, 0):
        if len(found) >= _MOST_LEAVES:
            break
        found[path] = value
    return found


def _leaves(path: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, nn.Module):
        value = value.state_dict()
    if isinstance(value, Tensor):
        if value.dtype.is_floating_point:
            yield path, tensor_digest(value)
    elif isinstance(value, np.ndarray):
        if value.dtype.kind == "f":
            yield path, digest(value.tobytes())
    elif depth < _DEEPEST:
        items: list[tuple[Any, Any]] = []
        if isinstance(value, Mapping):
            items = list(value.items())
        elif isinstance(value, list | tuple):
            items = list(enumerate(value))
        for key, item in items:
            yield from _leaves(f"{path}.{key}" if path else str(key), item, depth + 1)
