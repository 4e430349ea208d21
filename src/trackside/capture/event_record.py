"""Decodes one record of an smdebug event file: TFRecord framing around a small protobuf message.

Only the fields smdebug writes are known here; docs/formats.md lists them.
"""

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from trackside.capture.dtypes import Array, as_numpy

_HEADER_BYTES = 12  # uint64 length, uint32 checksum of the length
_FOOTER_BYTES = 4
_STRING = 7
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


class DamagedRecord(ValueError):
    pass


def read_tensor(record: bytes) -> tuple[str, Array]:
    """Type name and value of the one tensor in a whole TFRecord."""
    try:
        (length,) = struct.unpack_from("<Q", record)
        event = record[_HEADER_BYTES : _HEADER_BYTES + length]
        if len(record) < _HEADER_BYTES + length + _FOOTER_BYTES:
            raise DamagedRecord(f"a record of {length} bytes in {len(record)}")
        value = _message(_message(event, 5), 1)
        return _tensor(_message(value, 8))
    except (IndexError, KeyError, struct.error, UnicodeError) as error:
        raise DamagedRecord(f"an unreadable record ({error})") from error


def _tensor(message: bytes) -> tuple[str, Array]:
    code, shape, content, strings = 0, [], b"", []
    for field, value in _fields(message):
        if field == 1:
            code = value
        elif field == 2:
            shape = [_dimension(dim) for number, dim in _fields(value) if number == 2]
        elif field == 4:
            content = value
        elif field == 8:
            strings.append(value.decode())
    if strings or code in (0, _STRING):
        return "str", np.array(strings)
    name = _DTYPES[code]
    if name == "bfloat16":
        return name, as_numpy(np.frombuffer(content, "<u2").reshape(shape), name)
    return name, np.frombuffer(content, np.dtype(name).newbyteorder("<")).reshape(shape)


def _dimension(message: bytes) -> int:
    for field, value in _fields(message):
        if field == 1:
            return int(value)
    return 0


def _message(message: bytes, wanted: int) -> bytes:
    """The first embedded message with this number."""
    for field, value in _fields(message):
        if field == wanted and isinstance(value, bytes):
            return value
    raise KeyError(f"no field {wanted}")


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        wire = tag & 7
        value: Any
        if wire == 0:
            value, position = _varint(message, position)
        elif wire == 1:
            value, position = message[position : position + 8], position + 8
        elif wire == 2:
            length, position = _varint(message, position)
            value, position = message[position : position + length], position + length
        elif wire == 5:
            value, position = message[position : position + 4], position + 4
        else:
            raise DamagedRecord(f"a field of wire type {wire}")
        if position > len(message):
            raise DamagedRecord("a field that ends behind its message")
        yield tag >> 3, value


def _varint(message: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = message[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
        if shift > 63:
            raise DamagedRecord("a number of more than 64 bits")
