"""A trial's content at a glance: a row for each tensor, for the terminal and the page."""

import math
from typing import TYPE_CHECKING

from trackside.capture.exceptions import SMDebugError
from trackside.quick_dataclass import dataclass

if TYPE_CHECKING:
    from trackside.capture.reading.tensor import Tensor
    from trackside.capture.trial import Trial

FIGURES = ("min", "max", "mean", "std", "l2")


@dataclass(frozen=True, slots=True)
class TensorRow:
    name: str
    shape: tuple[int, ...] | None
    """None when neither value nor shape was saved."""
    dtype: str | None
    """None when no value was saved."""
    num_steps: int
    step: int
    """Global step of the figures, the shape and the type."""
    min: float | None
    max: float | None
    mean: float | None
    std: float | None
    """None also for a single element."""
    l2: float | None


def tensor_table(
    trial: "Trial", collection: str | None = None, step: int | None = None
) -> list[TensorRow]:
    """Every tensor, those of a collection, or those of a global step; figures of that step, else
    of the last one saved."""
    rows = []
    for name in trial.tensor_names(step=step, collection=collection):
        tensor = trial.tensor(name)
        steps = tensor.steps(show_incomplete_steps=True)
        if steps:
            rows.append(_row(tensor, len(steps), steps[-1] if step is None else step))
    return rows


def _row(tensor: "Tensor", num_steps: int, step: int) -> TensorRow:
    try:
        shape = tensor.shape(step)
    except SMDebugError:
        shape = None
    try:
        dtype = tensor.dtype(step)
    except SMDebugError:
        dtype = None
    figures = {name: _figure(tensor, step, name) for name in FIGURES}
    mean, std = figures["mean"], figures["std"]
    if mean is not None and std is not None and math.isfinite(mean) and math.isnan(std):
        figures["std"] = None  # undefined for one element; other NaNs are in the mean too
    return TensorRow(tensor.name, shape, dtype, num_steps, step, **figures)


def _figure(tensor: "Tensor", step: int, reduction: str) -> float | None:
    try:
        return float(tensor.reduction_value(step, reduction))
    except SMDebugError:
        return None
