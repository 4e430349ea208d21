"""What a script needs before it starts: its code, its checkpoints, and no wait after a stop."""

import io
import os
import tarfile
import threading
from pathlib import Path

import pytest

from tests.conftest import environment_for
from tests.fault_proxy import Fault
from tests.supervisor.running import context
from trackside.errors import (
    ArchiveError,
    InputError,
    ObjectNotFound,
    TracksideError,
    TransferStopped,
)
from trackside.records.hosts import Progress
from trackside.storage.locate import locate
from trackside.supervisor.config_files import lay_out
from trackside.supervisor.folder_sync import FolderSync
from trackside.supervisor.inputs import Inputs, Meter


class Prepared:
    """The inputs of one host, with what was announced of them."""

    def __init__(self, home: Path, source: str | None = None, **request) -> None:
        if source is not None:
            request["HyperParameters"] = {"sagemaker_submit_directory": f'"{source}"'}
        self.job = context(home, **request)
        self.folder = self.job.folder.host("algo-1", 1)
        self.stop = threading.Event()
        self.progress = Progress()
        self.inputs = Inputs(self.job.spec, "algo-1", self.folder, self.job.settings.home)
        lay_out(self.folder, self.job.spec, "algo-1", "lo")

    def provide(self) -> None:
        meter = Meter(self.progress, lambda: None)
        self.inputs.provide(meter, stop=self.stop, can_mount=True)

    def code(self) -> dict[str, str]:
        folder = self.folder.ml / "code"
        found = (path for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): path.read_text() for path in found}


def archive(path: Path, **files: str) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(f"{name}.py")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content.encode()))
    return path


@pytest.mark.parametrize("ending", ["", "/"])
def test_a_source_folder_is_copied(tmp_path, ending):
    (tmp_path / "src" / "pkg").mkdir(parents=True)
    (tmp_path / "src" / "pkg" / "train.py").write_text("print()")
    prepared = Prepared(tmp_path / "home", f"{tmp_path}/src{ending}")
    prepared.provide()
    assert prepared.code() == {"pkg/train.py": "print()"}


def test_a_source_archive_is_unpacked_and_takes_the_place_of_an_older_one(tmp_path):
    path = archive(tmp_path / "s.tar.gz", train="one", old="gone")
    prepared = Prepared(tmp_path / "home", str(path))
    prepared.provide()
    archive(path, train="two")
    prepared.provide()
    assert prepared.code() == {"train.py": "two"}


def test_a_source_archive_comes_from_a_store(tmp_path, bucket, s3_server, monkeypatch):
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    path = archive(tmp_path / "s.tar.gz", train="stored")
    s3_server.client().upload_file(str(path), bucket, "code/s.tar.gz")
    prepared = Prepared(tmp_path / "home", f"s3://{bucket}/code/s.tar.gz")
    prepared.provide()
    assert prepared.code() == {"train.py": "stored"}
    assert not list(prepared.folder.root.rglob("sourcedir.tar.gz"))


def test_a_source_that_is_not_there_is_named(tmp_path):
    prepared = Prepared(tmp_path / "home", str(tmp_path / "nowhere.tar.gz"))
    with pytest.raises(TracksideError, match=r"nowhere\.tar\.gz"):
        prepared.provide()


def test_a_source_that_is_in_no_store_is_named(tmp_path, bucket, s3_server, monkeypatch):
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    prepared = Prepared(tmp_path / "home", f"s3://{bucket}/nowhere.tar.gz")
    with pytest.raises(ObjectNotFound, match=r"nowhere\.tar\.gz"):
        prepared.provide()


def test_a_damaged_source_is_named(tmp_path):
    path = tmp_path / "damaged.tar.gz"
    path.write_bytes(archive(tmp_path / "s.tar.gz", train="x" * 1000).read_bytes()[:60])
    with pytest.raises(InputError, match=r"source archive.*damaged\.tar\.gz") as caught:
        Prepared(tmp_path / "home", str(path)).provide()
    assert isinstance(caught.value.__cause__, ArchiveError)


def test_a_job_without_source_keeps_what_is_there(tmp_path):
    prepared = Prepared(tmp_path / "home")
    (prepared.folder.ml / "code" / "baked.py").write_text("here")
    prepared.provide()
    assert prepared.code() == {"baked.py": "here"}


@pytest.mark.parametrize("local_path", ["/opt/ml/checkpoints", "/data/ckpt"])
def test_checkpoints_are_restored_so_that_the_sync_knows_them(
    tmp_path, bucket, s3_server, monkeypatch, local_path
):
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    for key in ("epoch-1.pt", "deep/er/epoch-2.pt", "empty"):
        s3_server.client().put_object(Bucket=bucket, Key=f"c/{key}", Body=key.encode())
    uri = f"s3://{bucket}/c"
    checkpoints = {"S3Uri": uri, "LocalPath": local_path}
    prepared = Prepared(tmp_path / "home", CheckpointConfig=checkpoints)
    prepared.provide()
    target = prepared.folder.inside(local_path)
    assert (target / "deep/er/epoch-2.pt").read_text() == "deep/er/epoch-2.pt"
    assert prepared.progress.done_files == prepared.progress.num_files == 3
    folder = FolderSync("c", target, locate(uri, home=tmp_path), mirror=True)
    folder.tick(last=True)
    assert folder.state.uploaded_bytes == 0
    assert ("/data/ckpt" in prepared.inputs.mounts) == (local_path == "/data/ckpt")


def test_a_stop_ends_a_download_that_hangs(tmp_path, faulty, bucket, s3_server, monkeypatch):
    s3_server.client().put_object(Bucket=bucket, Key="c/big.pt", Body=os.urandom(1 << 20))
    for name, value in environment_for(faulty.url).items():
        monkeypatch.setenv(name, value)
    faulty.inject(Fault(pattern="^GET .*big", times=100, seconds_per_kib=0.1))
    prepared = Prepared(tmp_path / "home", CheckpointConfig={"S3Uri": f"s3://{bucket}/c"})
    threading.Timer(0.3, prepared.stop.set).start()
    with pytest.raises(TransferStopped):
        prepared.provide()
    assert not (prepared.folder.ml / "checkpoints/big.pt").exists()


def test_a_stop_ends_the_download_of_the_source_too(
    tmp_path, faulty, bucket, s3_server, monkeypatch
):
    path = tmp_path / "s.tar.gz"
    path.write_bytes(os.urandom(1 << 20))
    s3_server.client().upload_file(str(path), bucket, "s.tar.gz")
    for name, value in environment_for(faulty.url).items():
        monkeypatch.setenv(name, value)
    faulty.inject(Fault(pattern="^GET", times=100, seconds_per_kib=0.1))
    prepared = Prepared(tmp_path / "home", f"s3://{bucket}/s.tar.gz")
    threading.Timer(0.3, prepared.stop.set).start()
    with pytest.raises(TransferStopped):
        prepared.provide()


def test_a_meter_counts_right_for_many_threads_and_one_announces_at_a_time(monkeypatch):
    monkeypatch.setattr("trackside.supervisor.inputs.ANNOUNCE_SECONDS", 0.0)
    progress = Progress()
    inside: list[int] = []
    most: list[int] = []

    def announce() -> None:
        inside.append(1)
        most.append(len(inside))
        inside.pop()

    meter = Meter(progress, announce)

    def add() -> None:
        for _ in range(5000):
            meter.add(1, 10)

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (progress.done_files, progress.done_bytes) == (40_000, 400_000)
    assert max(most) == 1


def test_a_folder_to_run_in_is_shown_as_it_is_and_must_be_there(tmp_path: Path):
    project = tmp_path / "project"
    project.mkdir()
    prepared = Prepared(tmp_path / "home", Trackside={"InPlace": str(project)})
    prepared.provide()
    assert prepared.inputs.mounts["/opt/ml/code"] == project
    assert "/opt/ml/code" not in prepared.inputs.read_only
    project.rmdir()
    with pytest.raises(InputError, match="which the job runs in, is not there"):
        prepared.provide()
