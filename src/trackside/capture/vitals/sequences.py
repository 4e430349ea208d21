"""How the targets of a loss over classes relate to the tokens that a model was given.

A language model's targets are its tokens, one place further on. What it knows of the last place,
whose target is not among its tokens, tells whether it looks ahead at the others.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from trackside.capture.vitals.pack import Figures, Pack

_WHOLE = (torch.int64, torch.int32)
_MOST_TENSORS = 4
_MOST_TOKENS = 1 << 13
_MOST_SCORES = 1 << 20
"""Of a batch: the best of more would take long to find."""


def tokens_in(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Those that may be sequences of tokens: [batch, time] or [time, batch]."""
    found = [t for t in tensors if t.dtype in _WHOLE and t.dim() == 2 and min(t.shape) > 1]
    return found[:_MOST_TENSORS]


def measure_sequence(
    pack: Pack, tokens: Sequence[Tensor], scores: Tensor, target: Tensor, *, ignored: int
) -> None:
    if target.is_floating_point():
        return
    pack.add_named(["tokens/num_inputs"], [torch.tensor(float(len(tokens)))])
    for given in tokens:
        if given.numel() == target.numel() <= _MOST_TOKENS and scores.dim() > 1:
            shape = tuple(given.shape)
            parts = [given.reshape(-1), target.reshape(-1)]
            if scores.numel() <= _MOST_SCORES:
                parts.append(scores.argmax(1).reshape(-1))
            pack.add(torch.stack(parts), partial(_judge, shape, ignored))


def _judge(shape: tuple[int, ...], ignored: int, numbers: Any) -> Figures:
    values = numbers.reshape(-1, *shape)
    tokens, target = values[0], values[1]
    counts = target != ignored
    if not counts.any():
        return {}
    shifts = [_share(target[:, :-1] == tokens[:, 1:], counts[:, :-1])]
    shifts.append(_share(target[:-1] == tokens[1:], counts[:-1]))
    figures = {"tokens/same_share": _share(target == tokens, counts)}
    figures["tokens/shifted_share"] = shifted = max(shifts)
    if len(values) > 2 and shifted > 0.99:
        right = values[2] == target
        if shifts[0] < shifted:
            right, counts = right.T, counts.T
        if counts[:, -1].any() and counts[:, :-1].any():
            figures["tokens/last_accuracy"] = _share(right[:, -1], counts[:, -1])
            figures["tokens/other_accuracy"] = _share(right[:, :-1], counts[:, :-1])
    return figures


def _share(holds: Any, counts: Any) -> float:
    return float(holds[counts].mean()) if counts.any() else 0.0
