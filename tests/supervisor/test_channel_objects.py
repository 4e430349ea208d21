from pathlib import Path

import pytest

from tests.supervisor.making import channel, job
from trackside.errors import InputError, UnknownScheme
from trackside.storage.folder import FolderStore
from trackside.storage.locate import Location
from trackside.supervisor.channel_objects import (
    Assignment,
    ChannelObject,
    as_files,
    assign,
    below_prefix,
    shuffled,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def put(home: Path, *keys: str) -> None:
    for key in keys:
        FolderStore(home / "buckets" / "bucket").put(key, key.encode())


def found(home: Path, uri: str) -> dict[str, str]:
    return {item.uri: item.name for item in below_prefix(channel(uri), home)}


def test_a_prefix_is_text_and_names_are_what_follows_it(home: Path) -> None:
    put(home, "data/train/a", "data/train/sub/b", "data/train2/c", "data/test/d")
    assert found(home, "s3://bucket/data/train/") == {
        "s3://bucket/data/train/a": "a",
        "s3://bucket/data/train/sub/b": "sub/b",
    }
    assert found(home, "s3://bucket/data/train") == {
        "s3://bucket/data/train/a": "a",
        "s3://bucket/data/train/sub/b": "sub/b",
        "s3://bucket/data/train2/c": "2/c",
    }
    assert list(found(home, "s3://bucket").values()) == [
        "data/test/d",
        "data/train/a",
        "data/train/sub/b",
        "data/train2/c",
    ]


def test_an_object_named_exactly_is_meant_alone(home: Path) -> None:
    put(home, "data/train.csv", "data/train.csv.bak")
    assert found(home, "s3://bucket/data/train.csv") == {"s3://bucket/data/train.csv": "train.csv"}


def test_nothing_below_a_prefix_is_reported_in_the_services_words(home: Path) -> None:
    put(home, "other")
    with pytest.raises(InputError) as caught:
        below_prefix(channel("s3://bucket/nothing/"), home)
    assert caught.value.message.startswith(
        'No S3 objects found under S3 URL "s3://bucket/nothing/" given in input data source'
    )
    assert str(home / "buckets" / "bucket") in caught.value.message


def test_a_path_without_files_is_named(home: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no files at '.*/nowhere'"):
        below_prefix(channel(str(tmp_path / "nowhere")), home)


def test_an_unknown_scheme_lists_the_known_ones(home: Path) -> None:
    with pytest.raises(UnknownScheme, match="s3://"):
        below_prefix(channel("ftp://host/data"), home)


def test_keys_are_ordered_by_bytes(home: Path) -> None:
    keys = ["a-b", "a/x", "a", "B", "\u00e9", "z", "10", "9"]
    put(home, *(f"p/{key}" for key in keys if key != "a"))
    names = list(found(home, "s3://bucket/p/").values())
    assert names == sorted((key for key in keys if key != "a"), key=str.encode)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_hosts_share_the_objects_evenly_and_without_overlap(count: int) -> None:
    items = [f"{number:02}" for number in range(10)]
    parts = [Assignment("File", index, count).part(items) for index in range(count)]
    assert sorted(item for part in parts for item in part) == items
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert parts[0][0] == "00"
    if count > 1:
        assert parts[1][0] == "01"


def test_more_hosts_than_objects_leaves_some_without() -> None:
    assert Assignment("File", 3, 5).part(["a", "b"]) == []


def test_replicated_channels_go_to_every_host_whole() -> None:
    spec = job(channel("s3://bucket/x"), hosts=3)
    assert [assign(spec, spec.inputs[0], host) for host in spec.hosts] == [Assignment("File")] * 3


def test_sharded_channels_number_the_hosts() -> None:
    sharded = channel("s3://bucket/x", distribution="ShardedByS3Key", input_mode="Pipe")
    spec = job(sharded, hosts=12)
    assert assign(spec, sharded, "algo-10") == Assignment("Pipe", 9, 12)


def test_a_channel_for_some_groups_is_shared_among_their_hosts_only() -> None:
    sharded = channel(
        "s3://bucket/x", distribution="ShardedByS3Key", instance_groups=("gpu", "spare")
    )
    spec = job(sharded, groups={"gpu": 2, "cpu": 1, "spare": 1})
    assert [assign(spec, sharded, host) for host in spec.hosts] == [
        Assignment("File", 0, 3),
        Assignment("File", 1, 3),
        None,
        Assignment("File", 2, 3),
    ]


def test_shuffling_differs_by_epoch_and_agrees_between_hosts() -> None:
    items = list(range(50))
    seeded = channel("s3://bucket/x", shuffle_seed=3)
    first = shuffled(items, seeded, 0)
    assert first == shuffled(items, seeded, 0)
    assert first != shuffled(items, seeded, 1)
    assert first != shuffled(items, channel("s3://bucket/x", shuffle_seed=4), 0)
    assert sorted(first) == items
    assert shuffled(items, channel("s3://bucket/x"), 1) == items


def named(*names: str) -> list[ChannelObject]:
    store = FolderStore(Path("/nowhere"))
    return [
        ChannelObject(Location(store, name, f"s3://b/{number}"), name)
        for number, name in enumerate(names)
    ]


@pytest.mark.parametrize("name", ["../x", "a/../../x", "", ".", "a//b", "a/.", "nul\0"])
def test_a_name_that_would_leave_the_folder_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"'s3://b/0' has no place in the channel's folder"):
        as_files(channel("s3://b"), named(name))


@pytest.mark.parametrize("names", [("a", "a"), ("a", "a/b"), ("a/b/c", "a/b")])
def test_two_objects_that_cannot_both_be_files_are_named(names: tuple[str, str]) -> None:
    with pytest.raises(InputError, match=r"s3://b/[01]' and 's3://b/[01]'.*Rename"):
        as_files(channel("s3://b"), named(*names))


def test_the_same_object_named_twice_is_one_file() -> None:
    (item,) = named("a")
    assert as_files(channel("s3://b"), [item, item]) == [item]
