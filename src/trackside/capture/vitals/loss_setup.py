"""How a loss is set up: its weights beside the classes it sees, the class it ignores, how it
smooths labels, and what its rows of scores are compared with.
"""

import numpy as np
import torch
from torch import Tensor

from trackside.capture.vitals.losses import BINARY, OVER_CLASSES, LossCall
from trackside.capture.vitals.measures import every_nth
from trackside.capture.vitals.pack import Figures, Finish, Pack

MOST_WEIGHTS = 256
"""Classes whose weights are kept."""
_FEWEST_ROWS, _MOST_ROWS = 4, 512
"""Of likenesses: fewer may be symmetric by chance, more cost too much."""
_SYMMETRIC = 1e-4
"""Of the largest score: a difference from its mirror that rounding explains."""


def measure_setup(pack: Pack, call: LossCall, batch_size: int) -> None:
    """Of a loss over classes."""
    if call.function not in OVER_CLASSES:
        return
    if call.smoothing > 0 and call.target.is_floating_point() and call.target.numel():
        pack.add_named(["target/soft_min"], [call.target.min()])
    if not call.target.is_floating_point():
        _measure_ignored(pack, call, batch_size)
        _measure_likeness(pack, call.prediction, call.target)


def _measure_ignored(pack: Pack, call: LossCall, batch_size: int) -> None:
    """How many rows hold the ignored class where padding cannot be: between other targets, or as
    the only target of a sample."""
    classes = call.prediction.shape[min(1, call.prediction.dim() - 1)]
    if not 0 <= call.ignored < classes:
        return
    rows = call.target
    if rows.dim() == 1 and call.flattened is not None and len(call.flattened[1]) == 2:
        rows = rows.reshape(call.flattened[1])
    if rows.dim() == 1 and len(rows) == batch_size and call.flattened is None:
        inside = rows == call.ignored
    elif rows.dim() == 2 and rows.shape[0] == batch_size:
        used = (rows != call.ignored).int()
        inside = ((used == 0) & (used.cumsum(1) > 0) & (used.flip(1).cumsum(1).flip(1) > 0)).any(1)
    else:
        return
    pack.add_named(["labels/ignored_inside"], [inside.float().mean()])


def _measure_likeness(pack: Pack, scores: Tensor, target: Tensor) -> None:
    """Of as many scores as samples: whether they are those of the samples with one another."""
    if scores.dim() != 2 or scores.shape[0] != scores.shape[1] or target.dim() != 1:
        return
    size = scores.shape[0]
    if not _FEWEST_ROWS <= size <= _MOST_ROWS:
        return
    scores = scores.float().nan_to_num(neginf=-1e30)
    places = torch.arange(size, device=scores.device)
    diagonal = scores.diagonal()
    is_mirrored = (scores - scores.T).abs().max() <= _SYMMETRIC * scores.abs().max()
    pack.add_named(
        ("likeness/is_mirrored", "likeness/on_diagonal", "likeness/is_own_highest"),
        (
            is_mirrored.float(),
            (target == places).float().mean(),
            (diagonal >= scores.max(1).values).float().mean(),
        ),
    )


def weights_of(call: LossCall) -> list[float]:
    """Of each class; empty where there are none, or too many."""
    if call.weights is None or not 0 < call.weights.numel() <= MOST_WEIGHTS:
        return []
    if call.function in BINARY:
        return [1.0, float(call.weights)] if call.weights.numel() == 1 else []
    return [float(each) for each in call.weights.reshape(-1).tolist()]


def count_classes(pack: Pack, call: LossCall, counts: list[int]) -> None:
    """Adds the targets of this batch to `counts`, one for each class, once they are known."""
    if not call.target.is_floating_point() or call.function in BINARY:
        labels = every_nth(call.target.reshape(-1), _MOST_ROWS * _MOST_ROWS)
        pack.add(labels.clone(), _counting(counts, call))


def _counting(counts: list[int], call: LossCall) -> Finish:
    ignored = call.ignored if call.function in OVER_CLASSES else None

    def finish(values: "np.ndarray[tuple[int], np.dtype[np.float32]]") -> Figures:
        known = values[values != ignored] if ignored is not None else values
        whole = known[(known == np.round(known)) & (known >= 0) & (known < len(counts))]
        for number, count in enumerate(np.bincount(whole.astype(int), minlength=len(counts))):
            counts[number] += int(count)
        return {}

    return finish
