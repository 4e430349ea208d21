"""One suite over every store: what `Store` promises, whoever implements it."""

import os
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.s3.conftest import REGION, S3Endpoint, serving
from tests.azurite import Azurite, azurite
from tests.conftest import S3Server
from trackside.api.s3.service import S3
from trackside.errors import InvalidKey, ObjectChanged, ObjectNotFound, StorageError
from trackside.storage.connect import open_bucket, open_s3
from trackside.storage.credentials import s3_access
from trackside.storage.folder import FolderStore
from trackside.storage.store import NOTHING, Store
from trackside.texts.storage_schemes import BY_NAME

MIB = 1 << 20
ODD_KEYS = [
    "plain",
    "with space/and 'quotes\".txt",
    "percent%41/plus+and=equals",
    "ünï/cödé-✓",
    ".hidden/..dots../...",
    "hash#question?&amp;<xml>",
    "back\\slash",
    "a" * 200,
    "deep/" * 30 + "leaf",
    "colon:semicolon;comma,tilde~",
]


def make_folder_store(request: pytest.FixtureRequest) -> Store:
    path: Path = request.getfixturevalue("tmp_path")
    return FolderStore(path / 'it\'s a "bucket"')


def make_s3_store(request: pytest.FixtureRequest) -> Store:
    server: S3Server = request.getfixturevalue("s3_server")
    access = s3_access(server.environment)
    assert access is not None
    return open_s3(server.make_bucket(), access)


@pytest.fixture(scope="session")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Endpoint]:
    home = tmp_path_factory.mktemp("server")
    with serving(S3(home / "buckets"), home) as endpoint:
        yield endpoint


def make_own_s3_store(request: pytest.FixtureRequest) -> Store:
    server: S3Endpoint = request.getfixturevalue("own_server")
    access = s3_access(server.environment)
    assert access is not None
    bucket = f"bucket-{uuid.uuid4().hex[:12]}"
    server.client().create_bucket(
        Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION}
    )
    return open_s3(bucket, access)


@pytest.fixture(scope="session")
def azure_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    with azurite(tmp_path_factory.mktemp("azurite")) as server:
        yield server


def make_azure_store(request: pytest.FixtureRequest) -> Store:
    server: Azurite = request.getfixturevalue("azure_server")
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return open_bucket(BY_NAME["az"], server.make_container())


STORES = [make_folder_store, make_s3_store, make_own_s3_store, make_azure_store]


@pytest.fixture(params=STORES, ids=lambda make: make.__name__.removeprefix("make_"))
def store(request: pytest.FixtureRequest) -> Store:
    make: Callable[[pytest.FixtureRequest], Store] = request.param
    return make(request)


def keys(store: Store, *args: str, **kwargs: str) -> list[str]:
    return [entry.key for entry in store.list(*args, **kwargs)]


def test_an_object_is_read_again_only_if_it_has_changed(store: Store):
    with pytest.raises(ObjectNotFound):
        store.get_newer("a", None)
    first = store.put("a", b"one")
    assert store.get_newer("a", None) == (b"one", first.etag)
    assert store.get_newer("a", first.etag) is None
    second = store.put("a", b"another")
    assert store.get_newer("a", first.etag) == (b"another", second.etag)
    store.delete(["a"])
    with pytest.raises(ObjectNotFound):
        store.get_newer("a", second.etag)


def test_what_is_put_can_be_read_back_whole_and_in_part(store: Store) -> None:
    entry = store.put("a/b", b"0123456789")
    assert (entry.key, entry.size_bytes) == ("a/b", 10)
    assert store.get("a/b") == b"0123456789"
    assert store.get("a/b", 3) == b"3456789"
    assert store.get("a/b", 3, 5) == b"34"
    assert type(store.get("a/b", 0, 4)) is bytes


def test_reading_piece_by_piece_gives_the_same_bytes(store: Store) -> None:
    content = os.urandom(3 * MIB)
    entry = store.put("k", content)
    pieces = list(store.read("k", etag=entry.etag))
    assert b"".join(pieces) == content
    assert max(map(len, pieces)) < len(content)
    assert b"".join(store.read("k", 100, MIB)) == content[100:MIB]
    assert b"".join(store.read("k", 3 * MIB)) == b""
    with pytest.raises(ObjectNotFound):
        list(store.read("nothing"))
    with pytest.raises(ObjectChanged):
        list(store.read("k", 5, etag="another"))


def test_a_range_is_cut_to_what_is_there(store: Store) -> None:
    store.put("k", b"0123456789")
    assert store.get("k", 8, 99) == b"89"
    assert store.get("k", 10) == b""
    assert store.get("k", 50, 60) == b""
    assert store.get("k", 4, 4) == b""


def test_an_empty_object_is_an_object(store: Store) -> None:
    store.put("empty/bytes", b"")
    store.put("empty/chunks", iter(()))
    assert store.get("empty/bytes") == b""
    assert store.get("empty/chunks") == b""
    assert keys(store) == ["empty/bytes", "empty/chunks"]


@pytest.mark.parametrize("key", ODD_KEYS)
def test_odd_names_survive(store: Store, key: str, request: pytest.FixtureRequest) -> None:
    if "\\" in key and "azure_store" in request.node.name:
        pytest.skip("Azurite lists a backslash as a slash")
    store.put(key, key.encode())
    assert store.get(key) == key.encode()
    assert store.stat(key).key == key
    assert keys(store) == [key]
    store.delete([key])
    assert keys(store) == []


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a\0b", "a\nb", "/"]
)
def test_a_key_that_no_store_can_hold_is_refused(store: Store, key: str) -> None:
    for call in (lambda: store.put(key, b""), lambda: store.get(key), lambda: store.stat(key)):
        with pytest.raises(InvalidKey):
            call()
    with pytest.raises(InvalidKey):
        store.delete([key])


def test_a_put_replaces_and_changes_the_etag(store: Store) -> None:
    first = store.put("k", b"first")
    second = store.put("k", b"again")
    assert store.get("k") == b"again"
    assert first.etag != second.etag
    found = store.stat("k")
    assert (found.key, found.size_bytes, found.etag) == (second.key, second.size_bytes, second.etag)


def test_a_read_of_another_version_is_refused(store: Store) -> None:
    old = store.put("k", b"old version")
    assert store.get("k", 0, 3, etag=old.etag) == b"old"
    store.put("k", b"new version")
    with pytest.raises(ObjectChanged, match="k"):
        store.get("k", 3, 6, etag=old.etag)


def test_a_large_file_and_many_chunks_arrive_unchanged(store: Store, tmp_path: Path) -> None:
    content = os.urandom(20 * MIB + 17)
    file = tmp_path / "large file"
    file.write_bytes(content)
    assert store.put("from/file", file).size_bytes == len(content)
    assert store.get("from/file") == content
    pieces = (content[start : start + 700_001] for start in range(0, len(content), 700_001))
    assert store.put("from/chunks", pieces).size_bytes == len(content)
    assert store.get("from/chunks", 11 * MIB, 12 * MIB) == content[11 * MIB : 12 * MIB]
    assert store.stat("from/chunks").size_bytes == len(content)


def test_chunks_that_end_in_an_error_leave_the_old_object(store: Store) -> None:
    def broken(size: int) -> Iterator[bytes]:
        yield bytes(size)
        raise FileNotFoundError("the caller's own trouble")

    store.put("k", b"old")
    for size in (10, 20 * MIB):
        with pytest.raises(FileNotFoundError, match="own trouble"):
            store.put("k", broken(size))
        with pytest.raises(FileNotFoundError, match="own trouble"):
            store.put("new", broken(size))
    assert store.get("k") == b"old"
    assert keys(store) == ["k"]


def test_a_missing_source_file_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no-such-file"):
        store.put("k", tmp_path / "no-such-file")
    assert keys(store) == []


def test_what_is_not_there_is_not_found(store: Store) -> None:
    store.put("folder/file", b"x")
    for key in ("nothing", "folder", "folder/file/below", "fold"):
        with pytest.raises(ObjectNotFound, match=key):
            store.get(key)
        with pytest.raises(ObjectNotFound, match=key):
            store.stat(key)


def test_listing_is_ordered_by_key_bytes(store: Store) -> None:
    names = ["a", "a!", "a-b/x", "a.b", "b/c/d", "b/c-d", "b/c", "B", "é", "z/é", "z/~", "b0", "b/"]
    made = [name for name in names if name not in ("b/c", "b/")]
    for name in made:
        store.put(name, name.encode())
    listed = list(store.list())
    assert [entry.key for entry in listed] == sorted(made, key=str.encode)
    assert [entry.size_bytes for entry in listed] == [len(e.key.encode()) for e in listed]


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("a/tr", ["a/tr", "a/train/x", "a/train/y", "a/train2/z"]),
        ("a/train", ["a/train/x", "a/train/y", "a/train2/z"]),
        ("a/train/", ["a/train/x", "a/train/y"]),
        ("a/train/y", ["a/train/y"]),
        ("a", ["a-b", "a/test/x", "a/tr", "a/train/x", "a/train/y", "a/train2/z", "a0"]),
        ("a0", ["a0"]),
        ("nothing", []),
        ("a/train/y/", []),
        ("/a", []),
        ("a//", []),
        ("../", []),
    ],
)
def test_a_prefix_is_text(store: Store, prefix: str, expected: list[str]) -> None:
    for key in ("a-b", "a/test/x", "a/tr", "a/train/x", "a/train/y", "a/train2/z", "a0", "b"):
        store.put(key, b".")
    assert keys(store, prefix) == expected


@pytest.mark.parametrize(
    ("prefix", "after", "expected"),
    [
        ("", "a/1", ["a/2", "a/3/x", "b"]),
        ("", "a/", ["a/1", "a/2", "a/3/x", "b"]),
        ("a/", "a/2", ["a/3/x"]),
        ("a/", "a/2zzz", ["a/3/x"]),
        ("a/", "a/3/x", []),
        ("a/", "Z", ["a/1", "a/2", "a/3/x"]),
        ("a/", "z", []),
        ("", "a//odd", ["a/1", "a/2", "a/3/x", "b"]),
        ("a/2", "a/1", ["a/2"]),
    ],
)
def test_listing_goes_on_after_a_key(
    store: Store, prefix: str, after: str, expected: list[str]
) -> None:
    for key in ("a/1", "a/2", "a/3/x", "b"):
        store.put(key, b".")
    assert keys(store, prefix, after=after) == expected


def test_listing_nothing_is_empty(store: Store) -> None:
    assert keys(store) == []
    assert keys(store, "some/where") == []


def test_deleting_twice_is_silent(store: Store) -> None:
    for key in ("a/1", "a/2", "b"):
        store.put(key, b".")
    store.delete(["a/1", "never/was"])
    store.delete(["a/1"])
    store.delete([])
    assert keys(store) == ["a/2", "b"]


def test_a_deleted_folder_name_can_become_an_object(store: Store) -> None:
    store.put("a/b/c", b".")
    store.delete(["a/b/c"])
    store.put("a", b"now an object")
    assert keys(store) == ["a"]


def test_readers_see_one_version_or_the_other_while_writers_race(store: Store) -> None:
    versions = [bytes([letter]) * 50_000 for letter in b"abcd"]
    store.put("k", versions[0])
    done = threading.Event()
    seen: list[Any] = []

    def read() -> None:
        seen.append(store.get("k"))
        while not done.is_set():
            seen.append(store.get("k"))

    def write(version: bytes) -> None:
        for _ in range(8):
            store.put("k", version)

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(version,)) for version in versions]
    for thread in (reader, *writers):
        thread.start()
    for writer in writers:
        writer.join()
    done.set()
    reader.join()
    assert seen
    assert set(seen) <= set(versions)


def test_putting_and_deleting_in_one_folder_do_not_disturb_each_other(store: Store) -> None:
    failures: list[BaseException] = []

    def churn(name: str) -> None:
        try:
            for _ in range(15):
                store.put(f"deep/folder/{name}", b".")
                store.delete([f"deep/folder/{name}"])
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=churn, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert keys(store) == []


def size_for(store: Store, size: int) -> int:
    """So much, if the store can put that with a condition; else as much as it can."""
    most = store.most_conditional_bytes
    return size if most is None else min(size, most)


@pytest.mark.parametrize("size", [3, 20 * MIB + 17])
def test_a_put_can_depend_on_what_is_there(
    store: Store, size: int, request: pytest.FixtureRequest
) -> None:
    if size > MIB and "[s3_store" in request.node.name:
        pytest.skip("moto ignores If-Match when an upload is completed")
    size = size_for(store, size)
    first, second, third = (letter * size for letter in (b"a", b"b", b"c"))
    created = store.put("k/x", first, replaces=NOTHING)
    assert store.stat("k/x").etag == created.etag
    with pytest.raises(ObjectChanged, match="k/x"):
        store.put("k/x", second, replaces=NOTHING)
    replaced = store.put("k/x", iter([second]), replaces=created.etag)
    assert (replaced.size_bytes, replaced.etag) == (size, store.stat("k/x").etag)
    with pytest.raises(ObjectChanged, match="k/x"):
        store.put("k/x", third, replaces=created.etag)
    assert store.get("k/x") == second
    store.delete(["k/x"])
    with pytest.raises(ObjectChanged, match="k/x"):
        store.put("k/x", third, replaces=replaced.etag)
    assert keys(store) == []
    store.put("k/x", third, replaces=NOTHING)
    assert store.get("k/x") == third


@pytest.mark.parametrize("size", [3, 20 * MIB])
def test_of_many_writers_with_the_same_condition_one_succeeds(
    store: Store, size: int, request: pytest.FixtureRequest
) -> None:
    if "[s3_store" in request.node.name:
        pytest.skip("moto checks a condition and writes in two steps")
    size = size_for(store, size)
    etag: str | None = NOTHING
    for letters in (b"abcd", b"efgh", b"ijkl"):  # an etag may depend on the content alone
        winners: list[bytes] = []

        def write(letter: bytes, replaces: str | None, winners: list[bytes]) -> None:
            try:
                store.put("k", letter * size, replaces=replaces)
            except ObjectChanged:
                return
            winners.append(letter)

        threads = [
            threading.Thread(target=write, args=(bytes([letter]), etag, winners))
            for letter in letters
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(winners) == 1
        assert store.get("k", 0, 1) == winners[0]
        etag = store.stat("k").etag


def test_more_than_can_depend_on_anything_is_refused(store: Store) -> None:
    if (most := store.most_conditional_bytes) is None:
        assert store.put("k", bytes(9 * MIB), replaces=NOTHING).size_bytes == 9 * MIB
        return
    with pytest.raises(StorageError, match="condition"):
        store.put("k", bytes(most + 1), replaces=NOTHING)
    assert keys(store) == []


def test_chunks_of_a_conditional_put_that_end_in_an_error_leave_the_old_object(
    store: Store,
) -> None:
    def broken(size: int) -> Iterator[bytes]:
        yield bytes(size)
        raise FileNotFoundError("the caller's own trouble")

    old = store.put("k", b"old")
    with pytest.raises(FileNotFoundError, match="own trouble"):
        store.put("k", broken(size_for(store, 20 * MIB)), replaces=old.etag)
    assert store.get("k") == b"old"
