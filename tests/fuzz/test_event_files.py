"""Event files that were damaged, cut, spliced or made by an enemy: read to their end, both ways."""

import os
import shutil
import struct
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest
from tensorboard.data.proto import data_provider_pb2

from tests.fuzz import bounded
from tests.fuzz.mutations import ODD_NUMBERS, damaged, damaged_message
from tests.fuzz.rounds import rounds
from tests.native_build import build
from trackside import curves
from trackside.curves import native, records, wire
from trackside.curves.chunks import Chunk, Source
from trackside.curves.columns import Decoded
from trackside.curves.decode import decode
from trackside.curves.event_reader import Curves, Follower
from trackside.curves.provider import Library
from trackside.curves.provider_server import Provider
from trackside.curves.summaries import scalar, summaries
from trackside.storage.locate import locate

SCANNER = "FUZZED_SCANNER"
"""Names the library that the child tests."""
NAME = "events.out.tfevents.0000000001.host.1.0"


def event(rng: Random) -> bytes:
    """An event of any kind that a script may write."""
    tag = rng.choice(("loss", "a/b", "", "é" * 70, "x" * 300))
    step, time = rng.choice((0, 1, 300, 2**62, -1)), rng.choice((0.0, 1.5, 1.7e9))
    number = rng.choice((0.0, 1.5, float("nan"), float("inf")))
    doubles = struct.pack("<3d", 0.0, 1.0, 2.0)
    image = wire.text(1, tag) + wire.message(4, wire.integer(1, 2) + wire.text(4, b"\x89PNG"))
    start = wire.hparams_start({"lr": 0.1, "name": "adam", "fast": True})
    shape = wire.message(2, wire.message(2, wire.integer(1, 3)))
    pictures = (
        wire.integer(1, wire.DT_STRING)
        + shape
        + b"".join(wire.message(8, text) for text in (b"1", b"1", b"\x89PNG"))
    )
    values = {
        "usual": [wire.simple_value(tag, number)],
        "several": [wire.simple_value(f"{tag}{place}", number) for place in range(3)],
        "float": [wire.scalar_tensor(tag, number, is_double=False)],
        "double": [wire.scalar_tensor(tag, number, is_double=True)],
        "text": [wire.text_value(tag, "hello")],
        "histogram": [wire.histogram_value(tag, (0.0, 1.0, 2.0, 3.0, 4.0), doubles, doubles)],
        "image": [image],
        "images": [wire.text(1, tag) + wire.message(8, pictures) + wire.metadata("images")],
        "hparams": [wire.hparams_value("session_start_info", start)],
    }
    what = rng.choice([*values, "usual", "usual", "version", "session"])
    if what in values:
        return wire.event(time, step, wire.summary(*values[what]))
    return wire.event(
        time, step, wire.file_version() if what == "version" else wire.session_start()
    )


def damaged_file(rng: Random) -> bytes:
    """Damaged inside of sound frames, or across them, or both."""
    contents = [event(rng) for _ in range(rng.randint(1, 12))]
    for _ in range(rng.choice((0, 1, 1, 2))):
        at = rng.randrange(len(contents))
        damage = rng.choice((damaged, damaged_message))
        contents[at] = damage(rng, contents[at])
    frames = [records.frame(content) for content in contents]
    if rng.random() < 0.3:  # a sound header that tells another length
        at = rng.randrange(len(frames))
        length = rng.choice((len(contents[at]) + 1, *ODD_NUMBERS))
        frames[at] = records.header(length) + frames[at][records.HEADER_BYTES :]
    data = b"".join(frames)
    for _ in range(rng.choice((0, 0, 1, 2))):
        data = damaged(rng, data)
    return data


def both_scanners_agree(rng: Random, folder: Path) -> None:
    library = native.load(Path(os.environ[SCANNER]))
    assert library is not None
    data = damaged_file(rng)
    compiled, plain = decode(data, library), decode(data, None)
    assert _said(compiled) == _said(plain)
    assert compiled.consumed <= len(data)
    for cut in (rng.randrange(len(data) + 1) if data else 0, compiled.consumed):
        part = decode(data[:cut], library)
        assert _said(part) == _said(decode(data[:cut], None))
        assert part.consumed <= compiled.consumed


def _said(decoded: Decoded) -> tuple[Any, ...]:
    """All that is in it, whichever way it went. Values as bits, so that NaN equals NaN."""
    found, others, num_bad = [], [], 0
    for column in decoded.columns:
        lists = (column.steps.tolist(), column.times.tolist(), column.values.tolist())
        found += [(column.tag, struct.pack("<qdd", *row)) for row in zip(*lists, strict=True)]
    for content in decoded.others:
        try:
            for each in summaries(content):
                number = scalar(each)
                if number is None:
                    others.append((each.tag, each.step, each.kind, each.plugin, each.data))
                else:
                    found.append((each.tag, struct.pack("<qdd", each.step, each.time, number)))
        except wire.NotAMessage:
            num_bad += 1
    sizes = (decoded.consumed, decoded.lost_bytes, decoded.num_lost, num_bad)
    return sizes, sorted(found), sorted(others)


def a_damaged_file_is_read(rng: Random, folder: Path) -> None:
    """Whole, in pieces of which some are missing, and while it grows."""
    data = damaged_file(rng)
    whole, pieces, growing = (folder / name for name in ("whole", "pieces", "growing"))
    for place in (whole, pieces, growing):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
    (whole / NAME).write_bytes(data)
    found = curves.read(whole)
    _check(found)
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(5)))
    follower = Follower(growing)
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        with open(growing / NAME, "ab") as file:
            file.write(data[start:end])
        follower.update()
        if rng.random() < 0.8:
            chunk = Chunk(Source("", NAME, "algo-1"), start, sent=10**15 + start)
            (pieces / chunk.path).write_bytes(data[start:end])
    assert _summary(follower.curves) == _summary(found)
    _check(curves.read(pieces))


def _check(found: Curves) -> None:
    for series in found.scalars.values():
        assert series.steps.dtype == "int64"
        assert len(series.steps) == len(series.times) == len(series.values)
    if found.num_points < 20:
        assert len(found.to_pandas()) == found.num_points
    assert all(count > 0 for count in found.num_damaged.values())


def _summary(found: Curves) -> tuple[Any, ...]:
    points = {key: sorted(series.values.astype(str)) for key, series in found.scalars.items()}
    kinds = (found.histograms, found.texts, found.images, found.others)
    sizes = [{key: len(values) for key, values in kind.items()} for kind in kinds]
    return points, sizes, found.hparams, found.lost_bytes, found.unread_bytes, found.num_damaged


def damage_costs_one_record(rng: Random, folder: Path) -> None:
    """All before and behind it is read, and it is counted."""
    num_records = rng.randint(2, 30)
    frames = [
        bytearray(
            records.frame(wire.event(1.5, step, wire.summary(wire.simple_value("loss", step))))
        )
        for step in range(1, num_records + 1)
    ]
    at = rng.randrange(num_records)
    size, content = len(frames[at]), bytes(frames[at][12:-4])
    match rng.randrange(3):
        case 0:  # the header
            frames[at][rng.randrange(12)] ^= 1 << rng.randrange(8)
        case 1:  # the content, or its checksum
            frames[at][rng.randrange(12, size)] ^= 1 << rng.randrange(8)
        case _:  # sound frames around something else
            frames[at][:] = records.frame(damaged_message(rng, content))
            size = 0
    (folder / NAME).write_bytes(b"".join(frames))
    found = curves.read(folder)
    steps = [step for step in range(1, num_records + 1) if step != at + 1]
    read = [step for series in found.scalars.values() for step in series.steps.tolist()]
    assert set(steps) <= set(read)
    is_last_header_lost = at == num_records - 1 and found.unread_bytes
    if size and not is_last_header_lost:
        assert found.num_damaged == {NAME: 1}
        assert found.lost_bytes == {NAME: size}


def tensorboard_gets_answers(rng: Random, folder: Path) -> None:
    """The ten questions of its data provider, about a damaged file."""
    shutil.rmtree(folder / "job", ignore_errors=True)
    (folder / "job").mkdir()
    (folder / "job" / NAME).write_bytes(damaged_file(rng))
    place = locate(str(folder / "job"), home=folder)
    provider: Any = Provider(Library(lambda name: lambda: [place], ["job"]))
    request, context = data_provider_pb2, Context()
    plugins = provider.ListPlugins(request.ListPluginsRequest(), context).plugins
    provider.ListRuns(request.ListRunsRequest(), context)
    for plugin in plugins:
        asked = {"plugin_filter": {"plugin_name": plugin.name}}
        few = {**asked, "downsample": {"num_points": 5}}
        provider.ListScalars(request.ListScalarsRequest(**asked), context)
        provider.ReadScalars(request.ReadScalarsRequest(**few), context)
        provider.ListTensors(request.ListTensorsRequest(**asked), context)
        provider.ReadTensors(request.ReadTensorsRequest(**few), context)
        provider.ListBlobSequences(request.ListBlobSequencesRequest(**asked), context)
        blobs = provider.ReadBlobSequences(request.ReadBlobSequencesRequest(**few), context)
        for reference in _references(blobs):
            with suppress(Aborted):  # two events of one step, and the later has fewer blobs
                asked_blob = request.ReadBlobRequest(blob_key=reference.blob_key)
                list(provider.ReadBlob(asked_blob, context))


class Aborted(Exception):
    """What gRPC's own context raises."""


class Context:
    """What the provider uses of gRPC's own: who calls, and the end of a call."""

    def peer(self) -> str:
        return "ipv4:127.0.0.1:50000"

    def abort(self, code: grpc.StatusCode, details: str) -> None:
        assert code is grpc.StatusCode.NOT_FOUND, details
        raise Aborted(details)


def _references(answer: Any) -> list[Any]:
    tags = [tag for run in answer.runs for tag in run.tags]
    return [ref for tag in tags for sequence in tag.data.values for ref in sequence.blob_refs]


@pytest.fixture(scope="module")
def scanner(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    source = Path(native.__file__).with_name("scan.c")
    return {SCANNER: str(build(source, tmp_path_factory.mktemp("scan"), optimised="-O2"))}


def test_both_scanners_agree(scanner: dict[str, str]):
    bounded.play(both_scanners_agree, rounds(300), environment=scanner)


def test_a_damaged_file_is_read_whole_in_pieces_and_while_it_grows():
    bounded.play(a_damaged_file_is_read, rounds(80))


def test_damage_costs_one_record():
    bounded.play(damage_costs_one_record, rounds(200))


def test_tensorboard_gets_responses():
    bounded.play(tensorboard_gets_answers, rounds(150))
