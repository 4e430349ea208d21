"""Copies tensors into reused memory: fresh pages cost more than copying."""

import weakref
from collections import OrderedDict, deque
from typing import Any

import numpy as np
import torch
from torch import Tensor

Memory = np.ndarray[Any, Any]

_POOLED_BYTES = 1 << 16
"""Below this the allocator's own cache is faster."""
_KEPT_BYTES = 1 << 30
"""Free memory kept for reuse; beyond it, the least recently used is released."""


class HostCopies:
    """A copy may be held for any time; its memory is reused when the last view is gone.

    Nothing has to be returned explicitly: the pool is notified by a weak reference, in whichever
    thread drops the copy. Such a thread only appends to `_returned`; the training thread does the
    rest.
    """

    def __init__(self) -> None:
        self._free: OrderedDict[int, list[Memory]] = OrderedDict()
        self._returned: deque[Memory] = deque()
        self._leases: dict[int, weakref.ref[Any]] = {}
        self._kept_bytes = 0

    def copy(self, tensor: Tensor) -> Tensor:
        """A copy of a dense CPU tensor, a large one in memory order: transposing takes many times
        as long, and the writer thread can afford that.
        """
        source = tensor.detach()
        size = source.numel() * source.element_size()
        if size < _POOLED_BYTES:
            return source.clone(memory_format=torch.contiguous_format)
        strides = source.stride()
        order = sorted(range(source.dim()), key=lambda axis: -strides[axis])
        ordered = source.permute(order)
        if not ordered.is_contiguous():  # a view of something larger, or expanded
            order, ordered = list(range(source.dim())), source
        buffer = torch.from_numpy(self._lease(size)).view(source.dtype).view(ordered.shape)
        return buffer.copy_(ordered).permute([order.index(axis) for axis in range(source.dim())])

    def _lease(self, size: int) -> Memory:
        self._collect()
        free = self._free.get(size)
        if free:
            memory = free.pop()
            self._kept_bytes -= size
            self._free.move_to_end(size)
        else:
            memory = np.empty(size, dtype=np.uint8)
        lease = memory[:]  # freed with the tensors made of it, unlike `memory`
        key = id(lease)

        def give_back(_: object) -> None:
            del self._leases[key]
            self._returned.append(memory)

        self._leases[key] = weakref.ref(lease, give_back)
        return lease

    def _collect(self) -> None:
        while self._returned:
            memory = self._returned.popleft()
            self._free.setdefault(memory.nbytes, []).append(memory)
            self._kept_bytes += memory.nbytes
        while self._kept_bytes > _KEPT_BYTES:
            oldest, free = next(iter(self._free.items()))
            if free:
                self._kept_bytes -= free.pop().nbytes
            else:
                del self._free[oldest]
