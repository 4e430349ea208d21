"""A buffer of records made arrays of scalars, all at once; what is no scalar is handed back.

Compiled where it can be (`native.py`), with numpy elsewhere (`decode_numpy.py`).
"""

import ctypes
from ctypes import byref

import numpy

from trackside.curves import native, records
from trackside.curves.columns import Bytes, Column, Decoded, Integers, Rows, grouped
from trackside.curves.decode_numpy import decode_with_numpy

MOST_TAGS = 1 << 16
LEAST_SCALAR_BYTES = 7
"""A value without a tag; so a buffer holds no more scalars than there is room for."""


def decode(data: bytes, library: ctypes.CDLL | None = native.library) -> Decoded:
    if library is not None:
        return _by_library(data, library)
    return decode_with_numpy(data)


def _by_library(data: bytes, library: ctypes.CDLL) -> Decoded:
    whole = numpy.frombuffer(data, numpy.uint8)
    columns: list[Column] = []
    others: list[bytes] = []
    at = lost = num_lost = 0
    while True:
        totals, rows, places = _scan(whole[at:], library)
        columns += grouped(rows, library)
        others += [data[at + start : at + start + size] for start, size in places.tolist()]
        at += totals.consumed
        lost += totals.lost_bytes
        num_lost += totals.num_lost
        if not totals.is_full:
            return Decoded(columns, others, at, lost, num_lost)


def _scan(buffer: Bytes, library: ctypes.CDLL) -> tuple[native.Totals, Rows, Integers]:
    size = len(buffer)
    # Pages of these that are not written to cost nothing.
    num_rows = size // LEAST_SCALAR_BYTES + 1
    num_others = size // records.FRAME_BYTES + 1
    slots = numpy.empty(native.NUM_SLOTS, numpy.int32)
    after = numpy.empty(MOST_TAGS, numpy.int32)
    tag = numpy.empty(num_rows, numpy.int32)
    step = numpy.empty(num_rows, numpy.int64)
    time, value = numpy.empty(num_rows), numpy.empty(num_rows)
    places = numpy.empty((num_others, 2), numpy.int64)
    tag_places = numpy.empty((MOST_TAGS, 2), numpy.int64)
    room = native.Room(num_rows, num_others, MOST_TAGS)
    totals = native.Totals()
    arrays = (slots, after, tag, step, time, value, places, tag_places)
    pointers = [array.ctypes.data for array in arrays]
    library.trackside_scan_records(buffer.ctypes.data, size, byref(room), *pointers, byref(totals))
    count = totals.num_scalars
    tags = [
        buffer[start : start + length].tobytes().decode(errors="replace")
        for start, length in tag_places[: totals.num_tags].tolist()
    ]
    rows = Rows(tags, tag[:count], step[:count], time[:count], value[:count])
    return totals, rows, places[: totals.num_others]
