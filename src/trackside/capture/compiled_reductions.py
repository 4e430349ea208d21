"""The compiled reductions of `reduce.c`, where the installation could build them; None elsewhere.

Loaded with ctypes, which lets other threads run meanwhile. `reductions.py` makes columns of them.
"""

import ctypes
from collections.abc import Sequence
from ctypes import c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

LIBRARY = Path(__file__).with_name("reduce.so")
STATISTICS = ("min", "max", "sum", "squares", "spread")
"""In the order of reduce.c, which has the same of the magnitudes."""


def load(path: Path = LIBRARY) -> ctypes.CDLL | None:
    """None when it was not built, or was built for another machine."""
    try:
        library = ctypes.CDLL(str(path))
    except OSError:
        return None
    library.trackside_reduce.argtypes = [c_int64, c_void_p, c_void_p, c_int32, c_void_p]
    library.trackside_reduce.restype = None
    return library


def reduce_arrays(
    library: ctypes.CDLL, tensors: Sequence[Tensor], counts: Any, *, magnitudes: bool
) -> Any:
    """float64 [tensors, STATISTICS] of CPU tensors of any floating type, none of them empty.

    `counts` are their numbers of elements, int64.
    """
    arrays = [tensor if _is_array(tensor) else _as_array(tensor) for tensor in tensors]
    pointers = np.array([array.data_ptr() for array in arrays], dtype=np.uintp)
    found = np.empty((len(arrays), len(STATISTICS)))
    library.trackside_reduce(
        len(arrays), pointers.ctypes.data, counts.ctypes.data, magnitudes, found.ctypes.data
    )
    return found


def _is_array(tensor: Tensor) -> bool:
    return tensor.dtype is torch.float32 and tensor.is_contiguous() and not tensor.is_neg()


def _as_array(tensor: Tensor) -> Tensor:
    """In the order of its memory, which for a transposed one saves the copy."""
    strides = tensor.stride()
    order = sorted(range(tensor.dim()), key=lambda axis: -strides[axis])
    return tensor.detach().permute(order).resolve_neg().to(torch.float32).contiguous()


library = load()
