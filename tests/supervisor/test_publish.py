"""What a job leaves behind: of all hosts, whole, with the list of it last."""

import hashlib
import io
import json
import os
import tarfile
import time
from pathlib import Path

import pytest

from tests.small_disk import small_disk
from tests.supervisor.running import context, record
from tests.supervisor.synced_files import write
from trackside.errors import JobNotFinished, StorageError, StoreUnreachable
from trackside.records.hosts import Phase
from trackside.records.layout import JobFolder, JobKeys
from trackside.records.status import Secondary
from trackside.supervisor.context import Context
from trackside.supervisor.publish import Artifact, Publisher, until, upload_kept


def publisher(job: Context) -> Publisher:
    return Publisher(job.spec, job.folder, 1, job.settings.home)


def ml(job: Context, host: str = "algo-1") -> Path:
    return job.folder.host(host, 1).ml


def stored(job: Context) -> Path:
    """Below <output>/<job>."""
    return job.settings.layout.buckets / "bucket" / "out" / "job"


def unpacked(path: Path) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(path.read_bytes()), mode="r:gz") as tar:
        files = {member.name: tar.extractfile(member) for member in tar if member.isfile()}
        return {name: file.read() for name, file in files.items() if file is not None}


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def listed(job: Context) -> list[dict[str, object]]:
    return json.loads((stored(job) / "trackside" / "artifacts.json").read_bytes())


def test_the_hosts_models_are_merged_and_the_last_one_wins(tmp_path):
    job = context(tmp_path, num_hosts=2)
    write(ml(job) / "model/shared.txt", "1")
    write(ml(job) / "model/one.txt", "1")
    write(ml(job, "algo-2") / "model/shared.txt", "2")
    [artifact] = publisher(job).publish(model=True)
    path = stored(job) / "output" / "model.tar.gz"
    assert unpacked(path) == {"shared.txt": b"2", "one.txt": b"1"}
    assert artifact == Artifact(
        JobKeys.of(job.spec).model,
        path.stat().st_size,
        hashlib.sha256(path.read_bytes()).hexdigest(),
    )
    assert listed(job) == [
        {"uri": artifact.uri, "size_bytes": artifact.size_bytes, "sha256": artifact.sha256}
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("compression", ["GZIP", "NONE"])
@pytest.mark.parametrize("way", ["model", "model/inside", "model/file", "output", "output/data"])
def test_links_of_another_user_s_script_lead_nowhere(tmp_path, compression, way):
    write(tmp_path / "kept" / "data" / "secret", "secret")
    output = {"S3OutputPath": "s3://bucket/out", "CompressionType": compression}
    job = context(tmp_path / "home", OutputDataConfig=output)
    for folder in ("model", "output/data"):
        if not way.startswith(folder) and not folder.startswith(way):
            write(ml(job) / folder / "own", "own")
    (ml(job) / way).parent.mkdir(parents=True, exist_ok=True)
    target = tmp_path / "kept" / ("data/secret" if way == "model/file" else "")
    (ml(job) / way).symlink_to(target)
    for path in (ml(job), *ml(job).rglob("*")):
        os.chown(path, 65531, 65531, follow_symlinks=False)
    publisher(job).publish(model=True)
    packed = [unpacked(path) for path in stored(job).rglob("*.tar.gz")]
    copied = [path.read_bytes() for path in stored(job).rglob("*") if path.is_file()]
    assert not any(b"secret" in content for each in packed for content in each.values())
    assert b"secret" not in copied
    assert (ml(job) / way).is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_link_of_another_user_s_script_to_a_file_beside_it_is_that_file(tmp_path):
    output = {"S3OutputPath": "s3://bucket/out", "CompressionType": "NONE"}
    job = context(tmp_path, OutputDataConfig=output)
    write(ml(job) / "model/weights.pt", "weights")
    (ml(job) / "model/best.pt").symlink_to("weights.pt")
    for path in (ml(job), *ml(job).rglob("*")):
        os.chown(path, 65531, 65531, follow_symlinks=False)
    publisher(job).publish(model=True)
    folder = stored(job) / "output" / "model"
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "weights.pt": "weights",
        "best.pt": "weights",
    }


def test_output_data_of_every_host_is_kept(tmp_path):
    job = context(tmp_path, num_hosts=2)
    for host in job.spec.hosts:
        write(ml(job, host) / "output/data/result.txt", host)
    publisher(job).publish(model=False)
    assert unpacked(stored(job) / "output" / "output.tar.gz") == {
        "result.txt": b"algo-1",
        "algo-2/result.txt": b"algo-2",
    }
    assert not (stored(job) / "output" / "model.tar.gz").exists()


def test_a_job_without_output_data_has_no_archive_of_it(tmp_path):
    job = context(tmp_path)
    (ml(job) / "output/data").mkdir(parents=True)
    publisher(job).publish(model=True)
    assert names(stored(job) / "output") == ["model.tar.gz"]


def uncompressed(tmp_path: Path, **details) -> Context:
    output = {"S3OutputPath": "s3://bucket/out", "CompressionType": "NONE"}
    return context(tmp_path, OutputDataConfig=output, **details)


def test_an_uncompressed_model_goes_up_file_by_file(tmp_path):
    job = uncompressed(tmp_path, num_hosts=2)
    write(ml(job) / "model/sub/a.bin", "1")
    write(ml(job) / "model/b.bin", "1")
    write(ml(job, "algo-2") / "model/b.bin", "22")
    artifacts = publisher(job).publish(model=True)
    model = stored(job) / "output" / "model"
    assert names(model) == ["b.bin", "sub/a.bin"]
    assert (model / "b.bin").read_text() == "22"
    assert [Path(artifact.uri).name for artifact in artifacts] == ["b.bin", "a.bin"]
    assert len(listed(job)) == 2


def test_an_uncompressed_model_takes_no_link_out_of_its_folder(tmp_path):
    job = uncompressed(tmp_path)
    write(tmp_path / "secret", "s")
    write(ml(job) / "model/epoch-3.pt", "weights")
    (ml(job) / "model/best.pt").symlink_to("epoch-3.pt")
    (ml(job) / "model/secret").symlink_to(tmp_path / "secret")
    (ml(job) / "model/dangling").symlink_to("nowhere")
    publisher(job).publish(model=True)
    assert names(stored(job) / "output" / "model") == ["best.pt", "epoch-3.pt"]


def test_a_file_and_a_folder_of_one_name_do_not_meet(tmp_path):
    job = uncompressed(tmp_path, num_hosts=2)
    write(ml(job) / "model/a", "1")
    write(ml(job, "algo-2") / "model/a/b", "2")
    publisher(job).publish(model=True)
    assert names(stored(job) / "output" / "model") == ["a/b"]


def test_the_list_comes_last_so_without_it_nothing_is_finished(tmp_path):
    job = context(tmp_path)
    write(ml(job) / "model/m", "1")
    write(stored(job) / "output/model.tar.gz/in the way")
    with pytest.raises(StorageError):
        publisher(job).publish(model=True)
    assert not (stored(job) / "trackside" / "artifacts.json").exists()


def test_a_bucket_s_full_disk_is_an_error_and_leaves_no_half_object(tmp_path):
    with small_disk(tmp_path / "disk", "2m") as disk:
        job = context(tmp_path / "home", OutputDataConfig={"S3OutputPath": str(disk)})
        write(ml(job) / "model/m", os.urandom(4 << 20))
        error = until(time.monotonic(), lambda: _publish(job), lambda error: None)
        assert "No space left" in error
        assert names(disk) == []
        assert (ml(job) / "model/m").stat().st_size == 4 << 20


def _publish(job: Context) -> None:
    publisher(job).publish(model=True)


def test_a_model_that_cannot_be_packed_is_reported_at_once(as_ordinary_user):
    job = context(as_ordinary_user)
    write(ml(job) / "model/m").chmod(0)
    reported: list[str] = []
    error = until(time.monotonic() + 600, lambda: _publish(job), reported.append)
    assert "cannot be packed: Permission denied" in error
    assert reported == []


def test_uploading_is_tried_until_it_works():
    ends = iter([StoreUnreachable("away"), OSError("odd"), None])
    reported: list[str] = []

    def action() -> None:
        error = next(ends)
        if error is not None:
            raise error

    assert until(time.monotonic() + 600, action, reported.append) == ""
    assert reported == ["away", "odd"]


# `trackside upload`


def kept(tmp_path: Path, **request) -> Context:
    job = context(tmp_path, CheckpointConfig={"S3Uri": "s3://bucket/ckpt"}, **request)
    folder = job.folder.host("algo-1", 1)
    write(folder.ml / "model/m", "model")
    write(folder.ml / "checkpoints/1.pt", "checkpoint")
    folder.log.write_text("a line\n")
    job.journal.move(Secondary.FAILED, reason="the output could not be uploaded")
    return job


def send(job: Context) -> list[Artifact]:
    return upload_kept(JobFolder(job.folder.root), job.settings)


def test_what_was_kept_is_sent_and_noted(tmp_path):
    job = kept(tmp_path)
    record(job.folder, "algo-1", Phase.ENDED, exit_code=0, unsent="away")
    [artifact] = send(job)
    assert unpacked(stored(job) / "output/model.tar.gz") == {"m": b"model"}
    assert (job.settings.layout.buckets / "bucket/ckpt/1.pt").read_text() == "checkpoint"
    assert names(stored(job) / "trackside/logs") == ["algo-1/0001-0000000000000000.log"]
    assert job.journal.read().notes[-1]["artifacts"] == [artifact.uri]
    written = (stored(job) / "trackside/journal.jsonl").read_bytes()
    assert written == job.folder.journal.read_bytes()


def test_sending_it_again_is_no_harm(tmp_path):
    job = kept(tmp_path)
    record(job.folder, "algo-1", Phase.ENDED, exit_code=0, unsent="away")
    assert send(job) == send(job)


def test_a_script_that_failed_leaves_no_model_this_way_either(tmp_path):
    job = kept(tmp_path)
    record(job.folder, "algo-1", Phase.ENDED, exit_code=1, failure="AlgorithmError: no")
    assert send(job) == []
    assert not (stored(job) / "output/model.tar.gz").exists()
    assert (job.settings.layout.buckets / "bucket/ckpt/1.pt").exists()


def test_one_name_that_no_store_takes_does_not_keep_the_model_back(tmp_path):
    job = kept(tmp_path)
    record(job.folder, "algo-1", Phase.ENDED, exit_code=0)
    write(ml(job) / "checkpoints/a\tb")
    with pytest.raises(StorageError, match=r"All else.*a\\tb"):
        send(job)
    assert unpacked(stored(job) / "output/model.tar.gz") == {"m": b"model"}


def test_a_job_that_still_runs_uploads_itself(tmp_path):
    with pytest.raises(JobNotFinished, match="trackside show job"):
        send(context(tmp_path))


def test_a_job_that_kept_nothing_names_where_it_all_is(tmp_path):
    job = context(tmp_path)
    job.journal.move(Secondary.FAILED, reason="no")
    with pytest.raises(JobNotFinished, match="s3://bucket/out/job"):
        send(job)


def test_links_in_a_circle_are_left_out_of_an_uncompressed_model(tmp_path):
    output = {"S3OutputPath": "s3://bucket/out", "CompressionType": "NONE"}
    job = context(tmp_path, OutputDataConfig=output)
    write(ml(job) / "model/weights.pt", "weights")
    (ml(job) / "model/circle").symlink_to("circle")
    publisher(job).publish(model=True)
    assert names(stored(job) / "output" / "model") == ["weights.pt"]
