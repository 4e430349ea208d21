"""Transfers a step's figures from each device to the host in one copy."""

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trackside.capture.copying.device_copy import DeviceCopies

Figures = dict[str, float]
Finish = Callable[[Any], Figures]
"""Converts the transferred numbers, a flat float32 numpy array, to named figures."""


class Pack:
    """Filled while a step runs, sealed at its end, read when it is transferred."""

    def __init__(self) -> None:
        self._arrived: list[tuple[Any, Finish]] = []
        self._waiting: dict[torch.device, list[tuple[Tensor, Finish]]] = {}
        self._sent: list[tuple[Tensor, DeviceCopies | None, list[tuple[int, Finish]]]] = []

    def add(self, numbers: Tensor, finish: Finish) -> None:
        """`numbers` is owned by the pack: it must not change any more."""
        flat = numbers.detach().reshape(-1).float()
        if flat.device.type == "cpu":
            self._arrived.append((flat.numpy(), finish))
        else:
            self._waiting.setdefault(flat.device, []).append((flat, finish))

    def add_named(self, names: Iterable[str], numbers: Iterable[Tensor]) -> None:
        """Figures that are final, one number each."""
        wanted = tuple(names)
        stacked = torch.stack([number.detach().float() for number in numbers])
        self.add(stacked, lambda values: dict(zip(wanted, values.tolist(), strict=True)))

    def seal(self) -> None:
        for device, entries in self._waiting.items():
            joined = torch.cat([numbers for numbers, _ in entries])
            sizes = [(numbers.numel(), finish) for numbers, finish in entries]
            if device.type == "cuda":
                copies = DeviceCopies(device)
                self._sent.append((copies.copy(joined), copies, sizes))
            else:
                self._sent.append((joined.to("cpu"), None, sizes))
        self._waiting = {}

    def is_transferred(self) -> bool:
        return all(copies is None or copies.is_done() for _, copies, _ in self._sent)

    def wait(self) -> None:
        for _, copies, _ in self._sent:
            if copies is not None:
                copies.wait()

    def read(self) -> Figures:
        figures: Figures = {}
        for numbers, finish in self._arrived:
            figures |= finish(numbers)
        for joined, _, sizes in self._sent:
            values = joined.numpy()
            ends = np.cumsum([0, *(size for size, _ in sizes)]).tolist()
            for (start, end), (_, finish) in zip(pairwise(ends), sizes, strict=True):
                figures |= finish(values[start:end])
        return figures
