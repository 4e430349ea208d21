"""The scanner for where nothing could be compiled: records of one form are decoded together.

Only what does not look like `SummaryWriter.add_scalar`'s goes one by one.
"""

from typing import Any

import numpy
from numpy.typing import NDArray

from trackside.curves import records
from trackside.curves.columns import Bytes, Column, Decoded, Integers, Rows, grouped

_TIME, _STEP, _SUMMARY, _FIRST, _FLOAT = 0x09, 0x10, 0x2A, 0x0A, 0x15
"""Keys of fields: number and wire type. `_FIRST` is both a summary's value and a value's tag."""
_TIME_BYTES = 9
_AROUND_TAG = 6 + 5
"""Bytes of a summary around the tag: three keys with sizes, and the float with its key."""
_CRC_TABLE = numpy.array(records.TABLE, numpy.uint32)


def decode_with_numpy(data: bytes) -> Decoded:
    whole = numpy.frombuffer(data, numpy.uint8)
    columns: list[Column] = []
    others: list[bytes] = []
    at = lost = 0
    while True:
        places = numpy.array(list(records.contents(data, at)), numpy.int64).reshape(-1, 2)
        found, odd, lost_here = _decode_records(whole, places)
        columns += found
        lost += lost_here
        others += [data[start:end] for start, end in odd]
        if len(places):
            at = int(places[-1, 1]) + records.FOOTER_BYTES
        if records.length_at(data, at) is not None:
            break  # torn
        sound = records.next_header(data, at + 1)
        if sound is None:
            break
        lost += sound - at
        at = sound
    return Decoded(columns, others, at, lost)


def _decode_records(
    whole: Bytes, places: Integers
) -> tuple[list[Column], list[tuple[int, int]], int]:
    """Columns, the places of other records, and the bytes lost to bad checksums."""
    lost = 0
    odd: list[Any] = []
    found: list[tuple[Integers, Rows]] = []
    lengths = places[:, 1] - places[:, 0]
    for length in numpy.unique(lengths).tolist():
        alike = places[lengths == length]
        table = whole[alike[:, :1] + numpy.arange(length + records.FOOTER_BYTES)]
        stored = numpy.ascontiguousarray(table[:, length:]).view("<u4")[:, 0]
        is_sound = _masked(_checksums(table[:, :length])) == stored
        lost += int((~is_sound).sum()) * (length + records.FRAME_BYTES)
        alike, table = alike[is_sound], table[is_sound, :length]
        summary_at = _summary_places(table)
        for at in numpy.unique(summary_at).tolist():
            chosen = summary_at == at
            is_scalar = _are_scalars(table, at) & chosen
            odd += alike[chosen & ~is_scalar].tolist()
            if is_scalar.any():
                found.append((alike[is_scalar, 0], _scalars(table[is_scalar], at)))
    return _in_file_order(found), sorted((start, end) for start, end in odd), lost


def _checksums(table: Bytes) -> NDArray[numpy.uint32]:
    """Of each row, a byte of all rows at a time."""
    crc = numpy.full(len(table), 0xFFFFFFFF, numpy.uint32)
    for column in numpy.ascontiguousarray(table.T):
        crc = (crc >> 8) ^ _CRC_TABLE[(crc ^ column) & 255]
    return crc ^ numpy.uint32(0xFFFFFFFF)


def _masked(crc: NDArray[numpy.uint32]) -> NDArray[numpy.uint32]:
    rotated = ((crc >> 15) | (crc << 17)).astype(numpy.uint32)
    return rotated + numpy.uint32(records.MASK_DELTA)


def _summary_places(table: Bytes) -> Integers:
    """Where each row's summary begins, after time and step; 0 where they are not as usual."""
    places = numpy.zeros(len(table), numpy.int64)
    width = table.shape[1]
    if width <= _TIME_BYTES + 1:
        return places
    begins = table[:, 0] == _TIME
    has_step = begins & (table[:, _TIME_BYTES] == _STEP)
    places[begins & ~has_step] = _TIME_BYTES
    going_on = has_step
    for at in range(_TIME_BYTES + 1, min(_TIME_BYTES + 11, width - 1)):
        ends = going_on & (table[:, at] < 128)
        places[ends] = at + 1
        going_on = going_on & ~ends
    return places


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
    for place in range(_TIME_BYTES + 1, at):
        shift = numpy.uint64(7 * (place - _TIME_BYTES - 1))
        steps |= (table[:, place] & 127).astype(numpy.uint64) << shift
    tags, numbers = _tags(numpy.ascontiguousarray(table[:, at + 6 : width - 5]))
    return Rows(
        tags=tags,
        tag=numbers,
        steps=steps.view(numpy.int64),
        times=numpy.ascontiguousarray(table[:, 1:_TIME_BYTES]).view("<f8")[:, 0],
        values=numpy.ascontiguousarray(table[:, width - 4 :]).view("<f4")[:, 0].astype("f8"),
    )


def _tags(table: Bytes) -> tuple[list[str], NDArray[numpy.int32]]:
    """The different rows as texts, and each row's number among them."""
    if not table.shape[1]:
        return [""], numpy.zeros(len(table), numpy.int32)
    # Sorting rows of bytes is slow: find the different ones in turn, as there are few.
    tags: list[str] = []
    numbers = numpy.full(len(table), -1, numpy.int32)
    left = numpy.arange(len(table))
    while len(left):
        same = (table[left] == table[left[0]]).all(axis=1)
        numbers[left[same]] = len(tags)
        tags.append(table[left[0]].tobytes().decode(errors="replace"))
        left = left[~same]
    return tags, numbers


def _in_file_order(found: list[tuple[Integers, Rows]]) -> list[Column]:
    """One column for each tag, whatever the forms its records had."""
    if not found:
        return []
    numbers: dict[str, int] = {}
    tag = numpy.concatenate(
        [
            numpy.array([numbers.setdefault(name, len(numbers)) for name in rows.tags])[rows.tag]
            for _, rows in found
        ]
    )
    order = numpy.argsort(numpy.concatenate([places for places, _ in found]), kind="stable")
    rows = Rows(
        tags=list(numbers),
        tag=tag[order].astype(numpy.int32),
        steps=numpy.concatenate([rows.steps for _, rows in found])[order],
        times=numpy.concatenate([rows.times for _, rows in found])[order],
        values=numpy.concatenate([rows.values for _, rows in found])[order],
    )
    return grouped(rows)
