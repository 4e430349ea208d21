"""wandb's log of a run, online or not: `run-ID.wandb`.

A header of seven bytes, then blocks of 32 KiB with records that may span several, as in LevelDB's
log; each a protocol-buffer message. Only history records count, which `wandb.log` writes. Field
numbers are those of wandb_internal.proto.
"""

import os
import struct
import zlib
from collections.abc import Iterator

from trackside.curves import wire
from trackside.curves.loggers.logged_values import (
    Logged,
    LoggerFile,
    State,
    Unreadable,
    as_name,
    json_value,
    moment,
    number,
    position,
    whole,
)

HEAD = b":W&B\xe1\xbe"
_HEAD_BYTES = 7
_BLOCK_BYTES = 1 << 15
_RECORD = struct.Struct("<IHB")
_DAMAGED, _FULL, _FIRST, _LAST = 0, 1, 2, 4
MOST_RECORD_BYTES = 4 << 20
"""Larger ones are skipped."""
MOST_READ_BYTES = 8 << 20
"""Per pass; the rest waits for the next."""

_HISTORY, _ITEM, _STEP = 2, 1, 2
_KEY, _NESTED_KEY, _VALUE = 1, 2, 16


def read(file: LoggerFile, state: State) -> Iterator[Logged]:
    run = f"wandb/{as_name(file.path.rpartition('/')[2].removesuffix('.wandb')[4:])}"
    with file.opened() as descriptor:
        start = position(state, "offset")
        if start == 0:
            if not os.pread(descriptor, _HEAD_BYTES, 0).startswith(HEAD):
                raise Unreadable("it does not begin as a log of wandb's")
            start = _HEAD_BYTES
        data = os.pread(descriptor, MOST_READ_BYTES, start)
    for content, end in records(data, start):
        state["offset"] = end
        yield from _history(content, run, file.time)


def records(data: bytes, start: int) -> Iterator[tuple[bytes, int]]:
    """Each complete record and its end, in bytes that start at this offset of the file."""
    parts: list[bytes] = []
    at, found_one = start, False
    for kind, content, at in _fragments(data, start):
        if kind in (_FULL, _FIRST, _DAMAGED):
            parts = []
        elif not parts:
            continue  # its beginning was damaged
        if kind == _DAMAGED:
            continue
        parts.append(content)
        if kind in (_FULL, _LAST):
            found_one = True
            yield b"".join(parts) if sum(map(len, parts)) <= MOST_RECORD_BYTES else b"", at
            parts = []
    # One longer than everything read is skipped.
    if len(data) == MOST_READ_BYTES and not found_one:
        yield b"", min(at, start + len(data))


def _fragments(data: bytes, start: int) -> Iterator[tuple[int, bytes, int]]:
    """Kind, content and end of each complete fragment of a record.

    One with a wrong checksum costs its block, as in LevelDB: its length may be wrong too.
    """
    at = 0
    while True:
        left = _BLOCK_BYTES - (start + at) % _BLOCK_BYTES
        if left < _RECORD.size:
            at += left
            continue
        if at + _RECORD.size > len(data):
            return
        checksum, length, kind = _RECORD.unpack_from(data, at)
        end = at + _RECORD.size + length
        is_valid = _FULL <= kind <= _LAST and _RECORD.size + length <= left
        if is_valid and end > len(data):
            return  # not written yet
        content = data[at + _RECORD.size : end]
        if is_valid and zlib.crc32(content, zlib.crc32(bytes((kind,)))) == checksum:
            at = end
            yield kind, content, start + at
        else:
            at += left
            yield _DAMAGED, b"", start + at


def _history(record: bytes, run: str, time: float) -> Iterator[Logged]:
    try:
        for of_record, kind, content in wire.fields(record):
            if (of_record, kind) == (_HISTORY, wire.BYTES):
                yield from _points(content, run, time)
    except wire.NotAMessage:
        return


def _points(history: bytes, run: str, time: float) -> Iterator[Logged]:
    values: dict[str, object] = {}
    step = None
    for field, kind, content in wire.fields(history):
        if (field, kind) == (_ITEM, wire.BYTES):
            name, value = _item(content)
            values[name] = value
        elif (field, kind) == (_STEP, wire.BYTES):
            step = next((value for of, _, value in wire.fields(content) if of == 1), 0)
    at = whole(values.get("_step", step))
    if at is None:
        return
    time = moment(values.get("_timestamp"), time)
    for name, value in values.items():
        found = number(value) if not isinstance(value, str) else None
        if found is not None and not name.startswith("_"):
            yield Logged(run, name, found, at, time)


def _item(content: bytes) -> tuple[str, object]:
    """A value, and its name; the path of a nested one."""
    key, nested, value = b"", [], b""
    for field, kind, data in wire.fields(content):
        if kind != wire.BYTES:
            continue
        if field == _KEY:
            key = data
        elif field == _NESTED_KEY:
            nested.append(data)
        elif field == _VALUE:
            value = data
    name = b"/".join(nested) or key
    return name.decode(errors="replace"), _value(value)


def _value(data: bytes) -> object:
    """wandb writes values that JSON lacks as text."""
    if data in (b'"NaN"', b'"Infinity"', b'"-Infinity"'):
        return float(data.strip(b'"'))
    return json_value(data)
