import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.toolkit.conftest import Host, needs_root
from tests.wait import until


def pack(path: Path, **files: str) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name.replace("_py", ".py"))
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return path


def test_an_archive_replaces_what_was_baked_into_the_image(host: Host, tmp_path: Path):
    host.script("print('baked')")
    host.script("", "stale.py")
    archive = pack(tmp_path / "sourcedir.tar.gz", train_py="print('given')")
    host.hyperparameters(sagemaker_submit_directory=str(archive))
    assert host.train().stdout == b"given\n"
    assert [path.name for path in host.code.iterdir()] == ["train.py"]


def test_baked_code_can_be_kept_as_on_aws(host: Host, tmp_path: Path):
    host.script("print('baked')")
    archive = pack(tmp_path / "sourcedir.tar.gz", train_py="print('given')")
    host.hyperparameters(sagemaker_submit_directory=str(archive))
    finished = host.train(TRACKSIDE_KEEP_BAKED_CODE="1")
    assert finished.stdout == b"baked\n"
    assert "is not fetched" in finished.log


def test_without_a_source_the_baked_code_runs(host: Host):
    host.script("print('baked')")
    assert host.train().stdout == b"baked\n"


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_folder_is_copied(host: Host, tmp_path: Path, prefix: str):
    source = tmp_path / "source"
    (source / "package").mkdir(parents=True)
    (source / "train.py").write_text("import package.module")
    (source / "package" / "module.py").write_text("print('imported')")
    host.hyperparameters(sagemaker_submit_directory=prefix + str(source))
    assert host.train().stdout == b"imported\n"
    assert (source / "train.py").exists()


def test_the_code_folder_itself_is_left_alone(host: Host):
    host.script("print('here')")
    host.hyperparameters(sagemaker_submit_directory=str(host.code))
    assert host.train().stdout == b"here\n"


def test_a_folder_inside_the_code_folder_becomes_the_code(host: Host):
    host.script("print('inner')", "inner/train.py")
    host.hyperparameters(sagemaker_submit_directory=str(host.code / "inner"))
    assert host.train().stdout == b"inner\n"


def test_a_single_file_is_copied(host: Host, tmp_path: Path):
    (tmp_path / "train.py").write_text("print('alone')")
    host.hyperparameters(sagemaker_submit_directory=str(tmp_path / "train.py"))
    assert host.train().stdout == b"alone\n"


def test_a_missing_source_fails_and_keeps_the_code(host: Host):
    host.script("print('baked')")
    host.hyperparameters(sagemaker_submit_directory="/no/such/source.tar.gz")
    assert host.train().code == 1
    assert "'/no/such/source.tar.gz' does not exist" in host.failure
    assert (host.code / "train.py").read_text() == "print('baked')"


def test_a_damaged_archive_fails_and_keeps_the_code(host: Host, tmp_path: Path):
    host.script("print('baked')")
    archive = pack(tmp_path / "source.tar.gz", train_py="print('given')" * 1000)
    archive.write_bytes(archive.read_bytes()[:-20])
    host.hyperparameters(sagemaker_submit_directory=str(archive))
    assert host.train().code == 1
    assert [path.name for path in host.code.iterdir()] == ["train.py"]


def test_a_full_disk_is_named(host: Host, tmp_path: Path):
    needs_root()
    archive = tmp_path / "source.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        info = tarfile.TarInfo("big")
        info.size = 2 * 1024 * 1024
        packed.addfile(info, io.BytesIO(bytes(info.size)))
    host.hyperparameters(sagemaker_submit_directory=str(archive))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", host.code], check=True)
    try:
        assert host.train().code == 1
        assert host.failure.startswith(f"No space left in '{host.code}")
        assert list(host.code.iterdir()) == []
    finally:
        subprocess.run(["umount", "--lazy", host.code], check=True)


@pytest.fixture(scope="module")
def s3_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("moto") / "log"
    with log.open("wb") as file:
        server = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
            stdout=file,
            stderr=file,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    try:
        until(lambda: b"Running on http" in log.read_bytes())
        line = next(line for line in log.read_text().splitlines() if "Running on http" in line)
        yield line.split("Running on ")[1].split()[0]
    finally:
        server.terminate()
        server.wait()


def test_an_archive_is_fetched_from_s3(host: Host, tmp_path: Path, s3_endpoint: str):
    import boto3

    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test-secret"}
    client = boto3.client("s3", endpoint_url=s3_endpoint, region_name="us-east-1", **keys)
    client.create_bucket(Bucket="bucket")
    archive = pack(tmp_path / "sourcedir.tar.gz", train_py="print('from s3')")
    client.upload_file(str(archive), "bucket", "job/source/sourcedir.tar.gz")
    variables = {
        "S3_ENDPOINT_URL": s3_endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test-secret",
    }
    host.hyperparameters(sagemaker_submit_directory="s3://bucket/job/source/sourcedir.tar.gz")
    finished = host.train(**variables)
    assert finished.stdout == b"from s3\n", finished.log
    host.hyperparameters(sagemaker_submit_directory="s3://bucket/missing.tar.gz")
    assert host.train(**variables).code == 1
    assert "'s3://bucket/missing.tar.gz' does not exist" in host.failure
