"""From what the user wrote to a store and a key."""

import socket
import time
from pathlib import Path

import pytest

from tests.conftest import S3Server, environment_for
from trackside.errors import AccessRefused, InvalidKey, StoreUnreachable, UnknownScheme
from trackside.storage.folder import FolderStore
from trackside.storage.locate import locate, locate_object

HOME = Path("/home/of/trackside")


def test_s3_is_a_folder_under_home_until_an_endpoint_is_set() -> None:
    location = locate("s3://bucket/some/key", home=HOME)
    assert isinstance(location.store, FolderStore)
    assert location.local == HOME / "buckets/bucket/some/key"
    assert (location.key, str(location)) == ("some/key", "s3://bucket/some/key")


def test_s3_is_the_endpoint_once_it_is_set(
    s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    location = locate(f"s3://{bucket}/dir/", home=HOME)
    assert location.local is None
    location.child("object").store.put(location.child("object").key, b"there")
    answer = s3_server.client().get_object(Bucket=bucket, Key="dir/object")
    assert answer["Body"].read() == b"there"
    assert locate(f"s3://{bucket}/other", home=HOME).store is location.store


def test_an_endpoint_without_credentials_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(AccessRefused, match="set AWS_ACCESS_KEY_ID"):
        locate("s3://bucket/key", home=HOME)


def test_the_library_below_does_not_follow_variables_of_its_own(
    s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment_for(s3_server.url).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:1")
    location = locate(f"s3://{bucket}/key", home=HOME)
    location.store.put("key", b"x")


def test_a_folder_is_a_store_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "it's data"
    folder.mkdir()
    (folder / "a").write_bytes(b"1")
    for written in (folder, str(folder), f"{folder}/", f"file://{folder}".replace(" ", "%20")):
        location = locate(written, home=HOME)
        assert (location.key, location.local) == ("", folder)
        assert location.uri == str(folder)
        assert [entry.key for entry in location.store.list(location.key)] == ["a"]


def test_a_file_is_a_key_in_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "train.csv"
    file.write_bytes(b"1,2")
    location = locate(file, home=HOME)
    assert (location.key, location.local) == ("train.csv", file)
    assert location.store.get(location.key) == b"1,2"


def test_relative_paths_and_tildes_are_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert locate("data", home=HOME).local == tmp_path / "data"
    assert locate("./a/../b", home=HOME).local == tmp_path / "b"
    assert locate("~/data", home=HOME).local == Path("/home/somebody/data")


@pytest.mark.parametrize(
    ("uri", "name", "key", "child"),
    [
        ("s3://bucket", "x", "x", "s3://bucket/x"),
        ("s3://bucket/", "x", "x", "s3://bucket/x"),
        ("s3://bucket/a", "x/y", "a/x/y", "s3://bucket/a/x/y"),
        ("s3://bucket/a/", "x", "a/x", "s3://bucket/a/x"),
        ("s3://bucket/a%20b?c#d", "x", "a%20b?c#d/x", "s3://bucket/a%20b?c#d/x"),
        ("/data", "x", "x", "/data/x"),
        ("/", "x", "x", "/x"),
    ],
)
def test_a_child_is_below(uri: str, name: str, key: str, child: str) -> None:
    location = locate(uri, home=HOME).child(name)
    assert (location.key, location.uri) == (key, child)


@pytest.mark.parametrize("name", ["", "..", "../x", "/x", "x/", "a//b", "a\0"])
def test_a_child_cannot_lead_elsewhere(name: str) -> None:
    with pytest.raises(InvalidKey):
        locate("s3://bucket/a", home=HOME).child(name)


@pytest.mark.parametrize("uri", ["ftp://host/x", "s3a://bucket/x", "http://host/x", "s3:/bucket/x"])
def test_an_unknown_form_is_refused_with_the_known_ones(uri: str) -> None:
    with pytest.raises(UnknownScheme, match="s3://, gs://, az://, file://"):
        locate(uri, home=HOME)


def test_a_web_address_comes_with_advice() -> None:
    with pytest.raises(UnknownScheme, match="AWS_ENDPOINT_URL_S3"):
        locate("https://host/bucket/key", home=HOME)


@pytest.mark.parametrize("bucket", ["", "..", "a", "a..b", "../..", ".hidden", "a b", "x" * 64])
def test_a_bucket_name_cannot_lead_elsewhere(bucket: str) -> None:
    with pytest.raises(InvalidKey, match="bucket name"):
        locate(f"s3://{bucket}/key", home=HOME)


def test_a_file_uri_of_another_machine_is_refused() -> None:
    with pytest.raises(InvalidKey, match="file:///absolute/path"):
        locate("file://server/share", home=HOME)


def test_a_hurried_request_to_a_store_that_is_away_ends_within_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        for name, value in environment_for(url).items():
            monkeypatch.setenv(name, value)
        place = locate_object("s3://bucket/jobs/x/job.json", home=tmp_path, hurried=True)
        started = time.monotonic()
        with pytest.raises(StoreUnreachable, match=f"{url}.*Check the address"):
            place.store.stat(place.key)
    assert time.monotonic() - started < 60


@pytest.mark.parametrize(
    "key", ["../../server", "a/../../../server/master.key", "..", "./a", "a/./b", "a/.."]
)
def test_no_key_leads_out_of_a_bucket_that_is_a_folder(key: str) -> None:
    """Code that reads `local` instead of the store would get a file of the server's."""
    for uri in (f"s3://bucket/{key}", f"s3://bucket/{key}/"):
        with pytest.raises(InvalidKey, match="segment"):
            locate(uri, home=HOME)
    with pytest.raises(InvalidKey):
        locate_object(f"s3://bucket/{key}", home=HOME)


def test_dots_within_a_name_are_plain(tmp_path: Path) -> None:
    assert locate("s3://bucket/a..b/.c/d.", home=tmp_path).key == "a..b/.c/d."
