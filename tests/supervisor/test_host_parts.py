"""Hosts that share nothing but the store: parts, merged to what one machine would have stored."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.supervisor.running import NONCE, context, record
from tests.supervisor.synced_files import names, write
from trackside.coordination.epoch import take
from trackside.errors import EpochOver, StorageError
from trackside.records.group import GroupRecord
from trackside.records.hosts import HostRecord, Phase
from trackside.records.layout import JobKeys
from trackside.records.status import Secondary
from trackside.storage.locate import locate_object
from trackside.supervisor.context import Context
from trackside.supervisor.free_disk import KEPT
from trackside.supervisor.host_parts import HostParts
from trackside.supervisor.program import supervise
from trackside.supervisor.publish import Publisher, until, upload_kept, upload_part

NUM_HOSTS = 3
HOSTS = tuple(f"algo-{number}" for number in range(1, NUM_HOSTS + 1))


class Machines:
    """One for each host of a job, and one that has them all. They have a store in common."""

    def __init__(self, root: Path, **request: Any) -> None:
        self.root = root
        self.request = request
        self.epoch = 0
        self.together = context(root / "together", num_hosts=NUM_HOSTS, **request)
        self.jobs = {host: self._machine(host) for host in HOSTS}
        self.place()

    def _machine(self, host: str) -> Context:
        home = self.root / host
        home.mkdir()
        (self.root / "store").mkdir(exist_ok=True)
        (home / "buckets").symlink_to(self.root / "store")
        job = context(home, host=host, num_hosts=NUM_HOSTS, **self.request)
        ml = self.together.folder.host(host, 1).ml
        ml.mkdir()
        job.folder.host(host, 1).ml.symlink_to(ml)  # the same files, in the same order
        return job

    def place(self) -> None:
        """A new group, of the hosts that are here."""
        job = self.jobs["algo-1"]
        place = locate_object(JobKeys.of(job.spec).epoch, home=job.settings.home)
        self.epoch = take(place, os.urandom(8).hex()).epoch
        for host, each in self.jobs.items():
            addresses = dict.fromkeys(HOSTS, "10.0.0.1")
            GroupRecord(
                addresses=addresses,
                interface="eth0",
                host=host,
                epoch=self.epoch,
                shares_files=False,
            ).write(each.folder)

    def ml(self, host: str) -> Path:
        return self.together.folder.host(host, 1).ml

    def parts(self, host: str) -> HostParts:
        job = self.jobs[host]
        found = HostParts.of(job.spec, job.folder, 1, job.settings.home)
        assert found is not None
        return found

    def upload(self, *hosts: str) -> None:
        for host in hosts or HOSTS[1:]:
            self.parts(host).upload(self.jobs[host].folder.host(host, 1))

    @property
    def lead(self) -> Publisher:
        return publisher(self.jobs["algo-1"])

    @property
    def stored(self) -> Path:
        return self.root / "store" / "bucket" / "out" / "job"

    def published(self) -> dict[str, str]:
        return digests(self.stored)

    def published_together(self, *, model: bool = True) -> dict[str, str]:
        publisher(self.together).publish(model=model)
        return digests(self.together.settings.layout.buckets / "bucket" / "out" / "job")


def publisher(job: Context) -> Publisher:
    return Publisher(job.spec, job.folder, 1, job.settings.home)


def digests(folder: Path) -> dict[str, str]:
    return {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in names(folder)
        if not name.startswith("coordination/")
    }


def fill(machines: Machines) -> None:
    """Files of all hosts, with clashes, links and an empty folder."""
    for host in HOSTS:
        ml = machines.ml(host)
        write(ml / "model/shared.txt", host * 1000)
        write(ml / f"model/{host}/weights.bin", os.urandom(300_000))
        (ml / "model/best").symlink_to(f"{host}/weights.bin")
        (ml / "model/outside").symlink_to("/etc/passwd")
        (ml / "model/absolute").symlink_to("/opt/ml/model/shared.txt")
        (ml / "model/empty").mkdir()
        write(ml / "output/data/result.txt", host)
        write(ml / f"output/data/only-{host}.txt", host)
    write(machines.ml("algo-2") / "model/clash", "a file")
    write(machines.ml("algo-3") / "model/clash/file", "in a folder")


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    found = Machines(tmp_path)
    fill(found)
    return found


@pytest.mark.parametrize("compression", ["GZIP", "NONE"])
def test_the_result_is_what_one_machine_would_have_stored(tmp_path: Path, compression: str) -> None:
    output = {"S3OutputPath": "s3://bucket/out", "CompressionType": compression}
    hook = {"S3OutputPath": "s3://bucket/out"}
    machines = Machines(tmp_path, OutputDataConfig=output, DebugHookConfig=hook)
    fill(machines)
    machines.upload()
    machines.lead.publish(model=True)
    assert machines.published() == machines.published_together()
    assert "trackside/artifacts.json" in machines.published()
    assert "debug-output/training_job_end.ts" in machines.published()
    machines.lead.remove_parts()
    assert names(machines.stored / "coordination") == ["epoch.json"]


def test_without_a_model_there_is_the_output_alone(machines: Machines) -> None:
    machines.upload()
    machines.lead.publish(model=False)
    assert machines.published() == machines.published_together(model=False)


def test_a_host_with_nothing_uploads_a_listing(tmp_path: Path) -> None:
    machines = Machines(tmp_path)
    (machines.ml("algo-2") / "model").mkdir()
    machines.upload()
    folder = machines.stored / "coordination" / "1" / "parts"
    assert names(folder) == ["algo-2/listing.jsonl", "algo-3/listing.jsonl"]
    assert machines.lead.is_empty({host: HostRecord() for host in HOSTS})
    machines.lead.publish(model=True)
    assert machines.published() == machines.published_together()
    write(machines.ml("algo-3") / "output/data/x", "x")
    machines.upload("algo-3")
    assert not machines.lead.is_empty({host: HostRecord() for host in HOSTS})


def test_whatever_was_interrupted_is_done_again(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lead dies before each of its writes in turn, a host after each of its own."""
    for number in range(1, 4):
        for host in HOSTS[1:]:
            with monkeypatch.context() as patch:
                die_at(patch, number)
                with pytest.raises(KeyboardInterrupt):
                    machines.upload(host)
    machines.upload()
    num_writes = 0
    while True:
        num_writes += 1
        with monkeypatch.context() as patch:
            die_at(patch, num_writes)
            try:
                machines.lead.publish(model=True)
                break
            except KeyboardInterrupt:
                continue
    assert num_writes == 4  # output, model, manifest
    assert machines.published() == machines.published_together()


def die_at(patch: pytest.MonkeyPatch, number: int) -> None:
    """Before this write to a store; nothing of ours handles it."""
    from trackside.storage.folder import FolderStore

    original, left = FolderStore.put, number

    def put(self: FolderStore, *args: Any, **options: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        return original(self, *args, **options)

    patch.setattr(FolderStore, "put", put)


def test_a_part_of_an_earlier_attempt_does_not_count(machines: Machines) -> None:
    machines.upload()
    job = machines.jobs["algo-1"]
    later = HostParts.of(job.spec, job.folder, 2, job.settings.home)
    assert later is not None
    assert later.missing() == ["algo-2", "algo-3"]
    assert machines.parts("algo-1").missing() == []


def test_a_missing_part_is_named_unless_its_host_is_lost(machines: Machines) -> None:
    machines.upload("algo-2")
    with pytest.raises(StorageError, match="files of algo-3 are not in storage"):
        machines.lead.publish(model=True)
    assert machines.published() == {}
    machines.lead.publish(model=False, may_miss={"algo-3"})
    assert "output/output.tar.gz" in machines.published()


def test_an_upload_that_fails_names_the_host_and_where_its_files_are(machines: Machines) -> None:
    job = machines.jobs["algo-2"]
    (machines.stored / "coordination").rename(machines.root / "away")
    (machines.stored / "coordination").write_text("in the way")
    error = upload_part(job, 1, deadline=0.0, waiting=lambda error: None)
    assert "algo-2 keeps it in" in error
    assert str(job.folder.root) in error
    assert "trackside upload job" in error
    (machines.stored / "coordination").unlink()
    (machines.root / "away").rename(machines.stored / "coordination")
    assert upload_part(job, 1, deadline=0.0, waiting=lambda error: None) == ""


def test_a_group_that_was_replaced_publishes_nothing(machines: Machines) -> None:
    machines.upload()
    old = {host: (job.folder.group.read_bytes()) for host, job in machines.jobs.items()}
    machines.place()
    new = {host: (job.folder.group.read_bytes()) for host, job in machines.jobs.items()}
    for host, job in machines.jobs.items():
        job.folder.group.write_bytes(old[host])
    assert machines.lead.is_over()
    for action in (lambda: machines.lead.publish(model=True), machines.lead.put_end):
        with pytest.raises(EpochOver):
            action()
    assert "group 2 has taken over" in until(float("inf"), machines.lead.put_end, print)
    with pytest.raises(EpochOver):
        machines.upload("algo-2")
    assert machines.published() == {}
    for host, job in machines.jobs.items():
        job.folder.group.write_bytes(new[host])
    machines.upload()
    machines.lead.publish(model=True)
    assert machines.published() == machines.published_together()


def test_kept_files_are_uploaded_host_by_host_and_merged_by_the_lead(machines: Machines) -> None:
    for job in machines.jobs.values():
        job.journal.move(Secondary.FAILED, reason="the output could not be uploaded")
        for host in HOSTS:
            record(job.folder, host, Phase.ENDED, exit_code=0)
    lead = machines.jobs["algo-1"]
    with pytest.raises(StorageError, match="algo-2"):
        upload_kept(lead.folder, lead.settings)
    for host in HOSTS[1:]:
        assert upload_kept(machines.jobs[host].folder, machines.jobs[host].settings) == []
    uris = [artifact.uri for artifact in upload_kept(lead.folder, lead.settings)]
    keys = JobKeys.of(lead.spec)
    assert uris == [keys.output_data, keys.model]
    here = machines.published_together()
    assert here.items() <= machines.published().items()
    assert names(machines.stored / "coordination") == ["epoch.json"]


@pytest.mark.parametrize(
    ("change", "frees"),
    [
        (lambda job: None, True),
        (lambda job: job.journal.note(KEPT), False),
        (lambda job: record(job.folder, "algo-2", Phase.ENDED, unsent="no store"), False),
        (lambda job: job.folder.group.unlink(), False),
    ],
)
def test_a_host_frees_its_own_disk_when_the_job_has_ended(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Context], object],
    frees: bool,
) -> None:
    job = context(tmp_path, host="algo-2", num_hosts=2)
    monkeypatch.setenv("TRACKSIDE_HOME", str(tmp_path))
    group = GroupRecord(addresses={}, interface="eth0", host="algo-2", shares_files=False)
    group.write(job.folder)
    for host in ("algo-1", "algo-2"):
        write(job.folder.host(host, 1).ml / "model/m", "model")
    record(job.folder, "algo-2", Phase.ENDED, exit_code=0)
    change(job)
    for move in (Secondary.STARTING, Secondary.DOWNLOADING, Secondary.TRAINING):
        job.journal.try_move(move)
    job.journal.try_move(Secondary.UPLOADING)
    job.journal.try_move(Secondary.COMPLETED)
    assert job.journal.read().state.is_final
    supervise(job.folder, "algo-2", NONCE)
    assert job.folder.host("algo-2", 1).ml.exists() is not frees
    assert job.folder.host("algo-1", 1).ml.exists()
