import gzip
import os
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from trackside.errors import InputError, ObjectChanged
from trackside.storage.folder import FolderStore
from trackside.storage.locate import Location
from trackside.supervisor.channel_objects import ChannelObject
from trackside.supervisor.streams import PART_BYTES, RECORD_MAGIC, stream

Stored = Callable[[str, bytes], ChannelObject]


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    store = FolderStore(tmp_path / "bucket")

    def put(key: str, data: bytes) -> ChannelObject:
        entry = store.put(key, data)
        return ChannelObject(Location(store, key, f"s3://bucket/{key}"), key, entry)

    return put


def records(data: bytes) -> list[bytes]:
    """As the SageMaker SDK reads RecordIO."""
    found = []
    while data:
        magic, size = struct.unpack("<II", data[:8])
        assert magic == RECORD_MAGIC
        found.append(data[8 : 8 + size])
        data = data[8 + (size + 3) // 4 * 4 :]
    return found


def test_objects_follow_one_another_byte_by_byte(stored: Stored) -> None:
    contents = [os.urandom(size) for size in (0, 1, PART_BYTES, 2 * PART_BYTES + 5, 7)]
    items = [stored(f"{number}", content) for number, content in enumerate(contents)]
    assert b"".join(stream(items, unzip=False, records=False)) == b"".join(contents)


def test_sizes_that_a_manifest_did_not_say_are_requested(stored: Stored) -> None:
    known = stored("a", b"content")
    unknown = ChannelObject(known.location, "a")
    assert b"".join(stream([unknown], unzip=False, records=True))[8:15] == b"content"


@pytest.mark.parametrize("size", [0, 1, 3, 4, PART_BYTES + 1])
def test_each_object_and_value_becomes_one_padded_record(stored: Stored, size: int) -> None:
    content = os.urandom(size)
    data = b"".join(stream([stored("a", content), b"label"], unzip=False, records=True))
    assert len(data) % 4 == 0
    assert records(data) == [content, b"label"]


@pytest.mark.parametrize("with_records", [False, True])
def test_gzip_is_unpacked_on_the_way_also_of_several_members(
    stored: Stored, with_records: bool
) -> None:
    zeros = bytes(30 << 20)  # thirty megabytes from thirty kilobytes
    first = stored("a.gz", gzip.compress(b"one") + gzip.compress(b"two"))
    second = stored("b.gz", gzip.compress(zeros))
    large = os.urandom(PART_BYTES + 10)
    third = stored("c.gz", gzip.compress(large, 1))
    data = b"".join(stream([first, second, third, b"1"], unzip=True, records=with_records))
    if with_records:
        assert records(data) == [b"onetwo", zeros, large, b"1"]
    else:
        assert data == b"onetwo" + zeros + large + b"1"


def test_a_small_object_that_unfolds_hugely_comes_in_small_pieces(stored: Stored) -> None:
    item = stored("bomb.gz", gzip.compress(bytes(64 << 20)))
    assert max(map(len, stream([item], unzip=True, records=False))) <= 1 << 20


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"plain text", "not valid gzip"), (gzip.compress(os.urandom(9000))[:-20], "in the middle")],
    ids=["not gzip", "cut short"],
)
def test_what_is_not_gzip_is_reported_with_its_name(
    stored: Stored, data: bytes, words: str
) -> None:
    with pytest.raises(InputError, match=f"s3://bucket/bad.*{words}"):
        list(stream([stored("bad", data)], unzip=True, records=False))


def test_an_object_replaced_while_it_is_read_is_noticed(stored: Stored) -> None:
    item = stored("a", os.urandom(20 * PART_BYTES))
    reading = stream([item], unzip=False, records=False)
    next(iter(reading))
    stored("a", os.urandom(20 * PART_BYTES))
    with pytest.raises(ObjectChanged):
        list(reading)


def test_leaving_early_leaves_no_thread(stored: Stored) -> None:
    items = [stored(f"{number}", bytes(1000)) for number in range(100)]
    reading = stream(items, unzip=False, records=False)
    next(iter(reading))
    reading.close()  # type: ignore[attr-defined]  # a generator
    assert not [t for t in threading.enumerate() if t.name.startswith("trackside-fetch")]


def test_more_than_a_record_can_say_is_refused(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    with (tmp_path / "big").open("wb") as file:
        file.truncate(1 << 32)
    item = ChannelObject(Location(store, "big", "s3://bucket/big"), "big", store.stat("big"))
    with pytest.raises(InputError, match="more than a RecordIO record can hold"):
        next(iter(stream([item], unzip=False, records=True)))
