"""The arithmetic of vitals: a few operations on the device each, the rest in numpy on the host.

Large tensors are sampled, evenly spread; `_MOST_ELEMENTS` and the like set how much.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from trackside.capture.vitals.pack import Figures, Pack

SATURATED = 0.01
"""Of the range of a sigmoid or tanh: closer than this to either end counts as saturated."""
_MOST_ELEMENTS = 1 << 20
_MOST_ROWS = 1 << 14
_MOST_OF_TARGET = 1 << 10
_MOST_OF_ACTIVATION = 1 << 14
_FEWEST_SAMPLES = 8
_NEAR = 1e-3
"""Of the variance: a column with less left says nearly what the target is."""
_FEWEST_IN_LINE = 16
"""Samples: through fewer, a straight line may pass by chance."""
_FEWEST_ROWS = 64
"""Of an activation [N, units], which has nothing but its samples."""
_SAMPLES_PER_CLASS = 5
"""In a batch, before classes are compared with each other."""
_MANY_ZEROS = 0.05
"""Share of exact zeros from which an output without negative values counts as that of a ReLU."""
_MOST_OF_PARAMETER = 1 << 15
_HASHED = 4096
_HASH_BITS = (1 << 24) - 1
"""What a float32 holds exactly."""
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

Activation = Literal["relu", "sigmoid", "tanh", "linear", "unknown"]


def measure_input(pack: Pack, values: Tensor) -> None:
    spread = every_nth(values.reshape(-1), _MOST_ELEMENTS).float()
    low, high = torch.aminmax(spread)
    mean = spread.mean()
    # Two passes: `torch.std` goes through the elements one by one, forty times slower.
    std = (spread - mean).norm() / math.sqrt(max(1, spread.numel() - 1))
    names = ("input/min", "input/max", "input/mean", "input/std")
    pack.add_named(names, (low, high, mean, std))


def measure_others(pack: Pack, inputs: Sequence[Tensor]) -> None:
    """Whether any of some further inputs has different values."""
    ends = [torch.aminmax(every_nth(each.reshape(-1), _MOST_ELEMENTS).float()) for each in inputs]
    vary = torch.stack([(low != high).float() for low, high in ends])
    pack.add_named(["input/others_vary"], [vary.max()])


def measure_leak(pack: Pack, values: Tensor, target: Tensor) -> None:
    """Whether one of several input values is the very target, in each sample of the batch."""
    size = values.shape[0] if values.dim() > 1 else 0
    if target.numel() != size or size < _FEWEST_SAMPLES or not size < values.numel() <= _MOST_ROWS:
        return
    rows, wanted = values.reshape(size, -1), target.reshape(-1, 1)
    pack.add_named(["input/holds_target"], [(rows == wanted).all(0).any().float()])
    if size >= _FEWEST_IN_LINE and values.dim() == 2:
        pack.add_named(["input/off_line"], [_off_line(rows.double(), wanted.double())])


def _off_line(columns: Tensor, target: Tensor) -> Tensor:
    """How far the target is from a linear function of one column, the nearest: the part of its
    variance that is left. In float64, where rounding of float32 leaves 1e-13. As far as can be if
    half of the columns are near, as the windows of a series that rises evenly."""
    columns, target = columns - columns.mean(0), target - target.mean()
    both = (columns * target).sum(0).square()
    scale = columns.square().sum(0) * target.square().sum()
    left = (1 - both / scale).nan_to_num(1.0).clamp(min=0.0)
    return torch.where(left.median() < _NEAR, 1.0, left.min())


def measure_fingerprint(pack: Pack, batch: Tensor) -> None:
    """The bits, multiplied by odd numbers and summed: exact, so equal wherever it is computed."""
    pack.add_named(["input/fingerprint"], [_fingerprint(batch)])


def fold_bits(rows: Tensor) -> Tensor:
    """A number for each row, of int64. Real numbers only."""
    bits = rows.contiguous().view(_BITS[rows.element_size()]).to(torch.int64)
    weights = torch.arange(bits.shape[-1], device=bits.device) * 2654435761 + 40503 | 1
    folded = (bits * weights).sum(-1)
    return folded ^ folded >> 29


def measure_classes(
    pack: Pack, scores: Tensor, target: Tensor, *, ignored: int, log_probabilities: bool
) -> None:
    """Of a loss over classes: scores [N, C, ...] against class numbers or probabilities."""
    axis = 1 if scores.dim() > 1 else 0
    rows = scores.movedim(axis, -1).reshape(-1, scores.shape[axis])
    if target.is_floating_point():
        target = target.movedim(axis, -1).reshape(-1, target.shape[axis]).argmax(1)
    most = max(1, min(_MOST_ROWS, _MOST_ELEMENTS // rows.shape[1]))
    rows, labels = every_nth(rows, most), every_nth(target.reshape(-1), most)
    low, high = torch.aminmax(rows)
    sums = (rows.float().exp() if log_probabilities else rows.float()).sum(1)
    names = ("loss_input/min", "loss_input/max", "loss_input/row_sum_error")
    pack.add_named(names, (low, high, (sums - 1).abs().mean()))
    pairs = torch.stack([rows.argmax(1), labels])
    pack.add(pairs, lambda values: _judge_classes(values.reshape(2, -1), ignored))


def measure_binary(pack: Pack, scores: Tensor, target: Tensor, *, threshold: float) -> None:
    """Of a binary loss; with one score a sample, or a pixel, there are labels and predictions."""
    spread, labels = (every_nth(each.reshape(-1), _MOST_ELEMENTS) for each in (scores, target))
    pack.add_named(("loss_input/min", "loss_input/max"), torch.aminmax(spread))
    pack.add_named(("target/min", "target/max"), torch.aminmax(labels))
    is_picture = scores.dim() > 3 and scores.shape == target.shape
    if is_picture or scores.numel() == scores.shape[0] == labels.numel():
        pairs = torch.stack([(spread > threshold).float(), labels.float()])
        pack.add(pairs, lambda values: _judge_binary(values.reshape(2, -1)))
    if scores.numel() > scores.shape[0] and scores.shape == target.shape:
        measure_spread(pack, scores.sigmoid() if threshold == 0 else scores, target)


def measure_amounts(
    pack: Pack, prediction: Tensor, target: Tensor, loss: Tensor | None = None
) -> None:
    """Of a loss that compares amounts: the range of either, the kind of targets, and its value,
    which may be only a part of the objective.
    """
    if loss is not None:
        pack.add_named(("loss_value",), (loss,))
    for name, values in (("loss_input", prediction), ("target", target)):
        spread = every_nth(values.reshape(-1), _MOST_ELEMENTS)
        if spread.numel():
            pack.add_named((f"{name}/min", f"{name}/max"), torch.aminmax(spread))
    if target.numel():
        pack.add_named(["target/fingerprint"], [_fingerprint(target)])
        rows = target.reshape(target.shape[0], -1) if target.dim() else target.reshape(1, 1)
        width = rows.shape[1]
        few = every_nth(rows, max(1, _MOST_OF_TARGET // width)).float()
        pack.add(few, lambda values: _judge_amounts(values.reshape(-1, width)))
    measure_spread(pack, prediction, target)


def measure_spread(pack: Pack, prediction: Tensor, target: Tensor) -> None:
    """By how much the samples of a batch differ."""
    for name, values in (("loss_input", prediction), ("target", target)):
        if values.dim() and values.shape[0] > 1 and values.numel():
            few = _some_of(values.reshape(values.shape[0], -1)).float()
            spread = (few - few.mean(0)).square().mean().sqrt()
            pack.add_named([f"{name}/sample_std"], [spread])


def measure_log_probabilities(pack: Pack, values: Tensor) -> None:
    """How far the exponentials of what should be logarithms of probabilities miss a sum of 1."""
    few = every_nth(values, _FEWEST_ROWS).float().exp() if values.dim() else values
    axes = range(1, few.dim()) if few.dim() > 1 else range(few.dim())
    errors = [(few.sum(axis) - 1).abs().mean() for axis in axes]  # any may be that of classes
    if errors:
        pack.add_named(["log_probabilities/row_sum_error"], [torch.stack(errors).min()])


def sample_activation(output: Tensor, units_axis: int) -> Tensor:
    """A part of it, in float32; a copy. Whole samples first: strides are slow to read."""
    part = output.detach()[_part_of_activation(tuple(output.shape), units_axis)]
    copy = torch.empty(part.shape, dtype=torch.float32, device=part.device)
    return copy.copy_(part)


@lru_cache(maxsize=1024)
def _part_of_activation(shape: tuple[int, ...], units_axis: int) -> tuple[slice, ...]:
    """Which of them; the same modules are asked at every step that is sampled."""
    left = math.prod(shape)
    chosen = [slice(None)] * len(shape)
    fewest = _FEWEST_ROWS if len(shape) == 2 else _FEWEST_SAMPLES
    for axis in [axis for axis in range(len(shape)) if axis != units_axis]:
        size = shape[axis]
        wanted = max(fewest, size * _MOST_OF_ACTIVATION // left)
        if wanted < size:
            every = math.ceil(size / wanted)
            chosen[axis] = slice(None, None, every)
            left = left // size * -(-size // every)
        fewest = 1
    return tuple(chosen)


def judge_activation(values: Any, units_axis: int, kind: Activation) -> Figures:
    """Figures of one module's output; none where they mean nothing for this kind of module.

    `values` is as `sample_activation` made it, and is used up.
    """
    figures: Figures = {}
    if kind in ("sigmoid", "tanh"):
        low, high = (-1.0, 1.0) if kind == "tanh" else (0.0, 1.0)
        margin = SATURATED * (high - low)
        near = np.count_nonzero(values < low + margin) + np.count_nonzero(values > high - margin)
        figures["saturated_share"] = near / values.size
    elif kind != "linear":
        zero_share = 1.0 - np.count_nonzero(values) / values.size
        if kind == "unknown" and (zero_share < _MANY_ZEROS or values.min() < 0):
            return {}
        others = tuple(axis for axis in range(values.ndim) if axis != units_axis)
        alive = np.count_nonzero(values.max(axis=others) > 0)
        figures["zero_share"] = zero_share
        figures["dead_share"] = 1.0 - alive / values.shape[units_axis]
    with np.errstate(over="ignore", invalid="ignore"):  # infinite is what a diverging one is
        values -= values.mean()
        flat = values.reshape(-1)
        figures["std"] = math.sqrt(float(flat.dot(flat)) / max(1, values.size - 1))
    return figures


def _fingerprint(values: Tensor) -> Tensor:
    spread = every_nth(values.reshape(-1), _HASHED).contiguous()
    if spread.is_complex():
        spread = torch.view_as_real(spread).reshape(-1)
    return fold_bits(spread) & _HASH_BITS


def norms_of(tensors: Sequence[Tensor]) -> Tensor:
    """The L2 norm of each, in float32."""
    return torch.stack([n.float() for n in torch._foreach_norm([t.detach() for t in tensors])])


def sample_parameter(parameter: Tensor) -> Tensor:
    """Evenly spread elements; all of them where they are few. May share memory with it."""
    return every_nth(parameter.detach().reshape(-1), _MOST_OF_PARAMETER)


def every_nth(tensor: Tensor, most: int) -> Tensor:
    """At most `most` along its first axis."""
    step = math.ceil(tensor.shape[0] / most)
    return tensor[::step] if step > 1 else tensor


def _some_of(rows: Tensor) -> Tensor:
    """Samples, and of each sample some values."""
    rows = every_nth(rows, _FEWEST_ROWS)
    return rows[:, :: math.ceil(rows.shape[1] / _MOST_OF_TARGET)]


def _judge_classes(pairs: Any, ignored: int) -> Figures:
    predicted, labels = pairs[:, pairs[1] != ignored].astype(np.int64)
    if not labels.size:
        return {}
    known, seen = np.unique(labels, return_counts=True)
    _, chosen = np.unique(predicted, return_counts=True)
    return {
        "labels/count": float(labels.size),
        "labels/num_classes_seen": float(seen.size),
        "labels/largest_share": seen.max() / labels.size,
        "labels/min": float(labels.min()),
        "labels/max": float(labels.max()),
        "labels/most_common": float(known[seen.argmax()]),
        "predictions/largest_share": chosen.max() / labels.size,
        "accuracy": np.count_nonzero(predicted == labels) / labels.size,
    } | _judge_names(predicted, labels)


def _judge_names(predicted: Any, labels: Any) -> Figures:
    """The accuracy if each predicted class were called after the label that it meets most often.
    None where classes are many for the batch: then that is high by chance."""
    most = int(max(predicted.max(), labels.max())) + 1
    if min(predicted.min(), labels.min()) < 0 or labels.size < _SAMPLES_PER_CLASS * most:
        return {}
    met = np.zeros((most, most), np.int64)
    np.add.at(met, (predicted, labels), 1)
    return {"renamed_accuracy": met.max(axis=1).sum() / labels.size}


def _judge_binary(pairs: Any) -> Figures:
    """None if targets are between the two, as in a heat map."""
    is_sure = np.mean((pairs[1] == 0) | (pairs[1] == 1)) > 0.99
    return _judge_classes(pairs > 0.5, ignored=-1) if is_sure else {}


def _judge_amounts(values: Any) -> Figures:
    distinct, counts = np.unique(values, return_counts=True)
    figures = {
        "target/mean": float(values.mean()),
        "target/std": float(values.std()),
        "target/num_values": float(distinct.size),
        "target/largest_share": counts.max() / values.size,
        "target/whole_share": float(np.mean(values == np.round(values))),
    }
    if values.shape[1] > 1:
        figures["target/row_sum_error"] = float(np.abs(values.sum(axis=1) - 1).mean())
    return figures
