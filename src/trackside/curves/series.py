"""One run's curves in memory, in TensorBoard's terms: by tag, of one of three kinds.

Scalars are columns with every point. Tensors (histograms, texts, hyperparameters) and blob
sequences (images, audio, graphs) are stored unchanged; of large ones, a sample.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from tensorboard import data_compat, dataclass_compat
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2
from tensorboard.plugins.scalar import metadata as scalar_metadata
from tensorboard.util import tensor_util

from trackside.curves.columns import Column
from trackside.curves.downsample import in_order

MOST_TAG_BYTES = 64 << 20
"""Of one tag's tensors and blobs. Beyond it, every other one is dropped: TensorBoard requests ten
images or five hundred histograms."""
_UNREADABLE = (DecodeError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What TensorBoard's parser raises for an invalid event."""


class Scalars:
    """One tag's points, in the order they were written."""

    def __init__(self, metadata: summary_pb2.SummaryMetadata) -> None:
        self.metadata = metadata
        self._parts: list[Column] = []
        self._waiting: list[tuple[int, float, float]] = []
        self._ordered: Column | None = None

    def add(self, step: int, time: float, value: float) -> None:
        self._waiting.append((step, time, value))
        self._ordered = None

    def extend(self, column: Column) -> None:
        self._settle()
        self._parts.append(column)
        self._ordered = None

    def column(self) -> Column:
        """The valid points: what a resumed script rewrote replaces the old ones."""
        if self._ordered is None:
            self._settle()
            whole = _joined(self._parts)
            self._parts = [whole]
            kept = in_order(whole.steps)
            self._ordered = whole if kept is None else _chosen(whole, kept)
        return self._ordered

    def _settle(self) -> None:
        if self._waiting:
            steps, times, values = zip(*self._waiting, strict=True)
            self._parts.append(Column("", np.array(steps), np.array(times), np.array(values)))
            self._waiting = []


@dataclass(slots=True)
class Tensors:
    """One tag's tensors or blob sequences; `metadata.data_class` says which."""

    metadata: summary_pb2.SummaryMetadata
    steps: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    values: list[tensor_pb2.TensorProto] = field(default_factory=list)
    size_bytes: int = 0

    def add(self, step: int, time: float, value: tensor_pb2.TensorProto) -> None:
        self.steps.append(step)
        self.times.append(time)
        self.values.append(value)
        self.size_bytes += value.ByteSize()
        if self.size_bytes > MOST_TAG_BYTES and len(self.steps) > 2:
            for kept in (self.steps, self.times, self.values):
                del kept[1:-1:2]  # never the first or the last
            self.size_bytes = sum(value.ByteSize() for value in self.values)

    def blobs(self, index: int) -> Sequence[bytes]:
        """As many as there are, whatever the shape claims."""
        strings: Sequence[bytes] = self.values[index].string_val
        return strings

    def kept(self) -> list[int]:
        """The indices of the valid ones; see `in_order`."""
        order = in_order(np.array(self.steps))
        return list(range(len(self.steps))) if order is None else np.flatnonzero(order).tolist()


class Run:
    """Everything below one folder of event files."""

    def __init__(self) -> None:
        self.scalars: dict[str, Scalars] = {}
        self.tensors: dict[str, Tensors] = {}
        self.first_time = 0.0
        self._first_metadata: dict[str, summary_pb2.SummaryMetadata] = {}

    def add_scalars(self, column: Column) -> None:
        self._see(float(column.times[0]))
        self._scalars(column.tag).extend(column)

    def is_added(self, content: bytes) -> bool:
        """Add one event that is more than plain scalars, in its encoded form.

        False if TensorBoard cannot parse it.
        """
        try:
            event = event_pb2.Event.FromString(content)
            self._see(event.wall_time)
            for value in self._values(event):
                self._add_value(event.step, event.wall_time, value)
        except _UNREADABLE:
            return False
        return True

    def _add_value(self, step: int, time: float, value: summary_pb2.Summary.Value) -> None:
        metadata = self._first_metadata[value.tag]
        if metadata.data_class == summary_pb2.DATA_CLASS_SCALAR:
            number = _number(value.tensor)  # before there is a series without points
            self._scalars(value.tag, metadata).add(step, time, number)
        elif metadata.data_class != summary_pb2.DATA_CLASS_UNKNOWN:
            self.tensors.setdefault(value.tag, Tensors(metadata)).add(step, time, value.tensor)

    def plugins(self) -> set[str]:
        metadata = [
            *(series.metadata for series in self.scalars.values()),
            *(series.metadata for series in self.tensors.values()),
        ]
        return {each.plugin_data.plugin_name for each in metadata}

    def _values(self, event: event_pb2.Event) -> Iterator[summary_pb2.Summary.Value]:
        """Converted by TensorBoard's own code for old forms and its plugins' forms."""
        new = data_compat.migrate_event(event)
        for migrated in dataclass_compat.migrate_event(new, self._first_metadata):
            for value in migrated.summary.value:
                self._first_metadata.setdefault(value.tag, value.metadata)
                if value.metadata.data_class:  # filled in by the first event of a tag
                    self._first_metadata[value.tag].data_class = value.metadata.data_class
                yield value

    def _scalars(self, tag: str, metadata: summary_pb2.SummaryMetadata | None = None) -> Scalars:
        if tag not in self.scalars:
            if metadata is None:
                metadata = scalar_metadata.create_summary_metadata(display_name=tag, description="")
            self.scalars[tag] = Scalars(metadata)
        return self.scalars[tag]

    def _see(self, time: float) -> None:
        if time and (not self.first_time or time < self.first_time):
            self.first_time = time


def _number(tensor: tensor_pb2.TensorProto) -> float:
    """Of a tensor with one number; read before it would be expanded to its shape."""
    if any(dimension.size != 1 for dimension in tensor.tensor_shape.dim):
        raise ValueError("a scalar of another shape")
    return float(tensor_util.make_ndarray(tensor).item())


def _joined(parts: list[Column]) -> Column:
    if len(parts) == 1:
        return parts[0]
    return Column(
        parts[0].tag,
        np.concatenate([part.steps for part in parts]),
        np.concatenate([part.times for part in parts]),
        np.concatenate([part.values for part in parts]),
    )


def _chosen(column: Column, which: NDArray[np.bool_]) -> Column:
    return Column(column.tag, column.steps[which], column.times[which], column.values[which])
