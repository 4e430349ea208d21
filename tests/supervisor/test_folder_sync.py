"""Tests for `trackside.supervisor.folder_sync`: complete files, each uploaded once."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervisor.synced_files import names, place, send, write
from tests.wait import until
from trackside.files.script_folder import ScriptFolder
from trackside.storage.locate import entries_below, locate
from trackside.supervisor import folder_sync
from trackside.supervisor.folder_scan import FileState
from trackside.supervisor.folder_sync import FolderSync, NotUploaded
from trackside.supervisor.syncer import Syncer


def test_a_checkpoint_written_once_is_uploaded_once(folder, source, stored):
    write(source / "epoch-1" / "model.pt", b"m" * 1000)
    for _ in range(5):
        folder.tick()
    folder.tick(last=True)
    assert (stored / "epoch-1" / "model.pt").read_bytes() == b"m" * 1000
    assert folder.state.uploaded_bytes == 1000


def test_a_checkpoint_whose_writer_pauses_is_not_stored_before_it_is_done(folder, source, stored):
    send(folder)
    path = write(source / "model.pt", b"first ")
    with path.open("ab") as file:
        send(folder)
        file.write(b"second")
        file.flush()
        os.utime(path, (time.time() - 10, time.time() - 10))  # it pauses, for long
        send(folder)
        assert names(stored) == []
        assert folder.state.pending_files == 1
    send(folder)
    assert (stored / "model.pt").read_bytes() == b"first second"


def test_a_checkpoint_follows_the_curves_that_lead_to_it(source, stored, tmp_path, monkeypatch):
    """A machine that dies in between must not leave a checkpoint that is ahead of its curves."""
    monkeypatch.setattr(folder_sync, "SETTLED_SECONDS", 0.0)
    curves = FolderSync("curves", tmp_path / "curves", place(tmp_path / "there"))
    folder = FolderSync("checkpoints", source, place(stored), follows=[curves])
    send(folder)
    write(source / "5.pt", b"after step 5")
    send(folder)
    assert names(stored) == []
    curves.tick()
    send(folder)
    assert names(stored) == ["5.pt"]
    monkeypatch.setattr(folder_sync, "FOLLOW_SECONDS", 0.0)  # they cannot be uploaded
    write(source / "10.pt", b"after step 10")
    send(folder)
    assert names(stored) == ["10.pt", "5.pt"]


def test_a_reader_does_not_hold_a_checkpoint_up(folder, source, stored):
    path = write(source / "model.pt", b"whole")
    with path.open("rb"):
        send(folder)
    assert names(stored) == ["model.pt"]


@pytest.mark.parametrize("was_killed", [True, False])
def test_a_file_torn_by_a_kill_does_not_replace_the_version_before(
    folder, source, stored, was_killed
):
    path = write(source / "last.pt", b"epoch 1, whole")
    write(source / "other.pt", b"other")
    send(folder)
    with path.open("r+b") as file:
        file.write(b"epoch 2, torn")
        file.flush()
        send(folder)
    os.truncate(path, 5)  # as a kill leaves it
    write(source / "new.pt", b"there was none before")
    syncer = Syncer([folder])
    syncer.start()
    assert syncer.finish(time.monotonic() + 60, print, was_killed=was_killed) == ""
    kept = b"epoch 1, whole" if was_killed else b"epoch"
    assert (stored / "last.pt").read_bytes() == kept
    assert names(stored) == ["last.pt", "new.pt", "other.pt"]


def test_a_file_that_is_still_being_written_waits_and_is_counted(
    folder, source, stored, monkeypatch
):
    monkeypatch.setattr(folder_sync, "SETTLED_SECONDS", 3600.0)
    write(source / "big.pt", b"12345")
    send(folder)
    assert names(stored) == []
    assert (folder.state.pending_files, folder.state.pending_bytes) == (1, 5)
    folder.tick(last=True)
    assert names(stored) == ["big.pt"]
    assert (folder.state.pending_files, folder.state.pending_bytes) == (0, 0)


def test_a_file_that_changes_at_every_scan_is_sent_at_the_end(folder, source, stored):
    for number in range(5):
        write(source / "restless.pt", "x" * number, age=10 - number)
        folder.tick()
    assert names(stored) == []
    folder.tick(last=True)
    assert (stored / "restless.pt").read_text() == "xxxx"


def test_a_file_from_the_future_does_not_wait_for_it(folder, source, stored):
    write(source / "a.pt", age=-86400)
    send(folder)
    assert names(stored) == ["a.pt"]


def test_an_empty_file_is_a_file(folder, source, stored):
    write(source / "DONE", "")
    send(folder)
    assert (stored / "DONE").read_bytes() == b""
    assert folder.state.pending_files == 0


def test_a_pointer_to_a_checkpoint_follows_it(folder, source, stored):
    write(source / "latest.txt", "epoch-1.pt", age=5)
    write(source / "epoch-1.pt", "weights", age=6)
    stored.mkdir()
    (stored / "latest.txt").mkdir()
    (stored / "latest.txt" / "in the way").touch()
    folder.tick()
    with pytest.raises(NotUploaded, match=r"latest\.txt"):
        folder.tick()
    assert (stored / "epoch-1.pt").exists()


def test_thousands_of_files_are_no_matter(folder, source, stored):
    for number in range(3000):
        write(source / f"{number % 10}" / f"{number}.bin", "x")
    send(folder)
    assert len(names(stored)) == 3000
    assert folder.state.pending_files == 0
    uploaded = folder.state.uploaded_bytes
    folder.tick(last=True)
    assert folder.state.uploaded_bytes == uploaded


def test_what_is_deleted_here_is_deleted_there(folder, source, stored):
    old, new = write(source / "1.pt"), source / "2.pt"
    send(folder)
    old.unlink()
    write(new)
    send(folder)
    assert names(stored) == ["2.pt"]


def test_a_folder_that_is_no_checkpoint_folder_keeps_what_was_sent(source, stored):
    folder = FolderSync("/opt/ml/output/intermediate", source, place(stored))
    path = write(source / "1.txt")
    send(folder)
    path.unlink()
    send(folder)
    assert names(stored) == ["1.txt"]


def test_a_checkpoint_folder_that_is_deleted_deletes_nothing_in_the_store(folder, source, stored):
    write(source / "1.pt")
    send(folder)
    source.rename(source.with_name("moved away"))
    folder.tick(last=True)
    assert names(stored) == ["1.pt"]


def test_a_name_that_no_store_takes_delays_no_other(folder, source, stored):
    write(source / "a\nb.pt", age=12)
    write(source / "good.pt", age=10)
    folder.tick()
    with pytest.raises(NotUploaded, match=r"a\\nb\.pt.*control character") as caught:
        folder.tick()
    assert caught.value.is_hopeless
    assert names(stored) == ["good.pt"]
    assert folder.state.pending_files == 1


def test_deletions_go_on_beside_a_name_that_no_store_takes(folder, source, stored):
    write(source / "a\nb.pt")
    old = write(source / "old.pt")
    for _ in range(2):
        with pytest.raises(NotUploaded):
            folder.tick(last=True)
        old.unlink(missing_ok=True)
    assert names(stored) == []


def test_unicode_and_undecodable_names_arrive(folder, source, stored):
    strange = os.fsdecode(b"caf\xe9.pt")
    for name in ("模型-é.pt", strange, "with space", "-rf", "#?%.pt"):
        write(source / name, "x")
    send(folder)
    assert set(os.listdir(stored)) == set(os.listdir(source))


def test_a_name_that_is_no_unicode_delays_no_other_on_s3(
    source, bucket, s3_server, monkeypatch, tmp_path
):
    for variable, value in s3_server.environment.items():
        monkeypatch.setenv(variable, value)
    folder = FolderSync("checkpoints", source, locate(f"s3://{bucket}/ckpt", home=tmp_path))
    write(source / os.fsdecode(b"caf\xe9.pt"), age=12)
    write(source / "good.pt", age=10)
    with pytest.raises(NotUploaded, match=r"caf\\udce9") as caught:
        folder.tick(last=True)
    assert caught.value.is_hopeless
    found = s3_server.client().list_objects_v2(Bucket=bucket)["Contents"]
    assert [entry["Key"] for entry in found] == ["ckpt/good.pt"]


def test_what_cannot_be_read_is_reported_delays_nothing_and_is_not_deleted(as_ordinary_user):
    source, stored = as_ordinary_user / "checkpoints", as_ordinary_user / "stored"
    for name in ("closed/a", "b"):
        write(source / name)
    folder = FolderSync("c", source, place(stored), mirror=True)
    folder.tick(last=True)
    (source / "closed").chmod(0)
    write(source / "unreadable").chmod(0)
    write(source / "late")
    try:
        with pytest.raises(NotUploaded, match="Permission denied.* 1 more") as caught:
            folder.tick(last=True)
    finally:
        (source / "closed").chmod(0o700)
    assert caught.value.is_hopeless
    assert names(stored) == ["b", "closed/a", "late"]


def test_a_path_too_long_to_scan_delays_no_other(folder, source, stored):
    """A script may nest folders deeper than any path can name."""
    here = os.getcwd()
    write(source / "good.pt")
    try:
        os.chdir(source)
        for _ in range(17):
            os.mkdir("d" * 250)
            os.chdir("d" * 250)
        Path("a.pt").touch()
    finally:
        os.chdir(here)
    with pytest.raises(NotUploaded, match="File name too long"):
        folder.tick(last=True)
    assert names(stored) == ["good.pt"]


def test_links_and_pipes_are_not_followed(folder, source, stored, tmp_path):
    secret = write(tmp_path / "secret", "s")
    (source / "link").symlink_to(secret)
    (source / "loop").symlink_to(source)
    os.mkfifo(source / "pipe")
    write(source / "plain.pt")
    send(folder)
    assert names(stored) == ["plain.pt"]


def test_a_file_that_became_a_pipe_after_the_scan_blocks_nothing(source):
    path = write(source / "a.pt", "abc")
    seen = FileState.of(path.stat())
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(folder_sync.FileChanged):
        list(folder_sync._chunks(ScriptFolder(source), "a.pt", seen))


@pytest.mark.parametrize("change", ["replaced", "truncated", "grown"])
def test_a_file_that_changes_while_it_is_sent_never_gets_its_name_torn(
    source, stored, change, monkeypatch
):
    monkeypatch.setattr(folder_sync, "READ_BYTES", 4)
    path = write(source / "a.pt", "old old old!")
    chunks = folder_sync._chunks(ScriptFolder(source), "a.pt", FileState.of(path.stat()))

    def changing() -> Iterator[bytes]:
        yield next(chunks)
        if change == "replaced":
            os.replace(write(source / "new", "new new new!"), path)
        elif change == "truncated":
            os.truncate(path, 6)
        else:
            with path.open("a") as file:
                file.write("more")
        yield from chunks

    to = place(stored).child("a.pt")
    with pytest.raises(folder_sync.FileChanged):
        to.store.put(to.key, changing())
    assert names(stored) == []


def test_a_file_that_changes_during_the_last_pass_is_tried_again(source, stored, monkeypatch):
    """The script is over, but something still appends: no pass may call that done."""
    monkeypatch.setattr(folder_sync, "READ_BYTES", 1 << 16)
    path = write(source / "busy.pt", b"x" * (8 << 20))
    folder = FolderSync("c", source, place(stored))
    done = threading.Event()

    def append() -> None:
        while not done.is_set():
            with path.open("ab") as file:
                file.write(b"y")

    writer = threading.Thread(target=append)
    writer.start()
    try:
        with pytest.raises(NotUploaded, match=r"busy\.pt.*written to") as caught:
            until(lambda: folder.tick(last=True))  # a pass may fall between two writes
    finally:
        done.set()
        writer.join()
    assert not caught.value.is_hopeless
    syncer = Syncer([folder])
    syncer.start()
    assert syncer.finish(time.monotonic() + 600, lambda error: None) == ""
    assert (stored / "busy.pt").read_bytes() == path.read_bytes()


def test_files_that_vanish_are_no_error(folder, source, stored):
    gone = write(source / "gone.pt")
    write(source / "stays.pt")
    folder.tick()
    found = folder.found({})
    gone.unlink()
    with pytest.raises(FileNotFoundError):
        folder._send("gone.pt", found["gone.pt"])
    folder.tick(last=True)
    assert names(stored) == ["stays.pt"]
    assert folder.state.pending_files == 0


def test_restored_checkpoints_are_not_uploaded_again(source, stored):
    for number in range(50):  # one time in fifteen does not come back from float seconds
        there = write(stored / f"{number}.pt", "old")
        os.utime(there, ns=(1_794_793_694_354_496_007 + number * 1_234_567,) * 2)
    for name, entry in entries_below(place(stored)):
        os.utime(write(source / name, "old"), ns=(entry.modified_ns,) * 2)
    write(source / "new.pt", "newest")
    folder = FolderSync("c", source, place(stored), mirror=True)
    folder.tick(last=True)
    assert folder.state.uploaded_bytes == len("newest")


def test_the_next_supervisor_sends_only_what_the_last_one_did_not(folder, source, stored):
    write(source / "sent.pt", "12345")
    send(folder)
    write(source / "unsent.pt", "1234567")
    after = FolderSync("c", source, place(stored), mirror=True)
    after.tick(last=True)
    assert after.state.uploaded_bytes == 7


def test_the_next_supervisor_knows_a_file_that_was_moved_over_another(folder, source, stored):
    """`latest` becomes `previous`: same size, and older than the object of that name."""
    previous, latest = write(source / "previous.pt", "one", age=30), source / "latest.pt"
    write(latest, "two", age=20)
    send(folder)
    # The clock of a file's change and that of the object may be the same tick.
    until(lambda: time.time() > (stored / "previous.pt").stat().st_mtime + 0.02)
    os.replace(latest, previous)
    FolderSync("c", source, place(stored), mirror=True).tick(last=True)
    assert (stored / "previous.pt").read_text() == "two"
    assert names(stored) == ["latest.pt", "previous.pt"]


def test_a_file_of_another_part_is_skipped(source, stored):
    write(source / "events.out.tfevents.1.host")
    write(source / "weights.pt")
    folder = FolderSync("t", source, place(stored), skip=lambda path: "tfevents" in path)
    folder.tick(last=True)
    assert names(stored) == ["weights.pt"]
