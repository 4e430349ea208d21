"""Damage of every kind, by a generator that can be had again: to bytes, JSON and protocol buffers.

What is specific to one format is in its test.
"""

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from trackside.curves import wire

ODD_NUMBERS = (
    *(0, 1, 2, 7, 8, 127, 128, 255, 4096, 65535, 65536, 10**6),
    *(2**31 - 1, 2**31, 2**32 - 1, 2**32, 10**11, 2**53, 2**63 - 1, 2**63, 2**64 - 1),
)


def damaged(rng: Random, data: bytes, other: bytes = b"") -> bytes:
    """One change anywhere; `other` is what pieces are taken from, beside the data itself."""
    if not data:
        return rng.randbytes(rng.randrange(20))
    return rng.choice(_CHANGES)(rng, data, other or data)


def _flip(rng: Random, data: bytes, other: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwrite(rng: Random, data: bytes, other: bytes) -> bytes:
    changed = bytearray(data)
    at = rng.randrange(len(data))
    size = min(rng.choice((1, 2, 4, 8, 16)), len(data) - at)
    filling = rng.choice((bytes(size), b"\xff" * size, rng.randbytes(size)))
    changed[at : at + size] = filling
    return bytes(changed)


def _number(rng: Random, data: bytes, other: bytes) -> bytes:
    """A length or an offset, perhaps."""
    changed = bytearray(data)
    at, size = rng.randrange(len(data)), rng.choice((1, 2, 4, 8))
    number = rng.choice(ODD_NUMBERS) % (1 << 8 * size)
    changed[at : at + size] = number.to_bytes(size, "little")
    return bytes(changed)


def _cut(rng: Random, data: bytes, other: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def _remove(rng: Random, data: bytes, other: bytes) -> bytes:
    start, end = _slice(rng, data)
    return data[:start] + data[end:]


def _splice(rng: Random, data: bytes, other: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    start, end = _slice(rng, other)
    return data[:at] + other[start:end] + data[at:]


def _replace(rng: Random, data: bytes, other: bytes) -> bytes:
    at, until = _slice(rng, data)
    start, end = _slice(rng, other)
    return data[:at] + other[start:end] + data[until:]


def _insert(rng: Random, data: bytes, other: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    filling = rng.choice((rng.randbytes, bytes))(rng.choice((1, 3, 12, 100, 1000)))
    return data[:at] + filling + data[at:]


_CHANGES: tuple[Callable[[Random, bytes, bytes], bytes], ...] = (
    *(_flip, _flip, _flip, _overwrite, _number, _cut, _remove, _splice, _replace, _insert),
)


def _slice(rng: Random, data: bytes) -> tuple[int, int]:
    start = rng.randrange(len(data))
    return start, rng.randrange(start, len(data) + 1)


ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 1.5, -0.0, 1e300, 1e308, 10**11, -(10**11), 2**63, 2**64),
    *(10**30, 10**400, float("nan"), float("inf"), float("-inf")),
    *("", "a", "\0", "é", "\ud800", "../../x", "NaN", "1", "x" * 5000),
    *([], [1], [[1]], [None], {}, {"a": 1}, {"": {}}, [{}]),
)


def damaged_value(rng: Random, value: Any) -> Any:
    """A copy of a JSON value with one change somewhere in it, the deeper the likelier."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice([*value])
        match rng.randrange(10):
            case 0:
                return {k: v for k, v in value.items() if k != key}
            case 1:
                return {**value, rng.choice(("", "x", "size", "kind")): rng.choice(ODD_VALUES)}
            case 2:
                return {("x" if k == key else k): v for k, v in value.items()}
            case _:
                return {**value, key: damaged_value(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        match rng.randrange(8):
            case 0:
                return value[:at] + value[at + 1 :]
            case 1:
                return [*value[:at], value[at], *value[at:]]
            case 2:
                return [*value[:at], rng.choice(ODD_VALUES), *value[at:]]
            case _:
                return [*value[:at], damaged_value(rng, value[at]), *value[at + 1 :]]
    if isinstance(value, int) and abs(value) < 2**63 and rng.random() < 0.5:
        return rng.choice((value + 1, value - 1, -value, float(value), str(value), value * 2**32))
    return rng.choice(ODD_VALUES)


def damaged_json(rng: Random, value: Any) -> bytes:
    """JSON of the value with one change or two: to what it says, or to how that is written."""
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        value = damaged_value(rng, value)
    text = json.dumps(value, ensure_ascii=rng.random() < 0.8).encode(errors="surrogatepass")
    match rng.randrange(12):
        case 0:
            return damaged(rng, text)
        case 1:  # a name twice
            return text.replace(b"{", b'{"kind": 1, "kind": [], ', 1)
        case 2:
            return text.replace(b"}", b"," + _first_member(text) + b"}", 1)
        case 3:  # deeper than any parser goes
            depth = rng.choice((100, 5_000, 200_000))
            return rng.choice((b"[" * depth, b"[" * depth + b"]" * depth, b'{"a":' * depth))
        case 4:  # a number that takes long to convert
            digits = b"9" * rng.choice((310, 4_400, 6_000))
            return _replaced_number(rng, text, digits)
        case 5:
            return text[:-1] + b"\x00" + text[-1:]
        case _:
            return text


def _first_member(text: bytes) -> bytes:
    start = text.find(b'"')
    end = min((at for at in (text.find(b",", start), text.find(b"}", start)) if at > 0), default=0)
    return text[start:end] if 0 <= start < end else b'"a": 1'


def _replaced_number(rng: Random, text: bytes, digits: bytes) -> bytes:
    places = [at for at in range(len(text)) if text[at : at + 1].isdigit()]
    if not places:
        return digits
    at = rng.choice(places)
    return text[:at] + digits + text[at + 1 :]


def damaged_message(rng: Random, message: bytes, depth: int = 6) -> bytes:
    """A protocol buffer with one field changed: its number, type, size, or what is in it."""
    try:
        found = list(wire.fields(message))
    except wire.NotAMessage:
        found = []
    if not found:
        return damaged(rng, message)
    at = rng.randrange(len(found))
    number, kind, value = found[at]
    parts = [_encoded(*each) for each in found]
    match rng.randrange(9):
        case 0:
            del parts[at]
        case 1:
            parts.insert(rng.randrange(len(parts)), parts[at])
        case 2:
            parts[at] = wire.varint(rng.choice(ODD_NUMBERS) << 3 | kind) + parts[at][1:]
        case 3:
            parts[at] = wire.varint(number << 3 | rng.randrange(8)) + parts[at][1:]
        case 4 if kind == wire.BYTES:
            size = wire.varint(rng.choice((len(value) + 1, max(0, len(value) - 1), *ODD_NUMBERS)))
            parts[at] = wire.varint(number << 3 | kind) + size + value
        case 5 if kind == wire.VARINT:
            parts[at] = _encoded(number, kind, rng.choice(ODD_NUMBERS))
        case _ if kind == wire.BYTES and depth:
            inner = damaged_message(rng, value, depth - 1)
            parts[at] = _encoded(number, kind, inner)
        case _:
            parts[at] = damaged(rng, parts[at])
    return b"".join(parts)


def _encoded(number: int, kind: int, value: Any) -> bytes:
    key = wire.varint(number << 3 | kind)
    if kind == wire.VARINT:
        return key + wire.varint(value)
    return key + (wire.varint(len(value)) + value if kind == wire.BYTES else value)


def some(rng: Random, things: Sequence[Any], most: int) -> list[Any]:
    return [rng.choice(things) for _ in range(rng.randint(1, most))]
