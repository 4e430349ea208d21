"""How element types are stored in segments and returned as numpy arrays.

Numpy has no bfloat16 and no float8: those are returned as float32, which represents all their
values.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

STORED = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "uint32": "U32",
    "int32": "I32",
    "uint64": "U64",
    "int64": "I64",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "complex64": "C64",
    "complex128": "F64",
}
"""Torch and numpy name to safetensors name. It has none for complex128, stored as pairs: those
entries are listed in the segment's metadata.
"""

PLAIN = {
    stored: np.dtype(name).newbyteorder("<")
    for name, stored in STORED.items()
    if not name.startswith(("bfloat", "float8", "complex128"))
}
"""Safetensors name to numpy type, for those that numpy knows."""

RAW = PLAIN | {
    stored: np.dtype("<u2" if name == "bfloat16" else "u1")
    for name, stored in STORED.items()
    if name.startswith(("bfloat", "float8"))
}
"""Safetensors name to the numpy type of the same width that its bytes are read as."""

NAMES = {stored: name for name, stored in reversed(STORED.items())}
"""Safetensors name back to the usual one; F64 is float64."""


def as_numpy(raw: Array, name: str) -> Array:
    """Stored elements as users get them: themselves where numpy knows the type, else float32."""
    widen = _WIDEN.get(name)
    return raw if widen is None else widen(raw)


def _from_bfloat16(raw: Array) -> Array:
    return (raw.astype(np.uint32) << 16).view(np.float32)


def _from_pairs(raw: Array) -> Array:
    pairs: Array = raw.view(np.complex128)[..., 0]
    return pairs


def _by_table(exponent_bits: int, bias: int, *, nan_codes: tuple[int, ...]) -> Callable[..., Array]:
    @cache
    def table() -> Array:
        mantissa_bits = 7 - exponent_bits
        codes = np.arange(256)
        sign = np.where(codes & 0x80, -1.0, 1.0)
        exponent = (codes >> mantissa_bits) & ((1 << exponent_bits) - 1)
        fraction = (codes & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
        normal = (1 + fraction) * np.exp2(exponent - bias)
        subnormal = fraction * np.exp2(1.0 - bias)
        values: Array = sign * np.where(exponent == 0, subnormal, normal)
        values[list(nan_codes)] = np.nan
        return values.astype(np.float32)

    def widen(raw: Array) -> Array:
        values: Array = table()[raw]
        return values

    return widen


def _from_e5m2(raw: Array) -> Array:
    # float8_e5m2 is the upper half of a float16, infinities and NaNs included.
    return (raw.astype(np.uint16) << 8).view(np.float16).astype(np.float32)


def _from_e8m0(raw: Array) -> Array:
    powers = np.exp2(raw.astype(np.float64) - 127)
    powers[raw == 0xFF] = np.nan
    return powers.astype(np.float32)


_WIDEN: dict[str, Callable[[Array], Array]] = {
    "bfloat16": _from_bfloat16,
    "complex128": _from_pairs,
    "float8_e4m3fn": _by_table(4, 7, nan_codes=(0x7F, 0xFF)),
    "float8_e4m3fnuz": _by_table(4, 8, nan_codes=(0x80,)),
    "float8_e5m2": _from_e5m2,
    "float8_e5m2fnuz": _by_table(5, 16, nan_codes=(0x80,)),
    "float8_e8m0fnu": _from_e8m0,
}
