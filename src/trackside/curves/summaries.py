"""What an event says, one value at a time: the slow way, for everything but plain scalars."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trackside.curves import wire

_KINDS = {2: "scalar", 4: "image", 5: "histogram", 6: "audio", 8: "tensor"}
"""Fields of Summary.Value that are its content."""


@dataclass(frozen=True, slots=True)
class Summary:
    """One value of an event. `data` is the content's message as it was written."""

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
    """The values of an event; none when it is of another kind, or is no event."""
    try:
        return list(_summaries(content))
    except wire.NotAMessage:
        return []


def scalar(summary: Summary) -> float | None:
    """The number, if that is what it is."""
    if summary.kind == "scalar":
        return float(struct.unpack("<f", summary.data)[0])
    if summary.kind != "tensor" or summary.plugin not in ("scalars", ""):
        return None
    numbers = tensor_numbers(summary.data)
    return numbers[0] if len(numbers) == 1 else None


def histogram(summary: Summary) -> HistogramPoint | None:
    if summary.kind == "histogram":
        found = {number: value for number, _, value in wire.fields(summary.data)}
        limits, counts = _doubles(found.get(6, b"")), _doubles(found.get(7, b""))
        return HistogramPoint(summary.step, summary.time, limits, counts)
    if summary.kind == "tensor" and summary.plugin == "histograms":
        # Rows of lower edge, upper edge and count.
        numbers = tuple(tensor_numbers(summary.data))
        return HistogramPoint(summary.step, summary.time, numbers[1::3], numbers[2::3])
    return None


def text(summary: Summary) -> TextPoint | None:
    if summary.kind != "tensor" or summary.plugin != "text":
        return None
    texts = [value.decode(errors="replace") for value in tensor_strings(summary.data)]
    return TextPoint(summary.step, summary.time, "\n".join(texts))


def images(summary: Summary) -> list[ImagePoint]:
    if summary.kind == "image":
        found = [value for number, _, value in wire.fields(summary.data) if number == 4]
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
    for number, _, start in wire.fields(summary.plugin_data):
        if number == 3:
            for entry_number, _, entry in wire.fields(start):
                if entry_number == 1:
                    pair = {number: value for number, _, value in wire.fields(entry)}
                    found[pair[1].decode(errors="replace")] = _any_value(pair.get(2, b""))
    return found


def tensor_numbers(data: bytes) -> list[float]:
    """The floats or doubles of a TensorProto."""
    found: dict[int, Any] = {}
    for number, _, value in wire.fields(data):
        found[number] = found[number] + value if number in (5, 6) and number in found else value
    if found.get(1) == wire.DT_FLOAT:
        packed, form = found.get(4) or found.get(5, b""), "f"
    elif found.get(1) == wire.DT_DOUBLE:
        packed, form = found.get(4) or found.get(6, b""), "d"
    else:
        return []
    size = struct.calcsize(form)
    return list(
        struct.unpack(f"<{len(packed) // size}{form}", packed[: len(packed) // size * size])
    )


def tensor_strings(data: bytes) -> list[bytes]:
    return [value for number, _, value in wire.fields(data) if number == 8]


def _summaries(content: bytes) -> Iterator[Summary]:
    found = list(wire.fields(content))
    time = next((struct.unpack("<d", value)[0] for number, _, value in found if number == 1), 0.0)
    step = next((wire.signed(value) for number, _, value in found if number == 2), 0)
    for number, kind, summary in found:
        if number == 5 and kind == 2:
            for value_number, _, value in wire.fields(summary):
                if value_number == 1:
                    yield _value(value, step, time)


def _value(data: bytes, step: int, time: float) -> Summary:
    tag = plugin = kind = ""
    content = plugin_data = b""
    for number, _, value in wire.fields(data):
        if number == 1:
            tag = value.decode(errors="replace")
        elif number == 9:
            plugin, plugin_data = _plugin(value)
        elif number in _KINDS:
            kind, content = _KINDS[number], value
    return Summary(tag, step, time, kind, plugin, content, plugin_data)


def _plugin(metadata: bytes) -> tuple[str, bytes]:
    for number, _, plugin in wire.fields(metadata):
        if number == 1:
            found = {number: value for number, _, value in wire.fields(plugin)}
            return found.get(1, b"").decode(errors="replace"), found.get(2, b"")
    return "", b""


def _doubles(packed: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(packed) // 8}d", packed)


def _any_value(data: bytes) -> bool | str | float:
    for number, _, value in wire.fields(data):
        if number == 2:
            return float(struct.unpack("<d", value)[0])
        if number == 3:
            return str(value.decode(errors="replace"))
        if number == 4:
            return bool(value)
    return ""
