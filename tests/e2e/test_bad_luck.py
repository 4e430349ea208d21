"""Full disks, jumping clocks, hostile archives: a clear end, and nothing lost."""

import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Machine
from tests.wait import until
from trackside.records.death import Cause, Death
from trackside.records.status import Status

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture
def on_small_disk(small_disk: Path, tmp_path: Path, monkeypatch) -> Machine:
    monkeypatch.setenv("TRACKSIDE_HOME", str(small_disk / "home"))
    monkeypatch.setenv("TRACKSIDE_UPLOAD_DEADLINE", "2")
    return Machine(tmp_path, dict(os.environ))


@needs_root
def test_a_disk_that_fills_up_while_downloading_fails_the_job_in_words(
    on_small_disk, bucket, s3_server, monkeypatch, tmp_path
):
    for number in range(4):
        s3_server.client().put_object(
            Bucket=bucket, Key=f"data/{number}.bin", Body=os.urandom(10 << 20)
        )
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    source = {"S3Uri": f"s3://{bucket}/data/"}
    job = Machine(tmp_path, dict(os.environ)).run(
        "print('never')",
        InputDataConfig=[{"ChannelName": "training", "DataSource": {"S3DataSource": source}}],
        OutputDataConfig={"S3OutputPath": str(tmp_path / "out")},
    )
    history = job.history()
    assert history.state.status is Status.FAILED
    assert history.failure_reason is not None
    assert history.failure_reason.startswith("ClientError: Data download failed")
    assert "space" in history.failure_reason
    assert history.death == Death(cause=Cause.DISK, host="algo-1")
    assert not list(job.host().ml.rglob("*.part*"))


@needs_root
def test_a_disk_that_fills_up_while_training_is_reported_by_the_script_and_the_end_is_written(
    on_small_disk, tmp_path
):
    job = on_small_disk.run(
        "open('/opt/ml/model/huge.bin', 'wb').write(b'x' * (64 << 20))",
        OutputDataConfig={"S3OutputPath": str(tmp_path / "out")},
    )
    history = job.history()
    assert history.state.status is Status.FAILED
    reason = history.failure_reason or ""
    assert "No space left on device" in reason
    assert "is full, " in reason
    assert "or set TRACKSIDE_HOME to a folder on a larger disk" in reason
    assert history.death == Death(cause=Cause.DISK, host="algo-1")


@needs_root
def test_a_disk_that_is_full_for_a_while_ends_no_training(on_small_disk, tmp_path, monkeypatch):
    """Nothing can be recorded meanwhile, not even with the ballast given up."""
    monkeypatch.delenv("TRACKSIDE_UPLOAD_DEADLINE")
    machine = Machine(tmp_path, dict(os.environ))
    script = """
import os, time
end = time.monotonic() + 4
while time.monotonic() < end:
    try:
        with open("/opt/ml/output/data/filler", "ab", buffering=0) as file:
            file.write(bytes(4096))
    except OSError:
        time.sleep(0.01)
os.remove("/opt/ml/output/data/filler")
open("/opt/ml/model/m", "w").write("trained")
"""
    job = machine.submit(script, OutputDataConfig={"S3OutputPath": str(tmp_path / "out")})
    supervisor = until(job.supervisor_pid)
    history = job.wait()
    assert history.state.status is Status.COMPLETED, history.failure_reason
    assert job.model() == {"m": b"trained"}
    assert job.supervisor_pid() == supervisor, "it did not die of it"


@needs_root
def test_a_disk_that_fills_up_while_packing_keeps_the_model(on_small_disk):
    """The bucket is on the same small disk: the archive does not fit beside the model."""
    job = on_small_disk.run(
        "import os; open('/opt/ml/model/m.bin', 'wb').write(os.urandom(16 << 20))",
    )
    history = job.history()
    assert history.state.status is Status.FAILED
    assert f"trackside upload {job.name}" in (history.failure_reason or "")
    assert (job.host().ml / "model" / "m.bin").stat().st_size == 16 << 20
    bucket = on_small_disk.settings.layout.buckets / "bucket"
    assert not list(bucket.rglob("model.tar.gz*"))


def test_a_hostile_archive_stays_inside_the_job(machine, tmp_path):
    outside = tmp_path / "outside.txt"
    outside.write_text("untouched")
    archive = tmp_path / "hostile.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        add(tar, "train.py", b"import os; print('LIST', sorted(os.listdir('.')), flush=True)")
        add(tar, "../../../../../../../../../../tmp/escaped-by-dots.txt", b"dots")
        add(tar, "/tmp/escaped-absolute.txt", b"absolute")
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, str(outside)
        tar.addfile(link)
        add(tar, "link", b"overwritten through the link")
        device = tarfile.TarInfo("device")
        device.type, device.devmajor, device.devminor = tarfile.CHRTYPE, 1, 3
        tar.addfile(device)
    hyperparameters = {"sagemaker_submit_directory": f'"{archive}"'}
    job = machine.run("unused", hyperparameters=hyperparameters)
    assert job.history().state.status is Status.COMPLETED, job.log()
    assert outside.read_text() == "untouched"
    assert not Path("/tmp/escaped-by-dots.txt").exists()
    assert not Path("/tmp/escaped-absolute.txt").exists()
    assert "'device'" not in job.said("LIST")


def test_a_damaged_archive_fails_the_job_in_words(machine, tmp_path):
    archive = tmp_path / "damaged.tar.gz"
    archive.write_bytes(b"\x1f\x8b this is no archive")
    hyperparameters = {"sagemaker_submit_directory": f'"{archive}"'}
    job = machine.run("unused", hyperparameters=hyperparameters)
    assert job.history().state.status is Status.FAILED
    assert "damaged.tar.gz" in (job.history().failure_reason or "")
    assert job.history().death == Death(cause=Cause.REQUEST, host="algo-1")


def add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


def test_a_log_of_strange_bytes_is_kept_byte_for_byte(machine):
    script = """
import sys
out = sys.stdout.buffer
out.write(b"START\\n" + b"x" * 3_000_000 + b"\\n")
out.write(b"10%\\r20%\\r30%\\n")
out.write(b"nul \\x00 bad \\xff\\xfe end\\n")
out.write(b"no newline at the end")
out.flush()
"""
    job = machine.run(script)
    raw = job.host().log.read_bytes()
    stored = b"".join(line.data for line in machine.jobs.logs(job.name))
    assert stored == raw
    assert b"nul \x00 bad \xff\xfe end\n" in raw
    assert b"10%\r20%\r30%\n" in raw
