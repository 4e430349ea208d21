"""Decodes one record of an smdebug event file: the tensor in it.

Framing and fields are those of all event files, known to `curves`; docs/formats.md lists which of
them smdebug writes.
"""

import math

import numpy as np

from trackside.capture.dtypes import Array, as_numpy
from trackside.curves import records, wire
from trackside.files.json_record import DamagedRecord

_STRING = 7
_DIM = [2, wire.BYTES]
_DTYPES = {
    1: "float32",
    2: "float64",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    8: "complex64",
    9: "int64",
    10: "bool",
    14: "bfloat16",
    17: "uint16",
    18: "complex128",
    19: "float16",
    22: "uint32",
    23: "uint64",
}


class MissingEventFile(FileNotFoundError):
    pass


def read_tensor(record: bytes) -> tuple[str, Array]:
    """Type name and value of the one tensor in a whole record."""
    span = next(records.contents(record), None)
    if span is None:
        raise DamagedRecord(f"{len(record)} bytes that are no whole record")
    try:  # smdebug writes no content checksum: always the same four bytes
        value = _message(_message(record[slice(*span)], 5), 1)
        return _tensor(_message(value, 8))
    except (ArithmeticError, KeyError, ValueError) as error:
        raise DamagedRecord(f"an unreadable record ({error})") from error


def _tensor(message: bytes) -> tuple[str, Array]:
    code, content = 0, b""
    shape: list[int] = []
    strings: list[str] = []
    for number, kind, value in wire.fields(message):
        match number, kind:
            case 1, wire.VARINT:
                code = value
            case 2, wire.BYTES:
                shape = [_dimension(each) for *field, each in wire.fields(value) if field == _DIM]
            case 4, wire.BYTES:
                content = value
            case 8, wire.BYTES:
                strings.append(value.decode())
    if strings or code in (0, _STRING):
        return "str", np.array(strings)
    name = _DTYPES[code]
    stored = np.dtype("<u2") if name == "bfloat16" else np.dtype(name).newbyteorder("<")
    if len(content) != stored.itemsize * math.prod(shape):
        raise DamagedRecord(f"{len(content)} bytes for a tensor of shape {shape[:8]}")
    return name, as_numpy(np.frombuffer(content, stored).reshape(shape), name)


def _dimension(message: bytes) -> int:
    """As protocol buffers define it: 0 if absent, the last if repeated."""
    size = 0
    for number, kind, value in wire.fields(message):
        if (number, kind) == (1, wire.VARINT):
            size = wire.signed(value)
    if size < 0:
        raise DamagedRecord(f"an axis of {size}")
    return size


def _message(message: bytes, wanted: int) -> bytes:
    """The first embedded message with this number."""
    for number, kind, value in wire.fields(message):
        if (number, kind) == (wanted, wire.BYTES):
            found: bytes = value
            return found
    raise KeyError(f"no field {wanted}")
