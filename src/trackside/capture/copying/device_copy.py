"""Copies from a CUDA device on a stream of their own, into pinned memory, without waiting.

Kept apart and small: the training thread only enqueues; the writer checks `is_done` first.
"""

import torch
from torch import Tensor


class DeviceCopies:
    """The copies of one step on one device."""

    def __init__(self, device: torch.device) -> None:
        self._stream = _side_stream(device)
        self._done = torch.cuda.Event()

    def copy(self, tensor: Tensor) -> Tensor:
        """A pinned CPU tensor that holds the values once `is_done`."""
        # The clone is made in training's own order, so that no update can overtake the transfer.
        source = tensor.detach().clone(memory_format=torch.contiguous_format)
        self._stream.wait_stream(torch.cuda.current_stream(source.device))
        with torch.cuda.stream(self._stream):
            target = torch.empty(source.shape, dtype=source.dtype, pin_memory=True)
            target.copy_(source, non_blocking=True)
            self._done.record(self._stream)
        source.record_stream(self._stream)
        return target

    def is_done(self) -> bool:
        return bool(self._done.query())

    def wait(self) -> None:
        self._done.synchronize()


_STREAMS: dict[torch.device, torch.cuda.Stream] = {}


def _side_stream(device: torch.device) -> torch.cuda.Stream:
    if device not in _STREAMS:
        _STREAMS[device] = torch.cuda.Stream(device)
    return _STREAMS[device]
