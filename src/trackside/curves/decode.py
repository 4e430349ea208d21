"""Decodes a buffer of records into arrays of scalars; other records are returned unchanged.

Compiled if possible (`native.py`), else with numpy: there, records of one form are decoded
together, and only those unlike `SummaryWriter.add_scalar`'s one by one.
"""

import ctypes
from collections.abc import Iterator
from ctypes import byref
from typing import Any

import numpy
from numpy.typing import NDArray

from trackside.curves import native, records, summaries, wire
from trackside.curves.columns import Bytes, Column, Decoded, Integers, Rows, grouped

MOST_TAGS = 1 << 16
LEAST_SCALAR_BYTES = 7
"""A value without a tag: the lower bound that sizes the output arrays."""
_TIME, _STEP, _SUMMARY, _FIRST, _FLOAT = 0x09, 0x10, 0x2A, 0x0A, 0x15
"""Keys of fields: number and wire type. `_FIRST` is both a summary's value and a value's tag."""
_TIME_BYTES = 9
_AROUND_TAG = 6 + 5
"""Bytes of a summary around the tag: three keys with sizes, and the float with its key."""
_MOST_SCALAR_BYTES = _TIME_BYTES + 11 + 129
"""Time, step and summary of the longest record that `_are_scalars` accepts."""
_FEW_ROWS = 16
"""Fewer records of one length are checked one by one."""
_GATHERED_BYTES = 8 << 20
"""Size of records decoded together; their index takes eight times as much."""
_SEARCHED_AT_ONCE = 1 << 16
_FEW_TAGS = 64
_CRC_TABLE = numpy.array(records.TABLE, numpy.uint32)


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
        totals, rows, spans = _scan(whole[at:], library)
        columns += grouped(rows, library)
        others += [data[at + start : at + start + size] for start, size in spans.tolist()]
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
    spans = numpy.empty((num_others, 2), numpy.int64)
    tag_spans = numpy.empty((MOST_TAGS, 2), numpy.int64)
    capacity = native.Capacity(num_rows, num_others, MOST_TAGS)
    totals = native.Totals()
    arrays = (slots, after, tag, step, time, value, spans, tag_spans)
    pointers = [array.ctypes.data for array in arrays]
    library.trackside_scan_records(
        buffer.ctypes.data, size, byref(capacity), *pointers, byref(totals)
    )
    count = totals.num_scalars
    tags = [
        buffer[start : start + length].tobytes().decode(errors="replace")
        for start, length in tag_spans[: totals.num_tags].tolist()
    ]
    rows = Rows(tags, tag[:count], step[:count], time[:count], value[:count])
    return totals, rows, spans[: totals.num_others]


def decode_with_numpy(data: bytes) -> Decoded:
    whole = numpy.frombuffer(data, numpy.uint8)
    columns: list[Column] = []
    others: list[bytes] = []
    at = lost = num_lost = 0
    while True:
        spans = numpy.array(list(records.contents(data, at)), numpy.int64).reshape(-1, 2)
        found, odd, bad = _decode_records(whole, spans)
        columns += found
        lost += int(bad.sum())
        num_lost += len(bad)
        others += [data[start:end] for start, end in odd]
        if len(spans):
            at = int(spans[-1, 1]) + records.FOOTER_BYTES
        if records.length_at(data, at) is not None:
            break  # torn
        header = _next_header(whole, at + 1)
        if header is None:
            break
        lost += header - at
        num_lost += 1
        at = header
    return Decoded(columns, others, at, lost, num_lost)


def _next_header(whole: Bytes, at: int) -> int | None:
    """As `records.next_header`, many offsets at a time."""
    for start in range(at, len(whole) - records.HEADER_BYTES + 1, _SEARCHED_AT_ONCE):
        piece = whole[start : start + _SEARCHED_AT_ONCE + records.HEADER_BYTES - 1]
        windows = numpy.lib.stride_tricks.sliding_window_view(piece, records.HEADER_BYTES)
        stored = numpy.ascontiguousarray(windows[:, 8:]).view("<u4")[:, 0]
        valid = numpy.flatnonzero(_masked(_checksums(windows[:, :8])) == stored)
        if len(valid):
            return start + int(valid[0])
    return None


def _decode_records(
    whole: Bytes, spans: Integers
) -> tuple[list[Column], list[tuple[int, int]], Integers]:
    """Columns, the spans of other records, and the sizes of those with a bad checksum."""
    bad: list[Integers] = [numpy.empty(0, numpy.int64)]
    odd: list[Any] = []
    found: list[tuple[Integers, Rows]] = []
    for alike in _of_equal_length(spans):
        length = int(alike[0, 1] - alike[0, 0])
        table, is_valid = _checked(whole, alike, length)
        bad.append(numpy.full(int((~is_valid).sum()), length + records.FRAME_BYTES))
        alike = alike[is_valid]
        if table is None:
            odd += alike.tolist()
            continue
        table = table[is_valid]
        summary_at = _summary_starts(table)
        for at in numpy.unique(summary_at).tolist():
            chosen = summary_at == at
            is_scalar = _are_scalars(table, at) & chosen
            odd += alike[chosen & ~is_scalar].tolist()
            if is_scalar.any():
                found.append((alike[is_scalar, 0], _scalars(table[is_scalar], at)))
    others = []
    for start, end in sorted((start, end) for start, end in odd):
        rows = _odd_scalars(whole[start:end].tobytes())
        if rows is None:
            others.append((start, end))
        else:
            found.append((numpy.full(len(rows.tag), start), rows))
    return _in_file_order(found), others, numpy.concatenate(bad)


def _of_equal_length(spans: Integers) -> Iterator[Integers]:
    """Records of one length, as many as may be gathered at once."""
    lengths = spans[:, 1] - spans[:, 0]
    order = numpy.argsort(lengths, kind="stable")
    ends = numpy.flatnonzero(numpy.diff(lengths[order])) + 1
    for alike in numpy.split(spans[order], ends):
        if len(alike):
            num_rows = max(1, _GATHERED_BYTES // int(alike[0, 1] - alike[0, 0] + 1))
            yield from (alike[at : at + num_rows] for at in range(0, len(alike), num_rows))


def _checked(
    whole: Bytes, alike: Integers, length: int
) -> tuple[Bytes | None, NDArray[numpy.bool_]]:
    """The contents, row by row, and whether each matches the checksum that follows it.

    No contents of records that are too long for a scalar.
    """
    is_long = length > _MOST_SCALAR_BYTES
    if len(alike) < _FEW_ROWS:
        ends = (alike + [0, records.FOOTER_BYTES]).tolist()
        valid = [records.is_valid(whole[start:end].tobytes(), 0, length) for start, end in ends]
        table = None if is_long else whole[alike[:, :1] + numpy.arange(length)]
        return table, numpy.array(valid, numpy.bool_)
    table = whole[alike[:, :1] + numpy.arange(length + records.FOOTER_BYTES)]
    stored = numpy.ascontiguousarray(table[:, length:]).view("<u4")[:, 0]
    is_valid = _masked(_checksums(table[:, :length])) == stored
    return None if is_long else table[:, :length], is_valid


def _checksums(table: Bytes) -> NDArray[numpy.uint32]:
    """Of each row, a byte of all rows at a time."""
    crc = numpy.full(len(table), 0xFFFFFFFF, numpy.uint32)
    for column in numpy.ascontiguousarray(table.T):
        crc = (crc >> 8) ^ _CRC_TABLE[(crc ^ column) & 255]
    return crc ^ numpy.uint32(0xFFFFFFFF)


def _masked(crc: NDArray[numpy.uint32]) -> NDArray[numpy.uint32]:
    rotated = ((crc >> 15) | (crc << 17)).astype(numpy.uint32)
    return rotated + numpy.uint32(records.MASK_DELTA)


def _summary_starts(table: Bytes) -> Integers:
    """Where each row's summary starts, after time and step; 0 if they are unusual."""
    starts = numpy.zeros(len(table), numpy.int64)
    width = table.shape[1]
    if width <= _TIME_BYTES + 1:
        return starts
    begins = table[:, 0] == _TIME
    has_step = begins & (table[:, _TIME_BYTES] == _STEP)
    starts[begins & ~has_step] = _TIME_BYTES
    going_on = has_step
    for at in range(_TIME_BYTES + 1, min(_TIME_BYTES + 11, width - 1)):
        ends = going_on & (table[:, at] < 128)
        starts[ends] = at + 1
        going_on = going_on & ~ends
    return starts


def _are_scalars(table: Bytes, at: int) -> NDArray[numpy.bool_]:
    """Rows whose summary at `at` is one value of a tag and a float, all sizes of one byte."""
    rest = table.shape[1] - at
    if at < _TIME_BYTES or not _AROUND_TAG <= rest < 130:
        return numpy.zeros(len(table), numpy.bool_)
    expected = {0: _SUMMARY, 1: rest - 2, 2: _FIRST, 3: rest - 4, 4: _FIRST}
    expected |= {5: rest - _AROUND_TAG, rest - 5: _FLOAT}
    matches = numpy.ones(len(table), numpy.bool_)
    for offset, byte in expected.items():
        matches &= table[:, at + offset] == byte
    return matches


def _scalars(table: Bytes, at: int) -> Rows:
    width = table.shape[1]
    steps = numpy.zeros(len(table), numpy.uint64)
    for column in range(_TIME_BYTES + 1, at):
        shift = numpy.uint64(7 * (column - _TIME_BYTES - 1))
        steps |= (table[:, column] & 127).astype(numpy.uint64) << shift
    tags, numbers = _tags(numpy.ascontiguousarray(table[:, at + 6 : width - 5]))
    return Rows(
        tags=tags,
        tag=numbers,
        steps=steps.view(numpy.int64),
        times=numpy.ascontiguousarray(table[:, 1:_TIME_BYTES]).view("<f8")[:, 0],
        values=numpy.ascontiguousarray(table[:, width - 4 :]).view("<f4")[:, 0].astype("f8"),
    )


def _odd_scalars(content: bytes) -> Rows | None:
    """For an event of any form that contains only scalars."""
    try:
        found = summaries.summaries(content)
        if any(each.kind == "tensor" and not each.plugin for each in found):
            return None  # of a plugin that only the tag's first event names
        values = [summaries.scalar(each) for each in found]
    except wire.NotAMessage:
        return None
    if not values or any(value is None for value in values):
        return None
    return Rows(
        tags=[each.tag for each in found],
        tag=numpy.arange(len(found), dtype=numpy.int32),
        steps=numpy.array([each.step for each in found]),
        times=numpy.array([each.time for each in found]),
        values=numpy.array(values, numpy.float64),
    )


def _tags(table: Bytes) -> tuple[list[str], NDArray[numpy.int32]]:
    """The distinct rows as texts, and each row's index among them."""
    if not table.shape[1]:
        return [""], numpy.zeros(len(table), numpy.int32)
    # Sorting rows of bytes is slow: find the distinct ones in turn, as there are few.
    tags: list[str] = []
    numbers = numpy.full(len(table), -1, numpy.int32)
    left = numpy.arange(len(table))
    while len(left) and len(tags) < _FEW_TAGS:
        same = (table[left] == table[left[0]]).all(axis=1)
        numbers[left[same]] = len(tags)
        tags.append(_text(table[left[0]].tobytes()))
        left = left[~same]
    known: dict[bytes, int] = {}
    for row in left.tolist():
        numbers[row] = known.setdefault(table[row].tobytes(), len(tags) + len(known))
    return [*tags, *map(_text, known)], numbers


def _text(tag: bytes) -> str:
    return tag.decode(errors="replace")


def _in_file_order(found: list[tuple[Integers, Rows]]) -> list[Column]:
    """One column per tag, whatever the form of its records."""
    if not found:
        return []
    numbers: dict[str, int] = {}
    tag = numpy.concatenate(
        [
            numpy.array([numbers.setdefault(name, len(numbers)) for name in rows.tags])[rows.tag]
            for _, rows in found
        ]
    )
    order = numpy.argsort(numpy.concatenate([spans for spans, _ in found]), kind="stable")
    rows = Rows(
        tags=list(numbers),
        tag=tag[order].astype(numpy.int32),
        steps=numpy.concatenate([rows.steps for _, rows in found])[order],
        times=numpy.concatenate([rows.times for _, rows in found])[order],
        values=numpy.concatenate([rows.values for _, rows in found])[order],
    )
    return grouped(rows)
