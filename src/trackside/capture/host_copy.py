"""Copies tensors into memory that is used again: fresh pages cost more than the copying."""

import weakref
from collections import defaultdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

_POOLED_BYTES = 1 << 16
"""Below this the allocator's own cache is quicker."""
_KEPT_BYTES = 512 << 20
"""Free memory kept for later; what comes back beyond it is given up."""


class HostCopies:
    """A copy may be kept as long as anybody likes; its memory returns when the last view is gone.

    Nobody has to hand anything back: the pool hears of it through a weak reference.
    """

    def __init__(self) -> None:
        self._free: defaultdict[int, list[np.ndarray[Any, Any]]] = defaultdict(list)
        self._leases: dict[int, weakref.ref[Any]] = {}
        self._kept_bytes = 0

    def copy(self, tensor: Tensor) -> Tensor:
        """A contiguous copy of a dense CPU tensor."""
        source = tensor.detach()
        size = source.numel() * source.element_size()
        if size < _POOLED_BYTES:
            return source.clone(memory_format=torch.contiguous_format)
        buffer = torch.from_numpy(self._lease(size)).view(source.dtype).view(source.shape)
        return buffer.copy_(source)

    def _lease(self, size: int) -> np.ndarray[Any, Any]:
        free = self._free[size]
        if free:
            memory = free.pop()
            self._kept_bytes -= size
        else:
            memory = np.empty(size, dtype=np.uint8)
        lease = memory[:]  # dies with the tensors made of it, unlike `memory`
        key = id(lease)

        def give_back(_: object) -> None:
            del self._leases[key]
            if self._kept_bytes + size <= _KEPT_BYTES:
                self._kept_bytes += size
                free.append(memory)

        self._leases[key] = weakref.ref(lease, give_back)
        return lease
