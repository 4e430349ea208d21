"""The few protocol-buffer messages of an event file, encoded and decoded by hand.

Field numbers are those of TensorFlow's event.proto, summary.proto and tensor.proto, and of
TensorBoard's hparams plugin.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

FILE_VERSION = b"brain.Event:2"
DT_FLOAT, DT_DOUBLE, DT_STRING = 1, 2, 7

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types. A field's key is its number and wire type."""
_64_BITS = (1 << 64) - 1
_DOUBLE = struct.Struct("<d")
_FLOAT = struct.Struct("<f")

Field = tuple[int, int, Any]
"""Number, wire type, and the value: an int, or bytes."""


class NotAMessage(ValueError):
    """The bytes cannot be parsed as fields."""


def varint(number: int) -> bytes:
    """A negative number takes ten bytes, as a 64-bit two's complement."""
    if 0 <= number < 128:
        return bytes((number,))
    number &= _64_BITS
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def integer(number: int, value: int) -> bytes:
    """Like the scalars below, omitted when it is the default."""
    return varint(number << 3 | VARINT) + varint(value) if value else b""


def double(number: int, value: float) -> bytes:
    return varint(number << 3 | FIXED64) + _DOUBLE.pack(value) if value else b""


def text(number: int, value: bytes | str) -> bytes:
    return message(number, value.encode() if isinstance(value, str) else value) if value else b""


def message(number: int, content: bytes) -> bytes:
    return varint(number << 3 | BYTES) + varint(len(content)) + content


def event(time: float, step: int | None, what: bytes) -> bytes:
    return double(1, time) + integer(2, step or 0) + what


def file_version() -> bytes:
    return message(3, FILE_VERSION)


def session_start() -> bytes:
    """Makes readers discard earlier files' values from this event's step on."""
    return message(7, integer(1, 1))


def summary(*values: bytes) -> bytes:
    return message(5, b"".join(message(1, value) for value in values))


def simple_value(tag: str, value: float) -> bytes:
    return text(1, tag) + varint(2 << 3 | FIXED32) + as_float(value)


def as_float(value: float) -> bytes:
    """In single precision; what is too large for it becomes infinite, as in every framework."""
    try:
        return _FLOAT.pack(value)
    except OverflowError:
        return _FLOAT.pack(float("inf") if value > 0 else float("-inf"))


def scalar_tensor(tag: str, value: float, *, is_double: bool) -> bytes:
    if is_double:
        tensor = integer(1, DT_DOUBLE) + message(6, _DOUBLE.pack(value))
    else:
        tensor = integer(1, DT_FLOAT) + message(5, as_float(value))
    return text(1, tag) + message(8, tensor) + metadata("scalars")


def text_value(tag: str, value: str) -> bytes:
    shape = message(2, message(2, integer(1, 1)))
    tensor = integer(1, DT_STRING) + shape + message(8, value.encode())
    return text(1, tag) + message(8, tensor) + metadata("text")


def histogram_value(tag: str, figures: Iterable[float], limits: bytes, counts: bytes) -> bytes:
    """`figures` are minimum, maximum, count, sum and sum of squares; the rest packed doubles."""
    head = b"".join(double(number, value) for number, value in enumerate(figures, 1))
    return text(1, tag) + message(5, head + message(6, limits) + message(7, counts))


def metadata(plugin: str, content: bytes = b"") -> bytes:
    return message(9, message(1, text(1, plugin) + text(2, content)))


def hparams_value(tag: str, content: bytes) -> bytes:
    return text(1, f"_hparams_/{tag}") + metadata("hparams", content)


def hparams_experiment(
    hparams: Mapping[str, Any], metrics: Iterable[str], domains: Mapping[str, Iterable[Any]]
) -> bytes:
    infos = b"".join(
        message(4, text(1, name) + _hparam_type(value) + _domain(domains.get(name)))
        for name, value in hparams.items()
    )
    infos += b"".join(message(5, message(1, text(2, name))) for name in metrics)
    return message(2, infos)


def hparams_start(hparams: Mapping[str, Any]) -> bytes:
    entries = (
        message(1, text(1, name) + message(2, _any_value(value))) for name, value in hparams.items()
    )
    return message(3, b"".join(entries))


def hparams_end() -> bytes:
    return message(4, integer(1, 1))


def _hparam_type(value: Any) -> bytes:
    if isinstance(value, bool):
        return integer(4, 2)
    return integer(4, 3 if isinstance(value, int | float) else 1)


def _domain(values: Iterable[Any] | None) -> bytes:
    if values is None:
        return b""
    return message(5, b"".join(message(1, _any_value(value)) for value in values))


def _any_value(value: Any) -> bytes:
    """A google.protobuf.Value: its kinds are a oneof, so defaults are written too."""
    if isinstance(value, bool):
        return varint(4 << 3 | VARINT) + varint(value)
    if isinstance(value, int | float):
        return varint(2 << 3 | FIXED64) + _DOUBLE.pack(value)
    return message(3, str(value).encode())


def fields(data: bytes) -> Iterator[Field]:
    """Each field of a message; `NotAMessage` if the bytes are invalid."""
    at, size = 0, len(data)
    while at < size:
        key = data[at]
        at += 1
        if key > 127:  # most are of one byte
            key, at = _read_varint(data, at - 1)
        kind = key & 7
        if kind == VARINT:
            value, at = _read_varint(data, at)
            yield key >> 3, kind, value
            continue
        if kind == BYTES:
            length, at = _read_varint(data, at)
        elif kind in (FIXED64, FIXED32):
            length = 8 if kind == FIXED64 else 4
        else:
            raise NotAMessage(f"wire type {kind}")
        if length > size - at:
            raise NotAMessage("a field longer than its message")
        yield key >> 3, kind, data[at : at + length]
        at += length


def signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _64_BITS, at
        shift += 7
    raise NotAMessage("a number without end")
