"""Decodes one record of an smdebug event file: the tensor in it.

Framing and fields are those of all event files, known to `curves`; docs/formats.md lists which of
them smdebug writes.
"""

from typing import Any

import numpy as np

from trackside.capture.dtypes import Array, as_numpy
from trackside.curves import records, wire

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


class MissingEventFile(FileNotFoundError):
    pass


def read_tensor(record: bytes) -> tuple[str, Array]:
    """Type name and value of the one tensor in a whole record."""
    place = next(records.contents(record), None)
    if place is None:
        raise DamagedRecord(f"{len(record)} bytes that are no whole record")
    try:
        value = _message(_message(record[slice(*place)], 5), 1)
        return _tensor(_message(value, 8))
    except (KeyError, ValueError) as error:
        raise DamagedRecord(f"an unreadable record ({error})") from error


def _tensor(message: bytes) -> tuple[str, Array]:
    code, shape, content, strings = 0, [], b"", []
    for field, _, value in wire.fields(message):
        if field == 1:
            code = value
        elif field == 2:
            shape = [_dimension(dim) for number, _, dim in wire.fields(value) if number == 2]
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
    return next((int(value) for field, _, value in wire.fields(message) if field == 1), 0)


def _message(message: bytes, wanted: int) -> Any:
    """The first embedded message with this number."""
    for field, _, value in wire.fields(message):
        if field == wanted and isinstance(value, bytes):
            return value
    raise KeyError(f"no field {wanted}")
