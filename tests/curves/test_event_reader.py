"""`curves.read`, judged by what TensorBoard's EventAccumulator makes of the same files."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from torch.utils.tensorboard import SummaryWriter as TorchWriter

from trackside import curves
from trackside.curves import event_tail, wire
from trackside.curves.chunks import Chunk, Source
from trackside.curves.columns import Decoded
from trackside.curves.decode import decode
from trackside.curves.event_file import EventFile
from trackside.curves.event_tail import MOST_RECORD_BYTES
from trackside.curves.records import frame, header
from trackside.storage.folder import FolderStore
from trackside.storage.locate import Location
from trackside.storage.store import Entry


def test_a_folder_of_torch_is_read_as_tensorboard_reads_it(tmp_path):
    rng = numpy.random.default_rng(3)
    for run in ("first", "second"):
        with TorchWriter(str(tmp_path / run)) as writer:
            for step in range(300):
                writer.add_scalar("loss", float(rng.normal()), step)
                writer.add_scalar("new", float(rng.normal()), step, new_style=True)
            writer.add_scalar("odd", float("nan"), 5, walltime=3.0)
            writer.add_text("note", "hello *there*", 4)
            writer.add_histogram("weights", rng.normal(size=100), 2)
            writer.add_image("picture", rng.random((3, 4, 4)), 6)
            writer.add_hparams({"lr": 0.1, "name": "adam"}, {"accuracy": 0.9}, run_name="hp")
    found = curves.read(tmp_path)
    assert found.runs == ["first", "first/hp", "second", "second/hp"]
    for run in ("first", "second"):
        events = EventAccumulator(str(tmp_path / run), size_guidance={"scalars": 0, "tensors": 0})
        events.Reload()
        loss = found.scalars[run, "loss"]
        theirs = [(point.wall_time, point.step, point.value) for point in events.Scalars("loss")]
        assert [*zip(loss.times, loss.steps, loss.values, strict=True)] == theirs
        assert len(found.scalars[run, "new"]) == 300
        assert numpy.isnan(found.scalars[run, "odd"].values).all()
        (histogram,) = found.histograms[run, "weights"]
        assert sum(histogram.counts) == 100
        assert histogram.limits == tuple(
            events.Histograms("weights")[0].histogram_value.bucket_limit
        )
        assert found.texts[run, "note/text_summary"][0].text == "hello *there*"
        assert found.images[run, "picture"][0].data.startswith(b"\x89PNG")
        assert found.hparams[f"{run}/hp"] == {"lr": 0.1, "name": "adam"}


def test_a_follower_reads_only_what_is_new(tmp_path):
    file = EventFile(tmp_path / "run")
    follower = curves.Follower(tmp_path)
    assert follower.update() == 0
    for number in range(1, 4):
        for step in range(10):
            file.add(("loss", 1.0, number * 10 + step, 5.0))
        file.flush()
        assert follower.update() == 10
        assert follower.update() == 0
    assert follower.curves.scalars["run", "loss"].steps.tolist() == [*range(10, 40)]


def test_a_record_that_is_still_being_written_is_read_when_it_is_whole(tmp_path):
    file = EventFile(tmp_path)
    file.add(("loss", 1.0, 1, 5.0))
    file.close()
    whole = file.path.read_bytes()
    file.path.write_bytes(whole[:-3])
    follower = curves.Follower(tmp_path)
    assert follower.update() == 0
    assert list(follower.curves.unread_bytes.values()) == [
        len(whole) - 3 - len(frame(whole[12:36]))
    ]
    file.path.write_bytes(whole)
    assert follower.update() == 1
    assert follower.curves.unread_bytes == {}


def test_a_folder_that_is_not_there_yet_has_no_curves(tmp_path):
    found = curves.read(tmp_path / "later")
    assert (found.runs, found.num_points) == ([], 0)
    assert found.to_pandas().empty


def test_one_file_can_be_read_by_its_own_path(tmp_path):
    file = EventFile(tmp_path)
    file.add(("loss", 1.0, 1, 5.0))
    file.close()
    assert curves.read(file.path).num_points == 1


def test_a_file_that_is_no_event_file_is_reported_as_unread(tmp_path):
    (tmp_path / "x.tfevents.y").write_bytes(b"this is no event file at all")
    found = curves.read(tmp_path)
    assert found.num_points == 0
    assert found.unread_bytes == {"x.tfevents.y": 28}


def test_a_record_of_gigabytes_is_passed_over_without_being_loaded(tmp_path):
    file = EventFile(tmp_path)
    file.add(("loss", 1.0, 1, 5.0))
    file.close()
    after = EventFile(tmp_path / "other")
    after.add(("loss", 2.0, 2, 5.0))
    after.close()
    size = 2 << 30
    assert size > MOST_RECORD_BYTES
    with file.path.open("r+b") as huge:  # sparse: takes no space
        huge.seek(0, os.SEEK_END)
        start = huge.tell()
        huge.write(header(size))
        huge.seek(start + 12 + size + 4)
        huge.write(after.path.read_bytes())
    found = curves.read(file.path)
    assert found.scalars[".", "loss"].steps.tolist() == [1, 2]
    assert list(found.lost_bytes.values()) == [size + 16]


NAME = "events.out.tfevents.1"


def scalar_event(step: int) -> bytes:
    return wire.event(1.5, step, wire.summary(wire.simple_value("loss", 1.0)))


@pytest.mark.parametrize(
    "broken",
    [
        wire.summary(wire.message(5, wire.message(6, bytes(9)))),
        wire.summary(wire.message(5, b"\xff")),
        wire.summary(wire.message(8, b"\x08\x01" + wire.message(4, bytes(3)))),
        wire.summary(wire.message(4, b"\xff")),
        wire.summary(wire.hparams_value("session", wire.message(3, b"\xff"))),
        wire.summary(b"\xff"),
        b"\xff",
    ],
    ids=["edges", "histogram", "tensor", "image", "hparams", "value", "event"],
)
def test_an_event_that_cannot_be_made_out_is_skipped_and_counted(tmp_path, caplog, broken: bytes):
    contents = [scalar_event(1), broken, broken, scalar_event(2)]
    (tmp_path / NAME).write_bytes(b"".join(map(frame, contents)))
    found = curves.read(tmp_path)
    assert found.scalars[".", "loss"].steps.tolist() == [1, 2]
    assert found.num_damaged == {NAME: 2}
    (message,) = caplog.messages
    assert message.startswith(f"2 damaged records were skipped in event file {NAME} of {tmp_path}")


@pytest.mark.parametrize(
    "odd",
    [
        wire.integer(1, 5) + wire.summary(wire.simple_value("loss", 1.0)),
        wire.double(2, 5.0) + wire.summary(wire.simple_value("loss", 1.0)),
        wire.summary(wire.integer(1, 5) + wire.integer(2, 5) + wire.simple_value("loss", 1.0)),
        wire.summary(wire.integer(8, 5) + wire.simple_value("loss", 1.0)),
        wire.summary(wire.simple_value("loss", 1.0) + wire.integer(9, 7)),
        wire.summary(wire.simple_value("loss", 1.0) + wire.message(9, wire.integer(1, 7))),
    ],
    ids=["time", "step", "tag", "tensor", "metadata", "plugin"],
)
def test_a_field_of_another_type_is_unknown(tmp_path, odd: bytes):
    theirs = Event.FromString(odd)
    (tmp_path / NAME).write_bytes(frame(odd))
    series = curves.read(tmp_path).scalars[".", "loss"]
    assert series.steps.tolist() == [theirs.step]
    assert series.values.tolist() == [theirs.summary.value[0].simple_value]


def test_rubbish_longer_than_a_block_is_passed_over_block_by_block(tmp_path, monkeypatch):
    monkeypatch.setattr(event_tail, "BLOCK_BYTES", 4096)
    sizes = []

    def seen(data: bytes) -> Decoded:
        sizes.append(len(data))
        return decode(data)

    monkeypatch.setattr(event_tail, "decode", seen)
    good = frame(scalar_event(1))
    (tmp_path / NAME).write_bytes(good + b"\xee" * 100_000 + good)
    found = curves.read(tmp_path)
    assert found.scalars[".", "loss"].steps.tolist() == [1, 1]
    assert found.lost_bytes == {NAME: 100_000}
    assert max(sizes) == 4096


def test_a_record_whose_end_is_in_a_missing_piece_is_passed_over(tmp_path):
    framed = [frame(scalar_event(step)) for step in range(4)]
    size = len(framed[0])
    pieces = {0: framed[0] + framed[1][:15], 3 * size: framed[3]}
    for offset, data in pieces.items():
        chunk = Chunk(Source("", NAME, "algo-1"), offset, sent=10**15 + offset)
        (tmp_path / chunk.path).write_bytes(data)
    found = curves.read(tmp_path)
    assert found.scalars[".", "loss"].steps.tolist() == [0, 3]
    assert found.lost_bytes == {NAME: 2 * size}


class LongStore(FolderStore):
    """Returns a size that a file had before it was cut."""

    def list(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        for entry in super().list(prefix, after):
            yield Entry(entry.key, entry.size_bytes + 100)


def test_a_file_that_was_cut_after_the_listing_is_read_as_far_as_it_goes(tmp_path):
    (tmp_path / NAME).write_bytes(frame(scalar_event(1)))
    found = curves.read(Location(LongStore(tmp_path), "", str(tmp_path)))
    assert found.scalars[".", "loss"].steps.tolist() == [1]
    assert found.unread_bytes == {NAME: 100}


def test_a_time_that_no_calendar_has_is_none_in_the_table(tmp_path):
    event = wire.event(1e300, 1, wire.summary(wire.simple_value("loss", 1.0)))
    (tmp_path / NAME).write_bytes(frame(event))
    assert curves.read(tmp_path).to_pandas().time.isna().all()


class LateStore(FolderStore):
    """Its first listing is as old as a listing can be: one object in it is gone by now."""

    gone: Entry | None = None

    def list(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        if self.gone is not None:
            yield self.gone
            self.gone = None
        yield from super().list(prefix, after)


def test_an_object_that_vanishes_after_the_listing_hides_no_other(tmp_path):
    file = EventFile(tmp_path)
    file.add(("loss", 1.0, 1, 5.0))
    file.close()
    store = LateStore(tmp_path)
    store.gone = Entry("run/x.tfevents.1", 100)
    found = curves.read(Location(store, "", str(tmp_path)))
    assert found.scalars[".", "loss"].steps.tolist() == [1]


def test_pandas_gets_a_row_for_each_point(tmp_path):
    for run in ("a", "b"):
        file = EventFile(tmp_path / run)
        for step in range(3):
            file.add(("loss", step / 2, step, 1.7e9))
        file.close()
    frame_ = curves.read(tmp_path).to_pandas()
    assert list(frame_.columns) == ["run", "tag", "step", "time", "value"]
    assert frame_[frame_.run == "b"].value.tolist() == [0.0, 0.5, 1.0]
    assert str(frame_.time[0]) == "2023-11-14 22:13:20+00:00"


@pytest.mark.parametrize("times", [[5.0, 4.0, 3.0], [0.0, 0.0, 1e300]])
def test_time_may_run_backwards(tmp_path: Path, times: list[float]):
    file = EventFile(tmp_path)
    for step, time in enumerate(times):
        file.add(("loss", 1.0, step, time))
    file.close()
    assert curves.read(tmp_path).scalars[".", "loss"].times.tolist() == times
