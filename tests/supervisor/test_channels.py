import gzip
import json
import os
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import S3Server
from tests.supervisor.making import channel
from tests.wait import until
from trackside.errors import InputError, ObjectNotFound, StorageError, TransferStopped
from trackside.records.spec import Channel
from trackside.storage.folder import FolderStore
from trackside.supervisor.channel_objects import Assignment
from trackside.supervisor.channels import Provided, provide

PLACE = "/opt/ml/input/data/train"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "trackside home"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "ml" / "input" / "data"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder of the user's."""
    folder = tmp_path / "own"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.csv").write_text("1,2")
    (folder / "sub" / "b.csv").write_text("3,4")
    return folder


@pytest.fixture
def embedded(home: Path) -> FolderStore:
    store = FolderStore(home / "buckets" / "bucket")
    for number in range(5):
        store.put(f"data/train/{number}.txt", f"object {number}\n".encode())
    return store


@pytest.fixture
def remote(s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket on a real S3 server, to which s3:// leads."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    client = s3_server.client()
    client.put_object(Bucket=bucket, Key="data/train/", Body=b"")
    for number in range(5):
        body = f"object {number}\n".encode()
        client.put_object(Bucket=bucket, Key=f"data/train/{number}.txt", Body=body)
    return bucket


def files(folder: Path) -> dict[str, bytes]:
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


FIVE = {f"{number}.txt": f"object {number}\n".encode() for number in range(5)}


def test_a_folder_of_the_users_is_shown_itself_and_not_copied(
    own: Path, data: Path, home: Path
) -> None:
    for uri in (str(own), f"file://{own}"):
        provided = provide(channel(uri), Assignment("File"), data, home=home)
        assert provided == Provided(mounts={PLACE: own})
        assert files(data / "train") == {}


def test_fast_file_shows_it_read_only(own: Path, data: Path, home: Path) -> None:
    provided = provide(channel(str(own)), Assignment("FastFile"), data, home=home)
    assert provided == Provided(mounts={PLACE: own}, read_only=frozenset({PLACE}))


def test_a_single_file_of_the_users_is_shown_in_a_folder(own: Path, data: Path, home: Path) -> None:
    for _ in range(2):
        provided = provide(channel(f"{own}/a.csv"), Assignment("File"), data, home=home)
        assert provided == Provided(mounts={f"{PLACE}/a.csv": own / "a.csv"})
        assert files(data / "train") == {"a.csv": b""}, "an empty file to mount over"


def test_where_nothing_can_be_mounted_a_single_file_becomes_a_link(
    own: Path, data: Path, home: Path
) -> None:
    for _ in range(2):
        provided = provide(
            channel(f"{own}/a.csv"), Assignment("File"), data, home=home, can_mount=False
        )
        assert provided == Provided()
        assert (data / "train" / "a.csv").readlink() == own / "a.csv"


def test_a_shard_of_a_folder_of_the_users_is_copied(own: Path, data: Path, home: Path) -> None:
    sharded = channel(str(own), distribution="ShardedByS3Key")
    assert provide(sharded, Assignment("File", 1, 2), data, home=home) == Provided()
    assert files(data / "train") == {"sub/b.csv": b"3,4"}


@pytest.mark.parametrize("mode", ["File", "FastFile", "Pipe"])
@pytest.mark.parametrize("make", [True, False], ids=["empty", "missing"])
def test_a_folder_without_files_is_refused(
    tmp_path: Path, data: Path, home: Path, mode: str, make: bool
) -> None:
    if make:
        (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no files at '.*/empty'"):
        provide(channel(f"{tmp_path}/empty"), Assignment(mode), data, home=home)


def test_an_embedded_bucket_is_copied_so_that_the_script_may_write(
    embedded: FolderStore, data: Path, home: Path
) -> None:
    provided = provide(channel("s3://bucket/data/train"), Assignment("File"), data, home=home)
    assert provided == Provided()
    assert files(data / "train") == FIVE
    (data / "train" / "0.txt").write_bytes(b"overwritten")
    assert embedded.get("data/train/0.txt") == b"object 0\n"


@pytest.mark.parametrize("uri", ["s3://bucket/data/train/", "s3://bucket/data/train"])
def test_fast_file_shows_a_whole_folder_of_an_embedded_bucket_read_only(
    embedded: FolderStore, data: Path, home: Path, uri: str
) -> None:
    provided = provide(channel(uri), Assignment("FastFile"), data, home=home)
    assert provided.read_only == {PLACE}
    assert files(provided.mounts[PLACE]) == FIVE
    assert files(data / "train") == {}
    assert (data / "train-manifest").read_text().count("s3://bucket/") == 5


def test_fast_file_of_half_a_folder_is_copied_and_reports_it(
    embedded: FolderStore, data: Path, home: Path
) -> None:
    embedded.put("data/train2/x", b"x")
    provided = provide(channel("s3://bucket/data/train"), Assignment("FastFile"), data, home=home)
    assert provided.mounts == {}
    assert files(data / "train") == {**FIVE, "2/x": b"x"}
    (note,) = provided.notes
    assert "'train' is provided as File, not FastFile: 6 objects" in note


def test_fast_file_of_a_bucket_is_copied_where_nothing_can_be_mounted(
    embedded: FolderStore, data: Path, home: Path
) -> None:
    provided = provide(
        channel("s3://bucket/data/train/"), Assignment("FastFile"), data, home=home, can_mount=False
    )
    assert provided.mounts == {}
    assert len(provided.notes) == 1
    assert files(data / "train") == FIVE


@pytest.mark.parametrize("mode", ["File", "FastFile"])
def test_objects_of_a_real_s3_are_downloaded(
    remote: str, data: Path, home: Path, mode: str
) -> None:
    provided = provide(channel(f"s3://{remote}/data/train/"), Assignment(mode), data, home=home)
    assert files(data / "train") == FIVE
    assert len(provided.notes) == (1 if mode == "FastFile" else 0)
    assert (data / "train-manifest").read_text().splitlines() == [
        "data/train/",
        *(f"s3://{remote}/data/train/{number}.txt" for number in range(5)),
    ]


def test_each_host_gets_its_shard_and_the_list_of_the_whole(
    remote: str, tmp_path: Path, home: Path
) -> None:
    sharded = channel(f"s3://{remote}/data/train/", distribution="ShardedByS3Key")
    for index, names in enumerate([["0.txt", "3.txt"], ["1.txt", "4.txt"], ["2.txt"]]):
        data = tmp_path / f"host {index}"
        provide(sharded, Assignment("File", index, 3), data, home=home)
        assert sorted(files(data / "train")) == names
        assert (data / "train-manifest").read_text().count("s3://") == 5


def test_a_shuffled_shard_differs_from_the_plain_one_and_covers_all(
    embedded: FolderStore, tmp_path: Path, home: Path
) -> None:
    shards = []
    for index in range(2):
        data = tmp_path / f"host {index}"
        sharded = channel("s3://bucket/data/", distribution="ShardedByS3Key", shuffle_seed=1)
        provide(sharded, Assignment("File", index, 2), data, home=home)
        shards.append(set(files(data / "train")))
    assert shards[0] | shards[1] == {f"train/{number}.txt" for number in range(5)}
    assert shards[0].isdisjoint(shards[1])
    assert shards[0] != {"train/0.txt", "train/2.txt", "train/4.txt"}


def test_nothing_below_an_s3_prefix_is_refused(remote: str, data: Path, home: Path) -> None:
    with pytest.raises(InputError, match=f'No S3 objects found under S3 URL "s3://{remote}/none"'):
        provide(channel(f"s3://{remote}/none"), Assignment("File"), data, home=home)


def test_compressed_objects_stay_compressed_in_file_mode(
    embedded: FolderStore, data: Path, home: Path
) -> None:
    embedded.put("z/a.gz", gzip.compress(b"text"))
    provide(channel("s3://bucket/z/", compression="Gzip"), Assignment("File"), data, home=home)
    assert gzip.decompress(files(data / "train")["a.gz"]) == b"text"


def test_objects_of_a_manifest_keep_their_names_below_its_prefix(
    remote: str, s3_server: S3Server, data: Path, home: Path
) -> None:
    body = json.dumps([{"prefix": f"s3://{remote}/data/"}, "train/4.txt", "train/1.txt"])
    s3_server.client().put_object(Bucket=remote, Key="m.json", Body=body)
    listed = channel(f"s3://{remote}/m.json", data_type="ManifestFile")
    provide(listed, Assignment("File"), data, home=home)
    assert sorted(files(data / "train")) == ["train/1.txt", "train/4.txt"]


def test_an_augmented_manifest_comes_with_the_objects_it_refers_to(
    embedded: FolderStore, data: Path, home: Path
) -> None:
    lines = [
        {"source-ref": f"s3://bucket/data/train/{number}.txt", "label": number}
        for number in (0, 1, 2, 1)
    ]
    embedded.put("lines.manifest", "\n".join(map(json.dumps, lines)).encode())
    provide(
        augmented("label", "source-ref", distribution="ShardedByS3Key"),
        Assignment("File", 1, 2),
        data,
        home=home,
    )
    found = files(data / "train")
    mine = [json.loads(line) for line in found.pop("lines.manifest").splitlines()]
    assert mine == lines[1::2]
    assert found == {"bucket/data/train/1.txt": b"object 1\n"}
    assert all(
        (data / "train" / line["source-ref"].removeprefix("s3://")).exists() for line in mine
    )


def augmented(*attributes: str, **members: Any) -> Channel:
    return channel(
        "s3://bucket/lines.manifest",
        data_type="AugmentedManifestFile",
        attributes=attributes,
        **members,
    )


def epochs(
    wanted: Channel, assignment: Assignment, data: Path, home: Path, count: int = 2
) -> list[bytes]:
    with ExitStack() as stack:
        provided = provide(wanted, assignment, data, home=home)
        assert provided.feeder is not None
        stack.enter_context(provided.feeder)
        return [(data / f"train_{epoch}").read_bytes() for epoch in range(count)]


def test_pipe_mode_streams_all_objects_in_every_epoch(remote: str, data: Path, home: Path) -> None:
    piped = channel(f"s3://{remote}/data/train/")
    whole = b"".join(FIVE.values())
    assert epochs(piped, Assignment("Pipe"), data, home, count=3) == [whole] * 3
    assert [path.name for path in data.iterdir()] == ["train-manifest"]


def test_pipe_mode_streams_a_folder_of_the_users(own: Path, data: Path, home: Path) -> None:
    assert epochs(channel(str(own)), Assignment("Pipe"), data, home) == [b"1,23,4"] * 2


def test_pipe_mode_reshuffles_every_epoch_and_shards_across_hosts(
    embedded: FolderStore, tmp_path: Path, home: Path
) -> None:
    for number in range(5, 30):
        embedded.put(f"data/train/{number}.txt", f"object {number}\n".encode())
    piped = channel("s3://bucket/data/train/", distribution="ShardedByS3Key", shuffle_seed=7)
    hosts = [
        epochs(piped, Assignment("Pipe", index, 2), tmp_path / f"host {index}", home)
        for index in range(2)
    ]
    for first, second in zip(*hosts, strict=True):
        assert sorted((first + second).splitlines()) == sorted(
            f"object {number}".encode() for number in range(30)
        )
    assert hosts[0][0] != hosts[0][1]


def test_pipe_mode_unpacks_and_frames_as_requested(
    embedded: FolderStore, data: Path, home: Path
) -> None:
    embedded.put("z/a.gz", gzip.compress(b"first"))
    embedded.put("z/b.gz", gzip.compress(b"next"))
    wrapped = channel("s3://bucket/z/", compression="Gzip", record_wrapper="RecordIO")
    magic = bytes.fromhex("0a23d7ce")
    framed = magic + b"\5\0\0\0first\0\0\0" + magic + b"\4\0\0\0next"
    assert epochs(wrapped, Assignment("Pipe"), data, home) == [framed] * 2


def test_pipe_mode_streams_the_attributes_of_an_augmented_manifest(
    embedded: FolderStore, data: Path, home: Path
) -> None:
    lines = [
        {"label": number, "source-ref": f"s3://bucket/data/train/{number}.txt", "no": "no"}
        for number in range(3)
    ]
    embedded.put("lines.manifest", "\n".join(map(json.dumps, lines)).encode())
    streamed = epochs(augmented("source-ref", "label"), Assignment("Pipe"), data, home)
    assert streamed == [b"object 0\n0object 1\n1object 2\n2"] * 2


def test_an_object_that_vanishes_while_piped_reaches_the_supervisor(
    embedded: FolderStore, data: Path, home: Path
) -> None:
    provided = provide(channel("s3://bucket/data/train/"), Assignment("Pipe"), data, home=home)
    embedded.delete(["data/train/3.txt"])
    assert provided.feeder is not None
    with provided.feeder as feeder:
        pipe = os.open(data / "train_0", os.O_RDONLY)
        until(lambda: feeder.failure is not None)
        with pytest.raises(ObjectNotFound, match=r"train/3\.txt"):
            feeder.check()
        os.close(pipe)


class Counted:
    def __init__(self) -> None:
        self.num_files = self.size_bytes = 0
        self._lock = threading.Lock()

    def add(self, num_files: int, size_bytes: int) -> None:
        with self._lock:
            self.num_files += num_files
            self.size_bytes += size_bytes


def test_progress_is_passed_on(embedded: FolderStore, data: Path, home: Path) -> None:
    progress = Counted()
    expected: list[tuple[int, int]] = []
    wanted = channel("s3://bucket/data/train/")
    provide(
        wanted,
        Assignment("File"),
        data,
        home=home,
        expect=lambda *totals: expected.append(totals),
        progress=progress,
    )
    assert expected == [(5, 45)]
    assert (progress.num_files, progress.size_bytes) == (5, 45)


def test_a_job_that_is_stopped_stops_downloading(remote: str, data: Path, home: Path) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(TransferStopped):
        provide(
            channel(f"s3://{remote}/data/train/"), Assignment("File"), data, home=home, stop=stop
        )


def test_a_bucket_that_does_not_exist_is_named(remote: str, data: Path, home: Path) -> None:
    with pytest.raises(StorageError, match="no-such-bucket"):
        provide(channel("s3://no-such-bucket/x"), Assignment("File"), data, home=home)
