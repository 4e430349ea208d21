"""The least that capture can cost: the copies, the writes and the reductions by themselves."""

import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn


class CopyAndWrite:
    """One copy of so many bytes into memory used before, and one sequential write of them."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._source = np.random.default_rng(0).integers(0, 256, size_bytes, np.uint8)
        self._copy = self._source.copy()
        self._number = 0

    def step(self) -> None:
        self._copy[:] = self._source
        path = self._folder / str(self._number)
        self._number += 1
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
        left = memoryview(self._copy)
        while left:
            left = left[os.write(descriptor, left) :]
        os.close(descriptor)

    def clear(self) -> None:
        for path in self._folder.iterdir():
            path.unlink()


class Reduce:
    """The bounds, the sum and the sum of squares of every parameter, twice, once for its gradient.

    From these come minimum, maximum, mean, deviation and norm; with nothing kept.
    """

    def __init__(self, model: nn.Module) -> None:
        self._tensors: list[Tensor] = [p.detach().reshape(-1) for p in model.parameters()] * 2

    def step(self) -> None:
        with torch.no_grad():
            for tensor in self._tensors:
                torch.aminmax(tensor)
                tensor.sum()
                torch.dot(tensor, tensor)

    def clear(self) -> None:
        """Nothing is kept."""
