"""Reductions of many tensors at once: one row per tensor, one column per reduction.

The same definitions as `numpy_reductions.py`: `std` and `variance` are unbiased (NaN for a single
element), norms are of all elements as a vector, the median is the lower middle one.
"""

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trackside.capture.copying import compiled_reductions
from trackside.capture.copying.compiled_reductions import COLUMNS, fits, reduce_arrays

_SMALL = 4096
"""Elements up to which tensors are joined and reduced in one pass: calls cost more than bytes."""
_CHUNK = 65_536
"""Elements taken at a time where a temporary is needed, so that it stays in the cache."""
_CANCELLATION = 0.05
"""Below this share of the sum of squares, the spread around the mean is computed directly."""

Statistics = dict[str, Any]
"""Statistic to its value per tensor: floats or numpy on the host, torch on a device."""

_NEEDS = {
    "mean": "sum",
    "std": "spread",
    "variance": "spread",
    "l1": "abs_sum",
    "abs_mean": "abs_sum",
    "abs_std": "abs_spread",
    "abs_variance": "abs_spread",
    "abs_l1": "abs_sum",
    "abs_l2": "l2",
}
"""Column to the statistic it is made of, where that has another name. "spread" is the sum of
squares around the mean, "abs_spread" that of the absolute values."""


def reduce_on_host(
    tensors: Sequence[Tensor],
    columns: Sequence[str],
    library: ctypes.CDLL | None = compiled_reductions.library,
) -> np.ndarray[Any, Any]:
    """float64 [tensors, columns] for dense CPU tensors, none of them empty."""
    with torch.no_grad():
        if library is None or not set(columns) <= set(COLUMNS):
            return _by_torch(tensors, columns)
        compiled = [row for row, tensor in enumerate(tensors) if fits(tensor)]
        if len(compiled) == len(tensors):
            return reduce_arrays(library, tensors, columns)
        matrix = np.empty((len(tensors), len(columns)))
        others = [row for row, tensor in enumerate(tensors) if not fits(tensor)]
        matrix[others] = _by_torch([tensors[row] for row in others], columns)
        matrix[compiled] = reduce_arrays(library, [tensors[row] for row in compiled], columns)
        return matrix


def reduce_on_device(tensors: Sequence[Tensor], columns: Sequence[str]) -> Tensor:
    """The same on an accelerator without waiting for it: float32, one tensor to transfer."""
    needed = {_NEEDS.get(column, column) for column in columns}
    with torch.no_grad():
        rows: list[Tensor] = []
        for tensor in tensors:
            statistics = _on_device(_widened(tensor).reshape(-1), needed)
            rows.extend(_column(name, statistics, tensor.numel()).float() for name in columns)
        return torch.stack(rows).reshape(len(tensors), len(columns))


def _by_torch(tensors: Sequence[Tensor], columns: Sequence[str]) -> np.ndarray[Any, Any]:
    needed = {_NEEDS.get(column, column) for column in columns}
    matrix = np.empty((len(tensors), len(columns)))
    small: list[int] = []
    with np.errstate(all="ignore"):
        for row, tensor in enumerate(tensors):
            count = tensor.numel()
            if count <= _SMALL:
                small.append(row)
                continue
            statistics = _of_large(_widened(tensor).reshape(-1), needed)
            matrix[row] = [_column(name, statistics, count) for name in columns]
        if small:
            joined = [tensors[row] for row in small]
            counts = np.array([tensor.numel() for tensor in joined])
            statistics = _of_small(joined, counts, needed)
            matrix[small] = np.stack([_column(n, statistics, counts) for n in columns], axis=1)
    return matrix


def _column(name: str, statistics: Statistics, count: Any) -> Any:
    """Arithmetic that floats, numpy and torch share."""
    value = statistics[_NEEDS.get(name, name)]
    match name:
        case "mean" | "abs_mean":
            return value / count
        case "variance" | "abs_variance":
            return _variance(value, count)
        case "std" | "abs_std":
            return _variance(value, count) ** 0.5
    return value


def _variance(spread: Any, count: Any) -> Any:
    if isinstance(count, int):
        return spread / (count - 1) if count > 1 else spread * math.nan
    return spread / np.where(count > 1, count - 1, np.nan)


def _widened(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    if tensor.dtype in (torch.float32, torch.float64):
        return tensor
    return tensor.float() if tensor.dtype.is_floating_point else tensor.double()


def _of_small(tensors: list[Tensor], counts: Any, needed: set[str]) -> Statistics:
    """All of them end to end, reduced segment by segment in float64."""
    flat = torch.cat([_widened(t).reshape(-1) for t in tensors]).double().numpy()
    ends = np.cumsum(counts)
    starts = ends - counts
    found: Statistics = {}
    for prefix, values in (("", flat), ("abs_", np.abs(flat))):
        if not any(name.startswith("abs_") == bool(prefix) for name in needed):
            continue
        found[f"{prefix}min"] = np.minimum.reduceat(values, starts)
        found[f"{prefix}max"] = np.maximum.reduceat(values, starts)
        found[f"{prefix}sum"] = total = np.add.reduceat(values, starts)
        if f"{prefix}spread" in needed:
            centred = values - np.repeat(total / counts, counts)
            found[f"{prefix}spread"] = np.add.reduceat(centred * centred, starts)
        if f"{prefix}prod" in needed:
            found[f"{prefix}prod"] = np.multiply.reduceat(values, starts)
        if f"{prefix}median" in needed:
            pieces = np.split(values, ends[:-1])
            found[f"{prefix}median"] = np.array([_median(piece) for piece in pieces])
    if "l2" in needed:
        found["l2"] = np.sqrt(np.add.reduceat(flat * flat, starts))
    return found


def _median(values: Any) -> float:
    return torch.from_numpy(values).median().item()


def _of_large(flat: Tensor, needed: set[str]) -> Statistics:
    """As few passes over memory as the statistics allow."""
    found: Statistics = {}
    if needed & {"min", "max", "abs_max"}:
        low, high = (bound.item() for bound in torch.aminmax(flat))
        found.update(min=low, max=high, abs_max=max(abs(low), abs(high)))
    if needed & {"sum", "spread"}:
        found["sum"] = flat.sum().item()
    if needed & {"abs_sum", "abs_spread", "abs_min"}:
        found.update(_absolute(flat))
    if needed & {"l2", "spread", "abs_spread"}:
        squares = torch.dot(flat, flat).item()
        found["l2"] = math.sqrt(squares)
        if not 1e-30 < squares < math.inf:  # the squares overflow float32
            found["l2"] = torch.linalg.vector_norm(flat, dtype=torch.float64).item()
            squares = found["l2"] ** 2
        for prefix in ("", "abs_"):
            if f"{prefix}spread" in needed:
                found[f"{prefix}spread"] = _spread(flat, found[f"{prefix}sum"], squares, prefix)
    for name in needed & {"prod", "abs_prod"}:
        product = flat.prod(dtype=torch.float64).item()
        found[name] = abs(product) if name == "abs_prod" else product
    for name in needed & {"median", "abs_median"}:
        values = flat.abs() if name == "abs_median" else flat
        found[name] = values.median().item()
    return found


def _absolute(flat: Tensor) -> Statistics:
    total, low = 0.0, math.inf
    for chunk in flat.split(_CHUNK):
        values = chunk.abs()
        total += values.sum().item()
        least = values.min().item()
        low = least if least < low or math.isnan(least) else low
    return {"abs_sum": total, "abs_min": low}


def _spread(flat: Tensor, total: float, squares: float, prefix: str) -> float:
    mean = total / flat.numel()
    around = squares - total * mean
    if around > _CANCELLATION * squares and squares < math.inf:
        return around
    spread = 0.0
    for chunk in flat.split(_CHUNK):
        centred = (chunk.abs() if prefix else chunk).double() - mean
        spread += torch.dot(centred, centred).item()
    return spread


def _on_device(flat: Tensor, needed: set[str]) -> Statistics:
    """Whole-tensor kernels, which an accelerator runs at the speed of its memory."""
    found: Statistics = {}
    for prefix, values in (("", flat), ("abs_", flat.abs())):
        for name in needed:
            if name != "l2" and name.startswith("abs_") == bool(prefix):
                found[name] = _statistic(name.removeprefix("abs_"), values)
    if "l2" in needed:
        found["l2"] = torch.linalg.vector_norm(flat)
    return found


def _statistic(name: str, values: Tensor) -> Tensor:
    if name == "spread":
        return values.var(correction=0) * values.numel()
    result: Tensor = getattr(values, name)()
    return result
