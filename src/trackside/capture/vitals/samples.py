"""Tells the samples of a training apart, by a checksum of each: which of them come again, and which
are in training and in evaluation.

Only checksums are kept. Inputs on the CPU are all looked at, up to a number of steps, so that what
is known does not depend on the machine's speed; others in the steps that vitals are taken of.
"""

import math
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trackside.capture.model.values import readable
from trackside.capture.vitals.measures import fold_bits
from trackside.capture.vitals.pack import Figures, Pack

_MOST_STEPS = 512
"""Of training, and of evaluation, whose samples are looked at."""
_MOST_SAMPLES = 1 << 16
"""That are looked at, each time they come: about 25 ms in all."""
_MOST_OF_SAMPLE = 32
"""Values that are read, evenly spread over a sample."""
_FEWEST_VALUES = 4
"""Of a sample: samples of fewer may well be equal, as the points of a grid."""
_DIGIT = 9
"""Samples of whole numbers up to this, such as one-hot rows and boards, may be equal by chance."""
_HALF_BITS = 20
"""Of a checksum, which comes from another device as two numbers of float32."""

Sums = list[Hashable]


class Samples:
    def __init__(self) -> None:
        self._kept: dict[bool, set[Hashable]] = {True: set(), False: set()}
        """By whether they were trained on, or evaluated."""
        self._num_steps = {True: 0, False: 0}
        self._num_samples = {True: 0, False: 0}

    def see(self, batch: Tensor, *, is_trained: bool) -> Figures:
        """Of the model's first input, in every step."""
        self._num_steps[is_trained] += 1
        rows = None if self._is_full(is_trained) else _rows(batch)
        if rows is None or rows.device.type != "cpu":
            return {}
        values = rows.float().contiguous().numpy()
        if not ((values != np.rint(values)).any() or np.abs(values).max() > _DIGIT):
            return {}
        size = values.itemsize * values.shape[1]
        return self._see(is_trained, list(map(hash, values.view(f"V{size}").ravel().tolist())))

    def measure(self, pack: Pack, batch: Tensor, *, is_trained: bool) -> None:
        """The same of an input on another device, in a sampled step."""
        rows = None if self._is_full(is_trained) else _rows(batch)
        if rows is None or rows.device.type == "cpu":
            return
        folded = fold_bits(rows)
        mask = (1 << _HALF_BITS) - 1
        is_varied = ((rows != rows.round()) | (rows.abs() > _DIGIT)).any()
        parts = [folded & mask, folded >> _HALF_BITS & mask, is_varied.reshape(1)]
        judge = partial(_joined, partial(self._see, is_trained))
        pack.add(torch.cat([part.float() for part in parts]), judge)

    def _is_full(self, is_trained: bool) -> bool:
        is_late = self._num_steps[is_trained] > _MOST_STEPS
        return is_late or self._num_samples[is_trained] > _MOST_SAMPLES

    def _see(self, is_trained: bool, found: Sums) -> Figures:
        self._num_samples[is_trained] += len(found)
        new = set(found) - self._kept[is_trained]
        self._kept[is_trained] |= new
        if is_trained:
            return {"input/new_share": len(new) / len(found)}
        # Only at its first evaluation: an agent is trained on what it has met.
        return {"input/trained_share": len(new & self._kept[True]) / len(new)} if new else {}


def _rows(batch: Tensor) -> Tensor | None:
    """Some values of each sample; None where the first axis is not that of samples that may be
    compared."""
    given = readable(batch.detach())
    if type(given) is not Tensor or given.dim() < 2 or not 0 < len(given) <= _MOST_SAMPLES:
        return None
    if not given.numel():
        return None
    rows = given.reshape(given.shape[0], -1)
    width = rows.shape[1]
    return rows[:, :: math.ceil(width / _MOST_OF_SAMPLE)] if width >= _FEWEST_VALUES else None


def _joined(see: Callable[[Sums], Figures], numbers: Any) -> Figures:
    if not numbers[-1]:
        return {}
    low, high = numbers[:-1].reshape(2, -1).astype("int64").tolist()
    found: Sums = [first | second << _HALF_BITS for first, second in zip(low, high, strict=True)]
    return see(found) if found else {}
