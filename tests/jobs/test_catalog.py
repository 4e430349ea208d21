"""The index is only an index: without it, damaged, locked or full, every job is still listed."""

import json
import logging
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.jobs.conftest import make_jobs, make_spec, run_to_end
from trackside.errors import JobError, JobNotFound
from trackside.jobs import sqlite_index
from trackside.jobs.catalog import Catalog
from trackside.jobs.index import JobSummary, Page
from trackside.jobs.jobs import Jobs
from trackside.jobs.records import spec_bytes
from trackside.jobs.sqlite_index import opened
from trackside.records.journal import Journal
from trackside.records.layout import Home, JobFolder
from trackside.records.owners import Submitter, local_owner
from trackside.records.status import Secondary, Status
from trackside.settings import Settings


def finished_job(home: Home, name: str, *, as_: Secondary = Secondary.COMPLETED) -> JobFolder:
    """A job's folder as its end leaves it, without the work."""
    folder = home.job(name)
    folder.root.mkdir(parents=True)
    folder.spec.write_bytes(b'{"OutputDataConfig": {"S3OutputPath": "s3://out/runs/"}}')
    stamp = '"seq":%d,"time":%d.5'
    moves = [Secondary.STARTING, Secondary.DOWNLOADING]
    if as_ is Secondary.COMPLETED:
        moves += [Secondary.TRAINING, Secondary.UPLOADING]
    lines = [
        f'{{"kind":"status","secondary":"{move}",{stamp % (number, 1000 + number)}}}\n'
        for number, move in enumerate([*moves, as_], 1)
    ]
    folder.journal.write_text("".join(lines))
    return folder


def names(rows: list[JobSummary]) -> list[str]:
    return [row.name for row in rows]


def test_jobs_are_listed_newest_first_and_by_status_name_and_number(jobs: Jobs, home: Home):
    for number, name in enumerate(["alpha-1", "beta-1", "alpha-2"]):
        as_ = Secondary.FAILED if name == "beta-1" else Secondary.COMPLETED
        journal = finished_job(home, name, as_=as_).journal
        journal.write_text(journal.read_text().replace('"time":1', f'"time":{number + 1}'))
    assert names(jobs.list()) == ["alpha-2", "beta-1", "alpha-1"]
    assert names(jobs.list(newest_first=False, limit=2)) == ["alpha-1", "beta-1"]
    assert names(jobs.list(status=Status.FAILED)) == ["beta-1"]
    assert names(jobs.list(name_contains="pha-")) == ["alpha-2", "alpha-1"]
    assert jobs.list(name_contains="%") == []


def test_a_row_tells_what_the_journal_tells(jobs: Jobs, home: Home):
    finished_job(home, "x")
    [row] = jobs.list()
    assert row == JobSummary(
        "x", "s3://out/runs", "Completed", "Completed", 1001.5, 1005.5, 1002.5, 1005.5
    )
    assert row.is_final


def submitted_by(folder: JobFolder, **who: str) -> None:
    """As a server notes it when the job is created."""
    first, *rest = map(json.loads, folder.journal.read_text().splitlines())
    note = {"kind": "note", "what": "submitted", **who, "time": 1001.5}
    lines = [{**event, "seq": seq} for seq, event in enumerate([first, note, *rest], 1)]
    folder.journal.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_the_jobs_of_one_owner_are_listed(jobs: Jobs, home: Home):
    for name, owner in (("a", "alice"), ("b", "bob"), ("c", "alice")):
        submitted_by(finished_job(home, name), key="TSX", who=owner, owner=owner)
    finished_job(home, "nobody-s")
    found = {row.name: row.owner for row in jobs.list()}
    assert found == {"a": "alice", "b": "bob", "c": "alice", "nobody-s": ""}
    assert {*names(jobs.list(owner="alice"))} == {"a", "c"}
    assert jobs.list(owner="carol") == []


def test_owners_are_found_for_the_rows_of_an_older_index(jobs: Jobs, home: Home):
    """Their columns came with a migration; the folders tell, once."""
    submitted_by(finished_job(home, "server"), key="TSX", who="alice")
    finished_job(home, "plain")
    jobs.list()
    connection = sqlite3.connect(home.index)
    connection.execute("UPDATE jobs SET owner = NULL")
    connection.commit()
    connection.close()
    again = make_jobs(jobs.settings)
    assert {row.name: row.owner for row in again.list()} == {"server": "alice", "plain": ""}
    for name in ("server", "plain"):
        home.job(name).journal.unlink()  # would be missed if it were read
    assert {row.name: row.owner for row in again.list()} == {"server": "alice", "plain": ""}


def test_a_job_that_is_only_in_storage_keeps_its_owner(jobs: Jobs, home: Home):
    jobs.submit(make_spec())
    run_to_end(jobs)
    assert [row.owner for row in jobs.list()] == [local_owner()]
    shutil.rmtree(home.job("job-1").root)
    assert jobs.submitter("job-1") == Submitter(local_owner())
    home.index.unlink()
    jobs.reindex(["s3://out/runs"])
    assert [row.owner for row in jobs.list()] == [local_owner()]


def test_whoever_writes_to_storage_does_not_become_the_owner(jobs: Jobs, home: Home):
    jobs.submit(make_spec())
    run_to_end(jobs)
    jobs.list()
    shutil.rmtree(home.job("job-1").root)
    [stored] = home.buckets.rglob("journal.jsonl")
    stored.write_text(stored.read_text().replace(local_owner(), "mallory"))
    assert jobs.submitter("job-1").owner == local_owner()
    assert jobs.describe("job-1")["Trackside"]["owner"] == local_owner()


def test_a_running_job_s_row_follows_its_journal(jobs: Jobs, home: Home):
    jobs.submit(make_spec(hyper={"hold": "yes"}))
    jobs.list()
    (home.job("job-1").root / "release").touch()
    run_to_end(jobs)
    assert [row.status for row in jobs.list()] == ["Completed"]


def test_two_thousand_jobs_are_listed_from_the_index_without_reading_their_folders(
    jobs: Jobs, home: Home
):
    for number in range(2000):
        finished_job(home, f"job-{number}")
    assert len(jobs.list()) == 2000
    for number in range(2000):
        home.job(f"job-{number}").journal.unlink()  # would be missed if it were read
    assert len(jobs.list()) == 2000
    assert len(jobs.list(limit=10)) == 10


def test_a_deleted_index_comes_back_by_itself(jobs: Jobs, home: Home):
    finished_job(home, "x")
    assert names(jobs.list()) == ["x"]
    home.index.unlink()
    assert names(jobs.list()) == ["x"]


@pytest.mark.parametrize("damage", ["not a database", "torn pages"])
def test_a_damaged_index_is_set_aside_and_made_anew_with_a_word(
    jobs: Jobs, home: Home, caplog: pytest.LogCaptureFixture, damage: str
):
    for number in range(300):
        finished_job(home, f"job-{number}")
    jobs.list()
    if damage == "not a database":
        home.index.write_bytes(b"something else" * 1000)
    else:
        data = bytearray(home.index.read_bytes())
        data[4096:] = b"\xff" * (len(data) - 4096)
        home.index.write_bytes(data)
    with caplog.at_level(logging.WARNING):
        assert len(jobs.list()) == 300
    assert "is damaged" in caplog.text
    assert home.index.with_name("index.sqlite.damaged").exists()
    with opened(home.index) as present:
        assert len(present.finished()) == 300


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE jobs SET status = 'Happy'",
        "UPDATE jobs SET created = 'yesterday'",
        "UPDATE jobs SET modified = 1e300",
        "UPDATE jobs SET secondary = x'ff00'",
        "UPDATE jobs SET output = CAST(x'ff' AS TEXT)",
        "DROP TABLE jobs",
    ],
)
def test_an_index_that_says_what_cannot_be_is_made_anew(
    jobs: Jobs, home: Home, caplog: pytest.LogCaptureFixture, change: str
):
    finished_job(home, "x")
    assert names(jobs.list()) == ["x"]
    with closing(sqlite3.connect(home.index)) as connection, connection:
        connection.execute(change)
    assert [(row.name, row.status) for row in jobs.list()] == [("x", "Completed")]
    assert "is damaged" in caplog.text
    assert [row.output for row in jobs.list()] == ["s3://out/runs"]


@pytest.mark.parametrize("line", [b"[1]", b"\x00", b"[" * 100_000, b"null"])
def test_a_damaged_line_of_a_journal_hides_neither_its_job_nor_another(
    jobs: Jobs, home: Home, line: bytes
):
    for name in ("a", "b"):
        finished_job(home, name)
    journal = home.job("a").journal
    journal.write_bytes(line + b"\n" + journal.read_bytes())
    jobs.refresh()
    assert {row.name: row.status for row in jobs.list()} == {"a": "Completed", "b": "Completed"}
    journal.write_bytes(line + b"\n")
    home.index.unlink()
    assert names(make_jobs(jobs.settings).list()) == ["b"]


def test_while_the_index_is_locked_everything_still_answers(
    jobs: Jobs, home: Home, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sqlite_index, "BUSY_SECONDS", 0.05)
    jobs.list()
    holder = sqlite3.connect(home.index)
    holder.execute("BEGIN EXCLUSIVE")
    jobs.submit(make_spec(hyper={"hold": "yes"}))
    assert names(jobs.list()) == ["job-1"]
    assert "reading the job folders" in caplog.text
    assert jobs.describe("job-1")["TrainingJobName"] == "job-1"
    jobs.stop("job-1")
    assert run_to_end(jobs).state.status is Status.STOPPED
    with pytest.raises(JobError, match="cannot be written: database is locked"):
        jobs.reindex()
    holder.close()
    assert [row.status for row in jobs.list()] == ["Stopped"]


def test_with_the_index_on_a_full_disk_everything_still_answers(
    jobs: Jobs, home: Home, caplog: pytest.LogCaptureFixture
):
    """/dev/full is the system's own full disk."""
    home.root.mkdir(parents=True)
    home.index.symlink_to("/dev/full")
    jobs.submit(make_spec())
    assert run_to_end(jobs).state.status is Status.COMPLETED
    assert [row.status for row in jobs.list()] == ["Completed"]
    assert "cannot be used" in caplog.text


def test_an_index_of_a_newer_trackside_is_left_as_it_is(jobs: Jobs, home: Home):
    finished_job(home, "x")
    jobs.list()
    connection = sqlite3.connect(home.index)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert names(jobs.list()) == ["x"]
    connection = sqlite3.connect(home.index)
    assert connection.execute("PRAGMA user_version").fetchone() == (99,)
    connection.close()


def test_the_index_is_sound_and_at_the_newest_version(jobs: Jobs, home: Home):
    finished_job(home, "x")
    jobs.list()
    connection = sqlite3.connect(home.index)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert connection.execute("PRAGMA user_version").fetchone() == (len(sqlite_index.MIGRATIONS),)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


@pytest.mark.parametrize("content", [b"", b"{", b'{"kind":"status"}\n', b"\xff\xfe\n"])
def test_a_broken_folder_is_passed_over_with_a_word(
    jobs: Jobs, home: Home, caplog: pytest.LogCaptureFixture, content: bytes
):
    finished_job(home, "sound")
    finished_job(home, "broken").journal.write_bytes(content)
    assert names(jobs.list()) == ["sound"]
    assert "broken is not a readable job folder" in caplog.text


def test_a_finished_job_is_known_after_its_folder_is_gone(jobs: Jobs, home: Home):
    jobs.submit(make_spec())
    run_to_end(jobs)
    before = jobs.describe("job-1")
    jobs.list()
    shutil.rmtree(home.job("job-1").root)
    after = jobs.describe("job-1")
    assert {**after, "Trackside": None} == {**before, "Trackside": None}
    assert after["Trackside"]["folder"] is None
    assert jobs.wait("job-1").state.status is Status.COMPLETED
    assert [row.status for row in jobs.list()] == ["Completed"]


def test_a_job_that_ended_unseen_is_read_from_storage(jobs: Jobs, home: Home):
    jobs.submit(make_spec(hyper={"hold": "yes"}))
    assert [row.status for row in jobs.list()] == ["InProgress"]
    (home.job("job-1").root / "release").touch()
    run_to_end(jobs)
    shutil.rmtree(home.job("job-1").root)
    assert [row.status for row in jobs.list()] == ["Completed"]


def test_a_job_of_which_nothing_is_left_is_forgotten(jobs: Jobs, home: Home):
    folder = finished_job(home, "x", as_=Secondary.DOWNLOADING)
    folder.journal.write_text(folder.journal.read_text().splitlines()[0] + "\n")
    Catalog(home).select(Page())
    shutil.rmtree(folder.root)
    assert jobs.list() == []
    with pytest.raises(JobNotFound, match="'x'"):
        jobs.describe("x")


def test_reindex_finds_finished_jobs_in_storage(jobs: Jobs, home: Home):
    for name in ("one", "two"):
        jobs.submit(make_spec(name))
        run_to_end(jobs, name)
    expected = jobs.list()
    shutil.rmtree(home.jobs)
    home.index.unlink()
    assert jobs.list() == []
    assert jobs.reindex() == 2
    assert {row.name: row.status for row in jobs.list()} == {"one": "Completed", "two": "Completed"}
    assert [row.created for row in jobs.list()] == [row.created for row in expected]
    assert b"".join(line.data for line in jobs.logs("one")) == b"line 0\nline 1\nline 2\n"


def test_a_job_found_in_an_embedded_bucket_is_where_clients_find_it(jobs: Jobs, home: Home):
    jobs.submit(make_spec())
    run_to_end(jobs)
    before = jobs.describe("job-1")["ModelArtifacts"]
    shutil.rmtree(home.job("job-1").root)
    jobs.reindex()
    assert jobs.describe("job-1")["ModelArtifacts"] == before
    [row] = jobs.list()
    assert row.output == "s3://out/runs"


def test_reindex_finds_jobs_that_were_brought_from_another_machine(
    settings: Settings, home: Home, tmp_path: Path
):
    here = make_jobs(settings)
    here.submit(make_spec())
    run_to_end(here)
    shutil.copytree(home.buckets / "out", tmp_path / "usb stick")
    other = make_jobs(Settings.load({"TRACKSIDE_HOME": str(tmp_path / "other")}))
    assert other.reindex([str(tmp_path / "usb stick")]) == 1
    reported = other.describe("job-1")
    assert reported["TrainingJobStatus"] == "Completed"
    assert reported["Trackside"]["output"] == f"{tmp_path}/usb stick/runs/job-1"
    assert list(other.logs("job-1"))


@pytest.mark.parametrize("stored", ["nothing", "without its end"])
def test_reindex_stores_the_journal_of_a_job_whose_supervisor_died_at_its_end(
    jobs: Jobs, home: Home, stored: str
):
    jobs.submit(make_spec())
    run_to_end(jobs)
    local = home.job("job-1").journal
    journal = home.buckets / "out/runs/job-1/trackside/journal.jsonl"
    journal.unlink()
    if stored != "nothing":
        journal.write_bytes(local.read_bytes().splitlines(keepends=True)[0])
    assert jobs.reindex() == 1
    assert journal.read_bytes() == local.read_bytes()


def test_reindex_drops_what_is_nowhere_any_more(jobs: Jobs, home: Home):
    shutil.rmtree(finished_job(home, "x").root.parent)
    finished_job(home, "x")
    jobs.list()
    shutil.rmtree(home.job("x").root)
    assert names(jobs.list()) == ["x"]
    assert jobs.reindex() == 0
    assert jobs.list() == []


def test_reindex_passes_over_what_is_no_job(jobs: Jobs, home: Home, tmp_path: Path):
    for name in ("half/trackside/job.json", "trackside/job.json", "x/trackside/job.json.bak"):
        path = tmp_path / "bucket" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    assert jobs.reindex([str(tmp_path / "bucket")]) == 0


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "x" * 64, "a\0b"])
def test_a_name_that_cannot_be_a_job_s_is_not_looked_up(jobs: Jobs, name: str):
    for ask in (jobs.describe, jobs.stop, jobs.wait, jobs.artifacts, jobs.reconcile, jobs.logs):
        with pytest.raises(JobNotFound):
            ask(name)


def test_looking_makes_no_journal_longer(jobs: Jobs, home: Home):
    finished_job(home, "x")
    before = home.job("x").journal.read_bytes()
    home.job("x").spec.write_bytes(spec_bytes(make_spec("x")))
    jobs.list()
    jobs.describe("x")
    assert home.job("x").journal.read_bytes() == before
    assert sorted(os.listdir(home.job("x").root)) == ["job.json", "journal.jsonl"]
    assert Journal(home.job("x").journal).read().state.is_final


def test_pages_are_whole_while_the_index_cannot_be_written_and_at_once_afterwards(home: Home):
    """A server reads pages, and does not compare the index with all folders each time."""
    catalog = Catalog(home)
    finished_job(home, "first")
    catalog.refresh()
    kept = home.index.rename(home.index.with_name("kept"))
    home.index.symlink_to("/dev/full")
    finished_job(home, "second")
    catalog.add("second")
    for _ in range(2):
        assert set(names(catalog.page(Page()))) == {"first", "second"}
    home.index.unlink()
    kept.rename(home.index)
    assert set(names(catalog.page(Page()))) == {"first", "second"}
