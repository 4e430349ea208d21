"""Downloads and uploads of many files, over both stores, when all is well and when it is not."""

import logging
import os
import threading
import time
from pathlib import Path

import pytest

from tests.conftest import S3Server, environment_for
from tests.fault_proxy import Fault, FaultProxy
from tests.small_disk import small_disk
from tests.wait import until
from trackside.errors import (
    DamagedTransfer,
    DiskFull,
    ObjectChanged,
    ObjectNotFound,
    StorageError,
    StoreUnreachable,
    TransferStopped,
)
from trackside.storage import download_target
from trackside.storage.connect import Retry, open_s3
from trackside.storage.credentials import s3_access
from trackside.storage.folder import FolderStore
from trackside.storage.partial_file import is_temporary
from trackside.storage.store import Entry, Store
from trackside.storage.transfer import PART_BYTES, Transferred, download, upload

MIB = 1 << 20
QUICK = Retry(max_retries=3, first_wait_seconds=0.01, longest_wait_seconds=0.05)


class Counter:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.num_files = self.size_bytes = self.calls = 0

    def add(self, num_files: int, size_bytes: int) -> None:
        with self.lock:
            self.num_files += num_files
            self.size_bytes += size_bytes
            self.calls += 1


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "folder":
        return FolderStore(tmp_path / "bucket")
    faulty: FaultProxy = request.getfixturevalue("faulty")
    return s3_store(faulty, request.getfixturevalue("bucket"))


def s3_store(faulty: FaultProxy, bucket: str) -> Store:
    access = s3_access(environment_for(faulty.url))
    assert access is not None
    return open_s3(bucket, access, QUICK)


@pytest.fixture
def s3(faulty: FaultProxy, bucket: str) -> Store:
    return s3_store(faulty, bucket)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "it's the target"


def fill(store: Store, sizes: dict[str, int]) -> dict[str, bytes]:
    contents = {key: os.urandom(size) for key, size in sizes.items()}
    for key, content in contents.items():
        store.put(key, content)
    return contents


def fetch(store: Store, target: Path, **options: object) -> Transferred:
    files = ((entry, target / entry.key) for entry in store.list())
    return download(store, files, **options)  # type: ignore[arg-type]


def contents_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def left_in(folder: Path) -> dict[str, bytes]:
    """What is there once the threads that were left behind have ended."""
    until(lambda: not any(is_temporary(name) for name in contents_of(folder)))
    return contents_of(folder)


def settled(entry: Entry) -> Entry:
    """The same, as if it had been written a while ago."""
    return Entry(entry.key, entry.size_bytes, entry.etag, entry.modified - 60)


def test_small_and_large_files_arrive_whole_and_are_counted(store: Store, target: Path) -> None:
    sizes = {f"small/{n}/file": n * 100 for n in range(30)}
    sizes |= {"large": 2 * PART_BYTES + 12_345, "exact": PART_BYTES, "just over": PART_BYTES + 1}
    contents = fill(store, sizes)
    counter = Counter()
    done = fetch(store, target, progress=counter)
    assert contents_of(target) == contents
    assert done == Transferred(len(sizes), sum(sizes.values()), 0)
    assert (counter.num_files, counter.size_bytes) == (len(sizes), sum(sizes.values()))
    assert counter.calls > len(sizes)


def test_uploading_mirrors_downloading(store: Store, tmp_path: Path) -> None:
    source = FolderStore(tmp_path / "source")
    contents = fill(source, {"a/small": 10, "empty": 0, "b/large": PART_BYTES + 5})
    counter = Counter()
    files = [(source.root / key, f"sent/{key}") for key in contents]
    done = upload(store, files, progress=counter)
    assert {key: store.get(f"sent/{key}") for key in contents} == contents
    assert done == Transferred(3, PART_BYTES + 15, 0)
    assert (counter.num_files, counter.size_bytes) == (3, PART_BYTES + 15)


def test_an_upload_of_a_missing_file_names_it(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="gone"):
        upload(store, [(tmp_path / "gone", "k")])


def test_nothing_to_do_is_done(store: Store, target: Path) -> None:
    assert download(store, []) == upload(store, []) == Transferred(0, 0, 0)


def test_a_second_call_fetches_only_what_is_missing_or_changed(s3: Store, target: Path) -> None:
    fill(s3, {"same": 100, "gone": 100, "cut": 100, "touched": 100, "large": PART_BYTES + 1})
    entries = [settled(entry) for entry in s3.list()]
    files = [(entry, target / entry.key) for entry in entries]
    assert download(s3, files).num_skipped == 0
    (target / "gone").unlink()
    os.truncate(target / "cut", 50)
    (target / "touched").write_bytes(bytes(100))
    assert download(s3, files) == Transferred(3, 300, 2)
    assert {key: s3.get(key) for key in contents_of(target)} == contents_of(target)


def test_an_object_written_just_now_is_never_taken_for_its_successor(
    s3: Store, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3.put("k", b"first ")
    (first,) = s3.list()
    monkeypatch.setattr(download_target, "_FRESH_SECONDS", 3600.0)
    now = Entry(first.key, first.size_bytes, first.etag, float(int(time.time())))
    download(s3, [(now, target / "k")])
    second = s3.put("k", b"second")
    replaced = Entry("k", second.size_bytes, second.etag, now.modified)
    assert download(s3, [(replaced, target / "k")]).num_skipped == 0
    assert (target / "k").read_bytes() == b"second"


def test_broken_connections_are_resumed(s3: Store, faulty: FaultProxy, target: Path) -> None:
    contents = fill(s3, {"large": 3 * PART_BYTES, "small": 300_000})
    faulty.inject(
        Fault("GET .*large", cut_after=MIB, times=3),
        Fault("GET .*small", cut_after=1000),
        Fault("GET .*large", status=503, times=2),
    )
    fetch(s3, target)
    assert contents_of(target) == contents


def test_an_object_replaced_during_its_download_is_not_spliced(
    s3: Store, faulty: FaultProxy, s3_server: S3Server, bucket: str, target: Path
) -> None:
    fill(s3, {"large": 3 * PART_BYTES})
    files = [(entry, target / entry.key) for entry in s3.list()]
    s3_server.client().put_object(Bucket=bucket, Key="large", Body=bytes(3 * PART_BYTES))
    with pytest.raises(ObjectChanged, match="large"):
        download(s3, files)
    assert left_in(target) == {}


def test_a_flipped_bit_is_noticed_and_fetched_again(
    s3: Store, faulty: FaultProxy, target: Path, caplog: pytest.LogCaptureFixture
) -> None:
    contents = fill(s3, {"small": 1000})
    faulty.inject(Fault("GET .*small", changes_byte=7))
    with caplog.at_level(logging.WARNING):
        fetch(s3, target)
    assert contents_of(target) == contents
    assert "small" in caplog.text


def test_a_flipped_bit_in_a_large_file_is_noticed_and_fetched_again(
    s3: Store, faulty: FaultProxy, s3_server: S3Server, bucket: str, target: Path
) -> None:
    content = os.urandom(PART_BYTES + 99)
    s3_server.client().put_object(Bucket=bucket, Key="large", Body=content)
    faulty.inject(Fault("GET .*large", changes_byte=7))
    fetch(s3, target)
    assert contents_of(target) == {"large": content}


def test_damage_that_repeats_is_an_error(s3: Store, faulty: FaultProxy, target: Path) -> None:
    fill(s3, {"small": 1000})
    faulty.inject(*(Fault("GET .*small", changes_byte=at) for at in (1, 2)))
    with pytest.raises(DamagedTransfer, match="small"):
        fetch(s3, target)
    assert left_in(target) == {}


def test_tags_that_are_no_checksums_do_not_stop_a_download(
    s3: Store, faulty: FaultProxy, target: Path
) -> None:
    """As with objects encrypted by a key service: the same wrong sum every time."""
    contents = fill(s3, {f"k{n}": 1000 for n in range(5)})
    faulty.inject(Fault("GET .*/k", changes_byte=3, times=10_000))
    fetch(s3, target, num_threads=1)
    assert contents_of(target).keys() == contents.keys()
    assert faulty.count("GET .*/k") == 6  # one was fetched twice, to be sure


def test_one_missing_object_ends_all_and_leaves_no_temporary_file(
    store: Store, target: Path
) -> None:
    contents = fill(store, {f"k{n}": 1000 for n in range(50)} | {"large": 3 * PART_BYTES})
    entries = list(store.list())
    store.delete(["k30"])
    with pytest.raises(ObjectNotFound, match="k30"):
        download(store, ((entry, target / entry.key) for entry in entries))
    found = left_in(target)
    assert found.items() <= contents.items()
    assert "k30" not in found


def test_a_store_that_goes_away_is_named(s3: Store, faulty: FaultProxy, target: Path) -> None:
    fill(s3, {"a": 10, "large": PART_BYTES * 2})
    entries = list(s3.list())
    faulty.inject(Fault(status=503, times=10_000))
    with pytest.raises(StoreUnreachable, match="503"):
        download(s3, ((entry, target / entry.key) for entry in entries))
    assert left_in(target) == {}


def test_a_listing_that_fails_midway_is_raised(s3: Store, faulty: FaultProxy, target: Path) -> None:
    fill(s3, {"a": 10})
    faulty.inject(Fault("list-type", status=403, times=10_000))
    with pytest.raises(StorageError, match="refused"):
        fetch(s3, target)


@pytest.mark.parametrize(
    ("size", "message"),
    [(2 * PART_BYTES, f"needs {2 * PART_BYTES} bytes"), (700_000, "No space left")],
)
def test_a_full_disk_is_named_and_left_clean(
    store: Store, tmp_path: Path, size: int, message: str
) -> None:
    with small_disk(tmp_path / "disk") as disk:
        fill(store, {f"k{n}": size for n in range(3)})
        with pytest.raises(DiskFull, match=message):
            fetch(store, disk)
        left_in(disk)


def test_a_download_stops_on_request(s3: Store, faulty: FaultProxy, target: Path) -> None:
    fill(s3, {"a large one": 3 * PART_BYTES} | {f"k{n}": 2000 for n in range(60)})
    faulty.inject(Fault("GET .*/(k|a)", seconds_per_kib=0.05, times=10_000))
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    with pytest.raises(TransferStopped):
        fetch(s3, target, stop=stop)  # else the large file alone would take twenty minutes
    assert "a large one" not in left_in(target)


def test_nothing_is_fetched_if_stop_was_requested_before(store: Store, target: Path) -> None:
    fill(store, {f"k{n}": 10 for n in range(60)})
    stop = threading.Event()
    stop.set()
    with pytest.raises(TransferStopped):
        fetch(store, target, stop=stop)
    assert left_in(target) == {}


def test_a_target_that_is_a_folder_is_an_error_not_a_hang(store: Store, target: Path) -> None:
    fill(store, {"k": 10})
    (target / "k").mkdir(parents=True)
    with pytest.raises(StorageError, match="cannot be written: Is a directory"):
        fetch(store, target)
    assert list(target.rglob("*")) == [target / "k"]
