"""How the targets of a loss over classes relate to the tokens that a model was given.

A language model's targets are its tokens, shifted by one. How well it predicts the last position,
whose target is not among its tokens, shows whether it sees the targets of the others.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from trackside.capture.vitals.pack import Figures, Pack

_WHOLE = (torch.int64, torch.int32)
_MOST_TENSORS = 4
_MOST_TOKENS = 1 << 13
_NEARLY_ALL = 0.99
_LEFT_OUT = 2
"""Tokens of a text: one may be its end."""
_MOST_SCORES = 1 << 20
"""Of a batch: the best of more would take long to find."""


def tokens_in(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Those that may be sequences of tokens: [batch, time] or [time, batch]."""
    found = [t for t in tensors if t.dtype in _WHOLE and t.dim() == 2 and min(t.shape) > 1]
    return found[:_MOST_TENSORS]


def measure_sequence(
    pack: Pack,
    tokens: Sequence[Tensor],
    scores: Tensor,
    target: Tensor,
    *,
    ignored: int,
    is_inside: bool = False,
) -> None:
    """`is_inside` is whether the model itself computes the loss: it is given the targets, too."""
    if target.is_floating_point():
        return
    if _measure_shorter(pack, tokens, target, ignored=ignored, is_inside=is_inside):
        return
    alike = [t for t in tokens if t.numel() == target.numel() <= _MOST_TOKENS]
    alike = [t for t in alike if t.shape == alike[0].shape and scores.dim() > 1]
    if not alike:
        pack.add_named(["tokens/num_inputs"], [torch.tensor(float(len(tokens)))])
        return
    parts = [each.reshape(-1) for each in (target, *alike)]
    if scores.numel() <= _MOST_SCORES:
        parts.insert(1, scores.argmax(1).reshape(-1))
    shape, num_others = tuple(alike[0].shape), len(tokens) - len(alike)
    has_scores = len(parts) > 1 + len(alike)

    def judge(numbers: Any) -> Figures:
        values = numbers.reshape(-1, *shape)
        inputs = _without_masks(list(values[1 + has_scores :]))
        if is_inside and num_others + len(inputs) > 1:
            inputs = _without_labels(inputs, values[0])
        figures = {"tokens/num_inputs": float(num_others + len(inputs))}
        for given in inputs:
            predicted = values[1] if has_scores else None
            figures |= _compare(given, values[0], predicted, ignored)
        return figures

    pack.add(torch.stack(parts), judge)


def _measure_shorter(
    pack: Pack, tokens: Sequence[Tensor], target: Tensor, *, ignored: int, is_inside: bool
) -> bool:
    """Whether there are targets for all places but the last, as where a script compares
    scores[:, :-1] with tokens[:, 1:]."""
    count = target.numel()
    fitting = [t for t in tokens if t.shape[0] * (t.shape[1] - 1) == count < _MOST_TOKENS]
    fitting = [t for t in fitting if t.shape == fitting[0].shape]
    if not fitting or any(t.numel() == count for t in tokens):
        return False
    shape, num_others = tuple(fitting[0].shape), len(tokens) - len(fitting)
    wanted = functional.pad(target.reshape(shape[0], -1), (0, 1), value=ignored)

    def judge(numbers: Any) -> Figures:
        values = numbers.reshape(-1, *shape)
        inputs = _without_masks(list(values[1:]))
        if is_inside and num_others + len(inputs) > 1:
            labels = [n for n, each in enumerate(inputs) if _is_next(each, values[0], ignored)]
            inputs = [each for n, each in enumerate(inputs) if n not in labels[-1:]]
        figures = {"tokens/num_inputs": float(num_others + len(inputs))}
        for given in inputs:
            figures |= _compare(given, values[0], None, ignored)
        return figures

    pack.add(torch.stack([wanted.reshape(-1), *(t.reshape(-1) for t in fitting)]), judge)
    return True


def _is_next(labels: Any, target: Any, ignored: int) -> bool:
    """Whether targets are these labels, but for the first."""
    return bool(((labels[:, 1:] == target[:, :-1]) | (target[:, :-1] == ignored)).all())


def measure_padding(
    pack: Pack, tokens: Sequence[Tensor], mask: Tensor | None, num_targets: int
) -> None:
    """How much of each sequence is what most of them end with, and whether attention leaves that
    out. `mask` is True, or minus infinity, where it does."""
    for given in tokens[:1]:
        rows = given if given.shape[0] == num_targets else given.T
        if rows.shape[0] != num_targets or rows.numel() > _MOST_TOKENS:
            continue
        parts, shape = [rows.reshape(-1)], tuple(rows.shape)
        if mask is not None and mask.shape == (shape[0], shape[1] + 1):
            mask = mask[:, 1:]  # a token of the model's own stands in front
        if mask is not None and mask.shape == rows.shape:
            parts.append((mask if mask.dtype == torch.bool else mask < 0).reshape(-1).to(rows))
        pack.add(torch.stack(parts), partial(_judge_end, shape))


def _judge_end(shape: tuple[int, ...], numbers: Any) -> Figures:
    values = numbers.reshape(-1, *shape)
    rows = values[0]
    known, counts = np.unique(rows[:, -1], return_counts=True)
    last = known[counts.argmax()]
    differs = rows[:, ::-1] != last
    length = np.where(differs.any(axis=1), differs.argmax(axis=1), rows.shape[1])
    figures = {"tokens/last": float(last)}
    figures["tokens/end_share"] = float(length.mean() / rows.shape[1])
    if len(values) > 1 and (rows == last).any() and (rows != last).any():
        figures["tokens/end_masked"] = float((values[1] > 0)[rows == last].mean())
        figures["tokens/other_masked"] = float((values[1] > 0)[rows != last].mean())
    return figures


def _without_masks(inputs: list[Any]) -> list[Any]:
    """Those of only 0 and 1 are masks."""
    return [each for each in inputs if each.max() > 1 or each.min() < 0] or inputs


def _without_labels(inputs: list[Any], target: Any) -> list[Any]:
    """The last one that is the target itself was passed for computing the loss."""
    labels = [number for number, each in enumerate(inputs) if (each == target).all()]
    return inputs[: labels[-1]] + inputs[labels[-1] + 1 :] if labels else inputs


def _compare(tokens: Any, target: Any, predicted: Any, ignored: int) -> Figures:
    counts = target != ignored
    if not counts.any():
        return {}
    shifts = [_share(target[:, :-1] == tokens[:, 1:], counts[:, :-1])]
    shifts.append(_share(target[:-1] == tokens[1:], counts[:-1]))
    figures = {"tokens/same_share": _share(target == tokens, counts)}
    figures["tokens/shifted_share"] = shifted = max(shifts)
    figures["tokens/second_share"] = _share(target[:, :-2] == tokens[:, 2:], counts[:, :-2])
    if shifts[0] > _NEARLY_ALL and not counts.all():
        figures["tokens/heads_share"] = _heads(tokens, counts)
    if predicted is not None and shifted > _NEARLY_ALL:
        right = predicted == target
        if shifts[0] < shifted:
            right, counts = right.T, counts.T
        if counts[:, -1].any() and counts[:, :-1].any():
            figures["tokens/last_accuracy"] = _share(right[:, -1], counts[:, -1])
            figures["tokens/other_accuracy"] = _share(right[:, :-1], counts[:, :-1])
    return figures


def _heads(tokens: Any, counts: Any) -> float:
    """Share of the texts that are trained on from their start to somewhere, and not beyond."""
    differs = tokens[:, ::-1] != tokens[:, -1:]
    run = np.where(differs.any(axis=1), differs.argmax(axis=1), tokens.shape[1])
    lengths = tokens.shape[1] - np.where(run >= _LEFT_OUT, run, 0)  # without padding
    found = []
    for marks, length in zip(counts, lengths.tolist(), strict=True):
        places = np.flatnonzero(marks[: max(length - 1, 0)])
        is_head = len(places) > 0 and places[0] <= 1 and len(places) == places[-1] - places[0] + 1
        found.append(is_head and length - 2 - int(places[-1]) >= _LEFT_OUT)
    return float(np.mean(found))


def _share(holds: Any, counts: Any) -> float:
    return float(holds[counts].mean()) if counts.any() else 0.0
