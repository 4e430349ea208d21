import json
from pathlib import Path
from typing import Any

import pytest

from tests.supervisor.making import channel
from trackside.errors import InputError
from trackside.records.spec import Channel
from trackside.storage.folder import FolderStore
from trackside.supervisor.channel_objects import ChannelObject
from trackside.supervisor.manifests import manifest_lines, named_objects, sized, write_listing


@pytest.fixture
def home(tmp_path: Path) -> Path:
    store = FolderStore(tmp_path / "home" / "buckets" / "bucket")
    for key in ("images/1.jpg", "images/sub/2.jpg", "images/3.jpg"):
        store.put(key, key.encode())
    return tmp_path / "home"


def listed(home: Path, content: Any) -> Channel:
    text = content if isinstance(content, str) else json.dumps(content)
    FolderStore(home / "buckets" / "bucket").put("list.manifest", text.encode())
    return channel("s3://bucket/list.manifest", data_type="ManifestFile")


def augmented(home: Path, *lines: Any, attributes: tuple[str, ...]) -> Channel:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    FolderStore(home / "buckets" / "bucket").put("lines.manifest", text.encode())
    return channel(
        "s3://bucket/lines.manifest", data_type="AugmentedManifestFile", attributes=attributes
    )


def test_a_manifest_names_objects_below_a_prefix_in_its_order(home: Path) -> None:
    manifest = listed(home, [{"prefix": "s3://bucket/images/"}, "sub/2.jpg", "1.jpg"])
    found = named_objects(manifest, home)
    assert [(item.uri, item.name, item.size_bytes) for item in found] == [
        ("s3://bucket/images/sub/2.jpg", "sub/2.jpg", 16),
        ("s3://bucket/images/1.jpg", "1.jpg", 12),
    ]


def test_the_rest_is_appended_to_the_prefix_as_text(home: Path) -> None:
    manifest = listed(home, [{"prefix": "s3://bucket/im"}, "ages/1.jpg"])
    assert [item.uri for item in named_objects(manifest, home)] == ["s3://bucket/images/1.jpg"]
    manifest = listed(home, [{"prefix": "s3://bucket/images"}, "/1.jpg"])
    assert [item.name for item in named_objects(manifest, home)] == ["1.jpg"]


def test_a_manifest_may_be_on_this_machine_and_name_files_there(home: Path, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.csv").write_text("1,2")
    path = tmp_path / "local.manifest"
    path.write_text(json.dumps([{"prefix": f"{tmp_path}/files/"}, "a.csv"]))
    (item,) = named_objects(channel(str(path), data_type="ManifestFile"), home)
    assert (item.name, item.size_bytes) == ("a.csv", 3)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{not json", "is no JSON"),
        ([], "does not begin with a prefix"),
        ({"prefix": "s3://bucket/"}, "does not begin with a prefix"),
        (["s3://bucket/images/1.jpg"], "does not begin with a prefix"),
        ([{"prefix": "s3://bucket/images/"}], "names no object"),
        ([{"prefix": "s3://bucket/images/"}, 7], "has the entry 7"),
        ([{"prefix": "s3://bucket/images/"}, "4.jpg"], "names 's3://bucket/images/4.jpg', which"),
        ([{"prefix": "/nowhere/"}, "4.jpg"], "names '/nowhere/4.jpg', which is in no object store"),
        ([{"prefix": "file:///etc/"}, "passwd"], "names 'file:///etc/passwd', which is in no obj"),
        ([{"prefix": "FILE:///etc/"}, "passwd"], "which is in no object store"),
        ([{"prefix": ""}, "passwd"], "names 'passwd', which is in no object store"),
    ],
)
def test_a_manifest_that_cannot_be_used_gives_the_reason(
    home: Path, content: Any, words: str
) -> None:
    with pytest.raises(InputError) as caught:
        named_objects(listed(home, content), home)
    assert words in caught.value.message
    assert "'s3://bucket/list.manifest'" in caught.value.message


def test_a_missing_manifest_is_named(home: Path) -> None:
    with pytest.raises(InputError, match='under S3 URL "s3://bucket/none"'):
        named_objects(channel("s3://bucket/none", data_type="ManifestFile"), home)
    with pytest.raises(InputError, match="'/nowhere/m' is a folder or does not exist"):
        named_objects(channel("/nowhere/m", data_type="ManifestFile"), home)


def test_lines_give_the_attributes_requested_in_their_order(home: Path) -> None:
    first = {"source-ref": "s3://bucket/images/1.jpg", "label": 1, "other": [1]}
    second = {"label": "zwei", "source-ref": "s3://bucket/images/3.jpg", "meta": {"a": 0.5}}
    manifest = augmented(home, first, "", second, attributes=("label", "source-ref"))
    one, two = manifest_lines(manifest, home)
    assert [one.values[0], two.values[0]] == [b"1", b"zwei"]
    assert [item.uri for item in one.objects + two.objects] == [
        "s3://bucket/images/1.jpg",
        "s3://bucket/images/3.jpg",
    ]
    assert [item.name for item in one.objects] == ["bucket/images/1.jpg"]
    assert json.loads(two.text) == second


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"label": 1}, "has no 'source-ref' in line 2"),
        ("{broken", "has no JSON in line 2"),
        ("[1]", "has [1] in line 2"),
        ({"source-ref": 7}, "has 7 for 'source-ref' in line 2"),
    ],
)
def test_a_line_that_cannot_be_used_is_numbered(home: Path, line: Any, words: str) -> None:
    good = {"source-ref": "s3://bucket/images/1.jpg"}
    manifest = augmented(home, good, line, attributes=("source-ref",))
    with pytest.raises(InputError) as caught:
        manifest_lines(manifest, home)
    assert words in caught.value.message


def test_an_augmented_manifest_without_lines_is_refused(home: Path) -> None:
    with pytest.raises(InputError, match="has no lines"):
        manifest_lines(augmented(home, "", " ", attributes=("label",)), home)


@pytest.mark.parametrize("uri", ["/etc/passwd", "file:///etc/passwd", "passwd", "~/.ssh/id_rsa"])
def test_an_augmented_manifest_in_a_store_refers_to_no_file_of_this_machine(home: Path, uri: str):
    manifest = augmented(home, {"source-ref": uri}, attributes=("source-ref",))
    with pytest.raises(InputError, match="which is in no object store"):
        manifest_lines(manifest, home)


def test_a_manifest_on_this_machine_may_name_objects(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "local.manifest"
    path.write_text(json.dumps([{"prefix": "s3://bucket/images/"}, "1.jpg"]))
    (item,) = named_objects(channel(str(path), data_type="ManifestFile"), home)
    assert item.uri == "s3://bucket/images/1.jpg"


def test_sizes_are_requested_once_each(home: Path) -> None:
    manifest = augmented(home, {"a-ref": "s3://bucket/images/1.jpg"}, attributes=("a-ref",))
    (line,) = manifest_lines(manifest, home)
    assert [item.size_bytes for item in sized(manifest, line.objects)] == [12]
    (item,) = line.objects
    missing = ChannelObject(item.location.__class__(item.location.store, "none", "s3://b/none"), "")
    with pytest.raises(InputError, match="'s3://b/none', which does not exist"):
        sized(manifest, [missing])


def test_the_listing_has_the_prefix_and_every_object(home: Path, tmp_path: Path) -> None:
    manifest = listed(home, [{"prefix": "s3://bucket/images/"}, "1.jpg", "3.jpg"])
    path = tmp_path / "train-manifest"
    write_listing(path, channel("s3://bucket/images/"), named_objects(manifest, home))
    assert path.read_text() == ("images/\ns3://bucket/images/1.jpg\ns3://bucket/images/3.jpg\n")
