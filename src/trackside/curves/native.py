"""The compiled scanner of `scan.c`, if the installation could build it; else None.

Loaded with ctypes, so that one build serves every version of Python and needs no headers.
"""

import ctypes
from ctypes import POINTER, Structure, c_int64, c_size_t, c_uint32, c_void_p
from pathlib import Path

LIBRARY = Path(__file__).with_name("scan.so")
NUM_SLOTS = 1 << 17
"""As in scan.c."""


class Totals(Structure):
    consumed: int
    num_scalars: int
    num_others: int
    num_tags: int
    lost_bytes: int
    is_full: int
    num_lost: int

    _fields_ = [
        (name, c_int64)
        for name in (
            "consumed",
            "num_scalars",
            "num_others",
            "num_tags",
            "lost_bytes",
            "is_full",
            "num_lost",
        )
    ]


class Capacity(Structure):
    _fields_ = [("scalars", c_int64), ("others", c_int64), ("tags", c_int64)]


def load(path: Path = LIBRARY) -> ctypes.CDLL | None:
    """None when it was not built, or was built for another machine or from an older source."""
    try:
        library = ctypes.CDLL(str(path))
        library.trackside_scan_records  # noqa: B018 renamed whenever its arguments or results change
    except (AttributeError, OSError):
        return None
    library.trackside_crc32c.argtypes = [c_void_p, c_size_t]
    library.trackside_crc32c.restype = c_uint32
    library.trackside_scan_records.argtypes = [
        c_void_p,
        c_int64,
        POINTER(Capacity),
        *(c_void_p,) * 8,
        POINTER(Totals),
    ]
    library.trackside_scan_records.restype = None
    library.trackside_group.argtypes = [c_int64, *(c_void_p,) * 8]
    library.trackside_group.restype = None
    if can_choose(library):
        library.trackside_choose.argtypes = [
            *(c_void_p, c_int64) * 2,
            c_int64,
            *(c_void_p,) * 3,
        ]
        library.trackside_choose.restype = c_int64
    return library


def can_choose(library: ctypes.CDLL | None) -> bool:
    """False for one that was built before it could."""
    return library is not None and hasattr(library, "trackside_choose")


library = load()
