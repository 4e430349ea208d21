"""Both scanners against TensorBoard's own protobufs, record for record."""

import ctypes
import random
import struct

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.util.tensor_util import make_tensor_proto

from trackside.curves import records, wire
from trackside.curves.columns import Decoded
from trackside.curves.decode import decode
from trackside.curves.summaries import scalar, summaries

REALS = st.floats(width=32)
TAGS = st.sampled_from(["loss", "a/b", "", "é" * 70, "x" * 300])
STEPS = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 300)


def points(decoded: Decoded) -> list[tuple[str, int, float, float]]:
    return [
        (column.tag, *point)
        for column in decoded.columns
        for point in zip(
            column.steps.tolist(), column.times.tolist(), column.values.tolist(), strict=True
        )
    ]


def by_tag(rows: list[tuple[str, int, float, float]]) -> dict[str, list[bytes]]:
    """As bits, so that NaN equals NaN; in the order of writing for each tag."""
    found: dict[str, list[bytes]] = {}
    for tag, step, time, value in rows:
        found.setdefault(tag, []).append(struct.pack("<qdd", step, time, value))
    return found


@settings(max_examples=60)
@given(st.lists(st.tuples(TAGS, STEPS, st.floats(allow_nan=False), REALS), max_size=40))
def test_scalars_come_out_as_protobuf_wrote_them(rows: list[tuple[str, int, float, float]]):
    data = b"".join(
        records.frame(
            Event(
                wall_time=time,
                step=step,
                summary=Summary(value=[Summary.Value(tag=tag, simple_value=value)]),
            ).SerializeToString()
        )
        for tag, step, time, value in rows
    )
    for library in LIBRARIES:
        decoded = decode(data, library)
        assert by_tag([*points(decoded), *odd_points(decoded)]) == by_tag(rows)
        assert (decoded.consumed, decoded.lost_bytes) == (len(data), 0)


LIBRARIES: list[ctypes.CDLL | None] = [None]


@pytest.fixture(autouse=True, scope="module")
def _both_scanners(compiled: ctypes.CDLL):
    LIBRARIES.append(compiled)
    yield
    LIBRARIES.remove(compiled)


def odd_points(decoded: Decoded) -> list[tuple[str, int, float, float]]:
    rows = []
    for summary in [each for content in decoded.others for each in summaries(content)]:
        value = scalar(summary)
        assert value is not None
        rows.append((summary.tag, summary.step, summary.time, value))
    return rows


def plain(tag: str, step: int, value: float) -> bytes:
    value_ = Summary.Value(tag=tag, simple_value=value)
    event = Event(wall_time=1.5, step=step, summary=Summary(value=[value_]))
    return records.frame(event.SerializeToString())


def test_several_values_in_one_event_and_tensors_of_one_number_are_scalars(library):
    scalars = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="scalars"))
    event = Event(
        wall_time=2.0,
        step=7,
        summary=Summary(
            value=[
                Summary.Value(tag="a", simple_value=1.0),
                Summary.Value(tag="b", tensor=make_tensor_proto(2.5, "float32"), metadata=scalars),
                Summary.Value(tag="c", tensor=make_tensor_proto(0.1, "float64"), metadata=scalars),
            ]
        ),
    )
    decoded = decode(records.frame(event.SerializeToString()), library)
    rows = [*points(decoded), *odd_points(decoded)]
    assert rows == [("a", 7, 2.0, 1.0), ("b", 7, 2.0, 2.5), ("c", 7, 2.0, 0.1)]


def test_a_damaged_record_is_skipped_and_counted(library):
    framed = [plain("loss", step, step / 2) for step in range(100)]
    size = len(framed[50])
    broken = bytearray(framed[50])
    broken[20] ^= 1
    framed[50] = bytes(broken)
    decoded = decode(b"".join(framed), library)
    assert [step for _, step, _, _ in points(decoded)] == [*range(50), *range(51, 100)]
    assert (decoded.lost_bytes, decoded.num_lost) == (size, 1)


def test_a_damaged_header_loses_the_bytes_up_to_the_next_valid_one(library):
    framed = [plain("loss", step, step / 2) for step in range(100)]
    broken = bytearray(framed[50])
    broken[0] ^= 1
    data = b"".join([*framed[:50], bytes(broken), *framed[51:]])
    decoded = decode(data, library)
    assert [step for _, step, _, _ in points(decoded)] == [*range(50), *range(51, 100)]
    assert decoded.lost_bytes == len(broken)


def test_a_hole_of_zeros_is_damage_and_no_run_of_empty_records(library):
    good = plain("loss", 1, 1.0)
    decoded = decode(good + bytes(1000) + good, library)
    assert len(points(decoded)) == 2
    assert decoded.lost_bytes == 1000


def test_rubbish_of_every_kind_neither_crashes_nor_ends_the_reading(library):
    rng = random.Random(5)
    good = plain("loss", 1, 1.0)
    for length in (0, 1, 11, 12, 15, 16, 100, 3000):
        data = rng.randbytes(length)
        assert decode(data, library).consumed == 0
        assert decode(good + data, library).consumed == len(good)
        # Valid frames around content that is not an event.
        decoded = decode(records.frame(data) + good, library)
        assert len(points(decoded)) == 1


@settings(max_examples=200)
@given(st.data())
def test_one_flipped_byte_never_yields_a_wrong_point(data: st.DataObject):
    rows = [("loss", step, 1.5, step / 2) for step in range(20)]
    whole = bytearray(b"".join(plain(tag, step, value) for tag, step, _, value in rows))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    for library in LIBRARIES:
        assert set(points(decode(bytes(whole), library))) <= set(rows)


def test_more_tags_than_the_scanner_keeps_at_once_are_all_read(library):
    num_tags = 70_000
    data = b"".join(plain(f"tag {number:5}", number, 1.0) for number in range(num_tags))
    decoded = decode(data, library)
    assert sorted(step for _, step, _, _ in points(decoded)) == [*range(num_tags)]


def test_one_event_with_more_tags_than_the_scanner_keeps_is_read(library):
    values = [Summary.Value(tag=f"tag {number}", simple_value=1.0) for number in range(65_537)]
    event = Event(wall_time=1.5, step=3, summary=Summary(value=values))
    data = records.frame(event.SerializeToString()) + plain("loss", 4, 1.0)
    decoded = decode(data, library)
    rows = [*points(decoded), *odd_points(decoded)]
    assert len({tag for tag, *_ in rows}) == 65_538
    assert decoded.consumed == len(data)


def test_any_number_of_values_without_a_tag_fits(library):
    values = [Summary.Value(simple_value=float(number)) for number in range(500)]
    data = records.frame(Event(summary=Summary(value=values)).SerializeToString())
    decoded = decode(data, library)
    rows = [*points(decoded), *odd_points(decoded)]
    assert [value for *_, value in rows] == [*range(500)]


def test_tags_that_are_made_to_collide_are_read_without_a_search_through_all(compiled):
    # The checksum is linear: what leaves it as it is may be added to any tag.
    tags, same = [b"\0" * 16], _tags_of_checksum_zero()
    for change in same:
        tags += [bytes(a ^ b for a, b in zip(tag, change, strict=True)) for tag in tags]
    assert len({records.crc32c(tag) for tag in tags}) == 1
    contents = (
        wire.event(1.5, 1, wire.summary(wire.message(1, t) + b"\x15\0\0\0\0")) for t in tags
    )
    data = b"".join(map(records.frame, contents))
    decoded = decode(data, compiled)
    assert len(points(decoded)) == len(tags) == 1 << len(same)


def test_one_number_in_a_shape_of_many_is_no_scalar(library):
    """It would fill the shape, which may be of billions."""
    shapes = [wire.integer(1, 10**11), wire.integer(1, 0), b""]
    for size in shapes:
        number = wire.message(5, bytes(4))
        tensor = wire.integer(1, wire.DT_FLOAT) + wire.message(2, wire.message(2, size)) + number
        content = wire.summary(
            wire.text(1, "loss") + wire.message(8, tensor) + wire.metadata("scalars")
        )
        decoded = decode(records.frame(content), library)
        assert points(decoded) == []
        (other,) = decoded.others
        assert [scalar(each) for each in summaries(other)] == [None]


def _tags_of_checksum_zero() -> list[bytes]:
    """Changes of sixteen bytes that the checksum does not see: its kernel, by elimination."""
    zero = records.crc32c(bytes(16))
    found: dict[int, tuple[int, int]] = {}
    kernel = []
    for bit in range(48):
        change = 1 << bit
        seen = records.crc32c(change.to_bytes(16, "little")) ^ zero
        while seen and (top := seen.bit_length()) in found:
            other, also = found[top]
            seen, change = seen ^ other, change ^ also
        if seen:
            found[seen.bit_length()] = seen, change
        else:
            kernel.append(change.to_bytes(16, "little"))
    return kernel


@pytest.mark.parametrize(
    "content",
    [
        wire.double(1, 1.0) + wire.double(1, 2.0) + wire.integer(2, 7) + wire.integer(2, 8)
        + wire.summary(wire.simple_value("loss", 0.5)),
        wire.event(1.0, 2**63, wire.summary(wire.simple_value("loss", 0.5))),
        b"\x10" + b"\xff" * 9 + b"\x7f" + wire.summary(wire.simple_value("loss", 0.5)),
        # A float in the place of doubles is none.
        wire.summary(
            wire.text(1, "loss") + wire.message(8, b"\x08\x01" + wire.message(6, b"\0\0\0\0"))
            + wire.metadata("scalars")
        ),
        # Metadata that are no message make it no event.
        wire.summary(
            wire.text(1, "loss") + wire.message(8, b"\x08\x01" + wire.message(5, b"\0\0\0\0"))
            + wire.message(9, wire.message(1, wire.text(1, "scalars") + b"\xff"))
        ),
    ],
    ids=["repeated field", "negative step", "long number", "wrong holder", "broken metadata"],
)  # fmt: skip
def test_both_scanners_take_an_odd_event_for_the_same(content: bytes, compiled: ctypes.CDLL):
    results: list[object] = []
    for library in (compiled, None):
        decoded = decode(records.frame(content), library)
        try:
            others = [
                (each, scalar(each)) for content in decoded.others for each in summaries(content)
            ]
        except wire.NotAMessage:
            results.append("no event")
            continue
        results.append([*points(decoded), *((s.tag, s.step, s.time, v) for s, v in others)])
    assert results[0] == results[1]


def test_events_of_several_forms_keep_the_order_of_their_tag(library):
    forms = [
        wire.event(0.0, 1, wire.summary(wire.simple_value("loss", 1.0))),
        wire.event(1.5, 2, wire.summary(wire.simple_value("loss", 1.0))),
        wire.event(1.5, 3, wire.summary(*[wire.simple_value("loss", 1.0)] * 2)),
        wire.event(1.5, 4, wire.summary(wire.scalar_tensor("loss", 1.0, is_double=True))),
        wire.event(1.5, 5, wire.summary(wire.simple_value("loss", 1.0))),
    ]
    decoded = decode(b"".join(map(records.frame, forms)), library)
    assert [step for _, step, _, _ in points(decoded)] == [1, 2, 3, 3, 4, 5]


def test_a_whole_block_of_rubbish_is_searched_many_offsets_at_a_time(library):
    good = plain("loss", 1, 1.0)
    rubbish = random.Random(3).randbytes(1 << 20)
    decoded = decode(good + rubbish + good, library)
    assert len(points(decoded)) == 2
    assert (decoded.lost_bytes, decoded.num_lost) == (1 << 20, 1)


def test_every_cut_of_a_file_gives_a_beginning_of_its_points(library):
    data = b"".join(plain("loss", step, step / 2) for step in range(5))
    whole = points(decode(data, library))
    for cut in range(len(data)):
        decoded = decode(data[:cut], library)
        assert points(decoded) == whole[: len(points(decoded))]
        assert decoded.consumed <= cut
    assert numpy.isclose(whole[-1][3], 2.0)
