"""Numbers on their way from a device to the host, without waiting for them."""

from typing import Any

import torch
from torch import Tensor

from trackside.capture.copying.device_copy import DeviceCopies


class LateNumbers:
    """A small tensor, owned by this class, whose values are read later."""

    def __init__(self, numbers: Tensor) -> None:
        flat = numbers.detach().reshape(-1)
        self._copies = DeviceCopies(flat.device) if flat.device.type == "cuda" else None
        self._numbers = flat.to("cpu") if self._copies is None else self._copies.copy(flat)
        if self._numbers is numbers or self._numbers.data_ptr() == numbers.data_ptr():
            self._numbers = self._numbers.clone()

    def is_done(self) -> bool:
        return self._copies is None or self._copies.is_done()

    def read(self) -> list[Any]:
        """Waits for them, if need be."""
        if self._copies is not None:
            self._copies.wait()
        return list(self._numbers.tolist())


def total_norm(tensors: list[Tensor]) -> Tensor | None:
    """The norm of all of them together; None if they are on several devices."""
    if not tensors or len({tensor.device for tensor in tensors}) > 1:
        return None
    norms = torch._foreach_norm(tensors)
    together: Tensor = torch.linalg.vector_norm(torch.stack([norm.float() for norm in norms]))
    return together
