"""Files that others read: old or new, never half; and the last megabyte of a full disk."""

import os
import threading
from pathlib import Path

import pytest

from tests.small_disk import fill, small_disk
from trackside.files import durable
from trackside.records.journal import Journal
from trackside.records.layout import JobFolder
from trackside.records.status import Secondary


def test_what_was_never_written_is_none(tmp_path: Path):
    assert durable.read_json(tmp_path / "no such") is None
    (tmp_path / "file").touch()
    assert durable.read_json(tmp_path / "file" / "below") is None


def test_a_secret_is_for_its_owner_s_eyes_also_when_it_replaces_another_file(tmp_path: Path):
    path = tmp_path / "record.json"
    durable.write_json(path, {})
    durable.write_json(path, {"secret": 1}, mode=0o600)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_write_that_does_not_work_leaves_the_old_content_and_no_rest(tmp_path: Path):
    path = tmp_path / "record.json"
    durable.write_json(path, {"old": 1})
    with pytest.raises(TypeError):
        durable.write_json(path, {"new": object()})
    (tmp_path / "folder" / "full").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        durable.write_bytes(tmp_path / "folder", b"data")
    assert durable.read_json(path) == {"old": 1}
    assert sorted(set(os.listdir(tmp_path)) - {"user's home"}) == ["folder", "record.json"]


def test_threads_may_write_the_same_file_at_once(tmp_path: Path):
    path = tmp_path / "record.json"
    failures: list[OSError] = []

    def write(number: int) -> None:
        try:
            for _ in range(50):
                durable.write_json(path, [number] * 2000)
        except OSError as failure:
            failures.append(failure)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        content = durable.read_json(path)
        assert content is None or len(set(content)) == 1
    assert failures == []


def test_on_a_full_disk_the_ballast_makes_room_for_the_end(tmp_path: Path):
    with small_disk(tmp_path / "disk", "4m") as disk:
        job = JobFolder(disk / "job")
        host = job.host("algo-1", 1)
        host.root.mkdir(parents=True)
        journal = Journal(job.journal)
        journal.open()
        job.reserve_ballast()
        assert job.ballast.stat().st_size == durable.BALLAST_BYTES
        fill(disk)
        durable.write_json(host.record, {"phase": "ended", "tail": "x" * 10_000})
        assert not job.ballast.exists()
        journal.move(Secondary.FAILED, reason="no space " * 100)
        assert journal.read().state.is_final


def test_without_ballast_a_full_disk_is_an_error_and_the_old_content_stays(tmp_path: Path):
    with small_disk(tmp_path / "disk") as disk:
        path = disk / "record.json"
        durable.write_json(path, "old")
        fill(disk)
        with pytest.raises(OSError, match="space"):
            durable.write_json(path, "new" * 3000)
        assert durable.read_json(path) == "old"


def test_a_disk_too_full_for_ballast_starts_without_it(tmp_path: Path):
    """Half a ballast would take the last of the space, and the supervisor would die of it."""
    with small_disk(tmp_path / "disk", "512k") as disk:
        job = JobFolder(disk)
        job.reserve_ballast()
        assert not job.ballast.exists()
        durable.write_json(disk / "host.json", "x" * 100_000)


def test_a_journal_line_that_could_not_be_made_to_last_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The disk may turn out to be full only when it is synced."""
    job = JobFolder(tmp_path)
    journal = Journal(job.journal)
    journal.open()
    job.reserve_ballast()
    sync, failures = os.fsync, [OSError(28, "No space left on device")]

    def full_once(descriptor: int) -> None:
        if failures:
            raise failures.pop()
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", full_once)
    journal.move(Secondary.DOWNLOADING)
    assert journal.read().state.secondary is Secondary.DOWNLOADING
    assert journal.read().version == 2
    assert not job.ballast.exists()


def test_what_need_not_last_waits_for_no_disk_until_it_must(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    synced: list[str] = []
    real = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    path = tmp_path / "record.json"
    durable.write_json(path, {"a": 1}, lasts=False)
    assert durable.read_json(path) == {"a": 1}
    assert synced == []
    durable.make_last(path)
    assert synced == [str(path), str(tmp_path)]
    durable.write_json(path, {"a": 2})
    assert len(synced) == 4
