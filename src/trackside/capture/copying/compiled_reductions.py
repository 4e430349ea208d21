"""The compiled reductions of `reduce.c`, if the installation could build them; else None.

Loaded with ctypes, so other threads run meanwhile. `reductions.py` decides when they are used.
"""

import ctypes
from array import array
from collections.abc import Sequence
from ctypes import c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor, maybe_current_level
from torch.nn import Parameter

LIBRARY = Path(__file__).with_name("reduce.so")
COLUMNS = tuple(
    f"{prefix}{name}"
    for prefix in ("", "abs_")
    for name in ("min", "max", "mean", "std", "variance", "sum", "l1", "l2")
)
"""Those in reduce.c, in its order."""


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
    return _reduce(library, pointers, counts, _codes(tuple(columns)))


def reduce_ordinary(
    library: ctypes.CDLL | None, tensors: Sequence[Tensor], columns: tuple[str, ...]
) -> np.ndarray[Any, Any] | None:
    """The same for ordinary tensors, checked and reduced in a few microseconds.

    None if one of them is not ordinary, or the library does not have a column.
    """
    if library is None or not _knows(columns) or maybe_current_level() is not None:
        return None
    pointers, counts = array("Q"), array("q")
    for tensor in tensors:
        if (
            type(tensor) not in _ORDINARY
            or tensor.dtype is not torch.float32
            or not tensor.is_cpu
            or tensor.layout is not torch.strided
            or tensor.is_nested
            or is_functorch_wrapped_tensor(tensor)
            or not tensor.is_contiguous()
            or tensor.is_neg()
            or not (count := tensor.numel())
        ):
            return None
        pointers.append(tensor.data_ptr())
        counts.append(count)
    return _reduce(library, pointers, counts, _codes(columns))


def fits(tensor: Tensor) -> bool:
    """Whether float32 holds its elements exactly."""
    kind = tensor.dtype
    return kind is torch.float32 or (kind.is_floating_point and kind is not torch.float64)


_ORDINARY = (Tensor, Parameter)
"""Not their subclasses, whose data may differ from what they show."""


@cache
def _knows(columns: tuple[str, ...]) -> bool:
    return set(columns) <= set(COLUMNS)


@cache
def _codes(columns: tuple[str, ...]) -> "array[int]":
    return array("i", [COLUMNS.index(name) for name in columns])


def _reduce(
    library: ctypes.CDLL, pointers: "array[int]", counts: "array[int]", codes: "array[int]"
) -> np.ndarray[Any, Any]:
    num_rows, num_columns = len(counts), len(codes)
    matrix = array("d", bytes(8 * num_rows * num_columns))  # numpy is slow to return an address
    library.trackside_reduce(
        num_rows, _address(pointers), _address(counts), num_columns, _address(codes),
        _address(matrix),
    )  # fmt: skip
    return np.frombuffer(matrix).reshape(num_rows, num_columns)


def _address(numbers: "array[int] | array[float]") -> int:
    return numbers.buffer_info()[0]


def _is_array(tensor: Tensor) -> bool:
    return tensor.dtype is torch.float32 and tensor.is_contiguous() and not tensor.is_neg()


def _as_array(tensor: Tensor) -> Tensor:
    """In memory order, which saves the copy of a transposed one."""
    strides = tensor.stride()
    order = sorted(range(tensor.dim()), key=lambda axis: -strides[axis])
    return tensor.detach().permute(order).resolve_neg().to(torch.float32).contiguous()


library = load()
