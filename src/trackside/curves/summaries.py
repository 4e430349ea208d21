"""Parses an event, one value at a time: slower, for everything but plain scalars."""

import struct

from trackside.curves import wire
from trackside.quick_dataclass import dataclass

_KINDS = {
    (2, wire.FIXED32): "scalar",
    (4, wire.BYTES): "image",
    (5, wire.BYTES): "histogram",
    (6, wire.BYTES): "audio",
    (8, wire.BYTES): "tensor",
}
"""Fields of Summary.Value that are its content."""
_FLOATS, _DOUBLES = (wire.BYTES, wire.FIXED32), (wire.BYTES, wire.FIXED64)
"""Wire types of a repeated number: packed, or one by one."""
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


@dataclass(frozen=True, slots=True)
class Summary:
    """One value of an event. `data` is the content's message, undecoded."""

    tag: str
    step: int
    time: float
    kind: str
    """scalar, histogram, image, audio or tensor; empty when there are only metadata."""
    plugin: str
    data: bytes
    plugin_data: bytes = b""


@dataclass(frozen=True, slots=True)
class HistogramPoint:
    step: int
    time: float
    limits: tuple[float, ...]
    """Each bucket's upper edge."""
    counts: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TextPoint:
    step: int
    time: float
    text: str


@dataclass(frozen=True, slots=True)
class ImagePoint:
    step: int
    time: float
    data: bytes
    """A PNG, as a rule."""


def summaries(content: bytes) -> list[Summary]:
    """The values of an event; empty if it is of another kind. `NotAMessage` if it is not an event.

    As in all of protocol buffers, a known field with another wire type counts as unknown.
    """
    step, time = 0, 0.0
    values: list[bytes] = []
    for number, kind, value in wire.fields(content):
        match number, kind:
            case 1, wire.FIXED64:
                (time,) = _DOUBLE.unpack(value)
            case 2, wire.VARINT:
                step = wire.signed(value)
            case 5, wire.BYTES:
                values += _messages(value, 1)
    return [_value(value, step, time) for value in values]


def scalar(summary: Summary) -> float | None:
    """The number, if that is what it is."""
    if summary.kind == "scalar":
        return float(_FLOAT.unpack(summary.data)[0])
    if summary.kind != "tensor" or summary.plugin not in ("scalars", ""):
        return None
    numbers = tensor_numbers(summary.data)
    return numbers[0] if len(numbers) == 1 and _is_single(summary.data) else None


def histogram(summary: Summary) -> HistogramPoint | None:
    if summary.kind == "histogram":
        found: dict[int, list[bytes]] = {6: [], 7: []}
        for number, kind, value in wire.fields(summary.data):
            if number in found and kind in _DOUBLES:
                found[number].append(value)
        limits, counts = (_unpacked(b"".join(parts), "d") for parts in found.values())
        return HistogramPoint(summary.step, summary.time, limits, counts)
    if summary.kind == "tensor" and summary.plugin == "histograms":
        # Rows of lower edge, upper edge and count.
        numbers = tensor_numbers(summary.data)
        return HistogramPoint(summary.step, summary.time, numbers[1::3], numbers[2::3])
    return None


def text(summary: Summary) -> TextPoint | None:
    if summary.kind != "tensor" or summary.plugin != "text":
        return None
    texts = [value.decode(errors="replace") for value in tensor_strings(summary.data)]
    return TextPoint(summary.step, summary.time, "\n".join(texts))


def images(summary: Summary) -> list[ImagePoint]:
    if summary.kind == "image":
        found = _messages(summary.data, 4)
    elif summary.kind == "tensor" and summary.plugin == "images":
        found = tensor_strings(summary.data)[2:]  # width and height come first
    else:
        found = []
    return [ImagePoint(summary.step, summary.time, data) for data in found]


def hparams(summary: Summary) -> dict[str, bool | str | float]:
    """The hyperparameters that a session's start names; empty for other summaries."""
    if summary.plugin != "hparams":
        return {}
    found: dict[str, bool | str | float] = {}
    for start in _messages(summary.plugin_data, 3):
        for entry in _messages(start, 1):
            name, value = b"", b""
            for number, kind, part in wire.fields(entry):
                if (number, kind) == (1, wire.BYTES):
                    name = part
                elif (number, kind) == (2, wire.BYTES):
                    value = part
            found[name.decode(errors="replace")] = _any_value(value)
    return found


def _is_single(tensor: bytes) -> bool:
    """Whether its shape has one number. A tensor may be written with one number and a large shape,
    which it fills; that is not a scalar.
    """
    dimensions = [each for shape in _messages(tensor, 2) for each in _messages(shape, 2)]
    return all(_size(dimension) == 1 for dimension in dimensions)


def _size(dimension: bytes) -> int:
    sizes = [
        value
        for number, kind, value in wire.fields(dimension)
        if (number, kind) == (1, wire.VARINT)
    ]
    return sizes[-1] if sizes else 0


def tensor_numbers(data: bytes) -> tuple[float, ...]:
    """The floats or doubles of a TensorProto: packed as its content, or one by one."""
    code, content = 0, b""
    for number, kind, value in wire.fields(data):
        if (number, kind) == (1, wire.VARINT):
            code = value
        elif (number, kind) == (4, wire.BYTES):
            content = value
    if code == wire.DT_FLOAT:
        return _unpacked(content, "f") if content else _numbers(data, 5, "f")
    if code == wire.DT_DOUBLE:
        return _unpacked(content, "d") if content else _numbers(data, 6, "d")
    return ()


def tensor_strings(data: bytes) -> list[bytes]:
    return _messages(data, 8)


def _value(data: bytes, step: int, time: float) -> Summary:
    tag = plugin = what = ""
    content = plugin_data = b""
    for number, kind, value in wire.fields(data):
        match number, kind:
            case 1, wire.BYTES:
                tag = value.decode(errors="replace")
            case 9, wire.BYTES:
                plugin, plugin_data = _plugin(value)
            case known if known in _KINDS:
                what, content = _KINDS[known], value
    return Summary(tag, step, time, what, plugin, content, plugin_data)


def _plugin(metadata: bytes) -> tuple[str, bytes]:
    name = content = b""
    for plugin in _messages(metadata, 1):
        for number, kind, value in wire.fields(plugin):
            if (number, kind) == (1, wire.BYTES):
                name = value
            elif (number, kind) == (2, wire.BYTES):
                content = value
    return name.decode(errors="replace"), content


def _messages(data: bytes, wanted: int) -> list[bytes]:
    """Texts, bytes or messages in the field of this number."""
    return [value for number, kind, value in wire.fields(data) if (number, kind) == (wanted, 2)]


def _numbers(data: bytes, wanted: int, form: str) -> tuple[float, ...]:
    """Floats ("f") or doubles ("d") in a repeated field, packed or not."""
    kinds = _FLOATS if form == "f" else _DOUBLES
    found = [
        value for number, kind, value in wire.fields(data) if number == wanted and kind in kinds
    ]
    return _unpacked(b"".join(found), form)


def _unpacked(packed: bytes, form: str) -> tuple[float, ...]:
    count, rest = divmod(len(packed), struct.calcsize(form))
    if rest:
        raise wire.NotAMessage(f"{len(packed)} bytes of numbers")
    return struct.unpack(f"<{count}{form}", packed)


def _any_value(data: bytes) -> bool | str | float:
    """A google.protobuf.Value: of several kinds the last counts."""
    found: bool | str | float = ""
    for number, kind, value in wire.fields(data):
        match number, kind:
            case 2, wire.FIXED64:
                found = float(_DOUBLE.unpack(value)[0])
            case 3, wire.BYTES:
                found = str(value.decode(errors="replace"))
            case 4, wire.VARINT:
                found = bool(value)
    return found
