"""The compiled reductions of `reduce.c`, where the installation could build them; None elsewhere.

Loaded with ctypes, which lets other threads run meanwhile. `reductions.py` says when they are used.
"""

import ctypes
from array import array
from collections.abc import Sequence
from ctypes import c_int64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

LIBRARY = Path(__file__).with_name("reduce.so")
COLUMNS = tuple(
    f"{prefix}{name}"
    for prefix in ("", "abs_")
    for name in ("min", "max", "mean", "std", "variance", "sum", "l1", "l2")
)
"""Those that reduce.c knows, in its order."""


def load(path: Path = LIBRARY) -> ctypes.CDLL | None:
    """None when it was not built, or was built for another machine."""
    try:
        library = ctypes.CDLL(str(path))
    except OSError:
        return None
    library.trackside_reduce.argtypes = [
        *(c_int64, c_void_p, c_void_p),
        *(c_int64, c_void_p, c_void_p),
    ]
    library.trackside_reduce.restype = None
    return library


def reduce_arrays(
    library: ctypes.CDLL, tensors: Sequence[Tensor], columns: Sequence[str]
) -> np.ndarray[Any, Any]:
    """float64 [tensors, columns] of dense CPU tensors that `fits`, none of them empty."""
    arrays = [tensor if _is_array(tensor) else _as_array(tensor) for tensor in tensors]
    pointers = array("Q", [each.data_ptr() for each in arrays])
    counts = array("q", [each.numel() for each in arrays])
    codes = array("i", [_CODES[name] for name in columns])
    matrix = np.empty((len(arrays), len(codes)))
    library.trackside_reduce(
        len(arrays), _address(pointers), _address(counts), len(codes), _address(codes),
        matrix.ctypes.data,
    )  # fmt: skip
    return matrix


def fits(tensor: Tensor) -> bool:
    """Whether float32 holds its elements exactly."""
    kind = tensor.dtype
    return kind is torch.float32 or (kind.is_floating_point and kind is not torch.float64)


_CODES = {name: code for code, name in enumerate(COLUMNS)}


def _address(numbers: "array[int]") -> int:
    return numbers.buffer_info()[0]


def _is_array(tensor: Tensor) -> bool:
    return tensor.dtype is torch.float32 and tensor.is_contiguous() and not tensor.is_neg()


def _as_array(tensor: Tensor) -> Tensor:
    """In the order of its memory, which for a transposed one saves the copy."""
    strides = tensor.stride()
    order = sorted(range(tensor.dim()), key=lambda axis: -strides[axis])
    return tensor.detach().permute(order).resolve_neg().to(torch.float32).contiguous()


library = load()
