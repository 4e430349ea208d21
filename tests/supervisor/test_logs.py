"""A log on its way into the store: every byte once, stamped, whoever dies in between."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.small_disk import fill, small_disk
from trackside.records.log_lines import TimeMark, decode, read_marks
from trackside.storage.locate import Location, locate
from trackside.supervisor import logs
from trackside.supervisor.logs import LogClock, LogUploader


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def times(tmp_path: Path) -> Path:
    return tmp_path / "log.times"


@pytest.fixture
def to(tmp_path: Path) -> Location:
    return locate(str(tmp_path / "stored"), home=tmp_path)


def uploader(log: Path, times: Path, to: Location, attempt: int = 1) -> LogUploader:
    return LogUploader(log, times, to, attempt)


def chunks(to: Location) -> dict[str, bytes]:
    return {entry.key: to.store.get(entry.key) for entry in to.store.list("")}


def text(to: Location) -> bytes:
    return b"".join(line for chunk in chunks(to).values() for _, line in decode(chunk))


def test_a_mark_is_written_only_when_the_log_has_grown(log, times):
    clock = LogClock(log, times)
    clock.tick()
    assert read_marks(times) == []
    for content in ("one\n", "one\n", "one\ntwo\n"):
        log.write_text(content)
        clock.tick()
    assert [mark.size for mark in read_marks(times)] == [4, 8]


def test_a_clock_that_is_set_back_leaves_the_marks_in_order(log, times, monkeypatch):
    moments = iter((1763251470.0, 1763251400.0, 1763251480.0))
    monkeypatch.setattr(logs, "time", SimpleNamespace(time=lambda: next(moments)))
    for size in (4, 8, 12):
        log.write_text("x" * size)
        LogClock(log, times).tick()  # each by another supervisor
    assert [mark.time for mark in read_marks(times)] == [1763251470.0, 1763251470.0, 1763251480.0]


def test_the_next_clock_goes_on_behind_a_torn_mark(log, times):
    times.write_bytes(b"4 1763251470.123\n8 17632")
    log.write_text("x" * 12)
    LogClock(log, times).tick()
    marks = read_marks(times)
    assert marks[0] == TimeMark(4, 1763251470.123)
    assert [mark.size for mark in marks] == [4, 12]


def test_torn_marks_in_the_middle_are_left_out(times):
    times.write_bytes(b"4 1763251470.123\n8 17632516 1763251471.000\n\n16 1763251472.000\n")
    assert [mark.size for mark in read_marks(times)] == [4, 16]


def test_lines_are_stamped_with_the_time_they_were_seen(log, times, to):
    log.write_text("one\ntwo\n")
    times.write_text("4 1000.000\n8 2000.500\n")
    uploader(log, times, to).tick(last=True)
    [chunk] = chunks(to).values()
    assert list(decode(chunk)) == [(1000.0, b"one\n"), (2000.5, b"two\n")]


def test_a_young_and_short_log_waits_and_is_counted(log, times, to, monkeypatch):
    monkeypatch.setattr(logs, "CHUNK_SECONDS", 3600.0)
    log.write_text("one\n")
    sync = uploader(log, times, to)
    sync.tick()
    assert chunks(to) == {}
    assert sync.state.pending_bytes == 4


def test_chunks_are_cut_at_lines_and_named_by_their_offset(log, times, to, monkeypatch):
    monkeypatch.setattr(logs, "CHUNK_BYTES", 10)
    log.write_bytes(b"12345\n789\nabcdefghijklmnop\nend")
    sync = uploader(log, times, to)
    sync.tick()
    assert list(chunks(to)) == [f"0001-{offset:016d}.log" for offset in (0, 10, 20)]
    sync.tick(last=True)
    assert text(to) == log.read_bytes()
    assert sync.state.pending_bytes == 0


def test_a_line_that_is_still_being_written_waits_for_its_end(log, times, to, monkeypatch):
    monkeypatch.setattr(logs, "CHUNK_SECONDS", 0.0)
    log.write_bytes(b"whole\nhal")
    sync = uploader(log, times, to)
    sync.tick()
    sync.tick()
    assert text(to) == b"whole\n"
    log.write_bytes(b"whole\nhalf\n")
    sync.tick()
    assert text(to) == b"whole\nhalf\n"


def test_the_last_pass_leaves_nothing_behind(log, times, to):
    log.write_bytes(b"\x00\xff\r10%\r20%\nno newline at the end")
    uploader(log, times, to).tick(last=True)
    assert text(to) == log.read_bytes()


@pytest.mark.parametrize("cut", [0, 6, 9])
def test_the_next_supervisor_goes_on_where_the_last_one_stopped(log, times, to, cut):
    whole = b"12345\nabcde\nend\n"
    log.write_bytes(whole[:cut])
    uploader(log, times, to).tick(last=True)
    log.write_bytes(whole)
    uploader(log, times, to).tick(last=True)
    assert text(to) == whole


def test_a_foreign_object_among_the_chunks_is_passed_over(log, times, to):
    log.write_bytes(b"one\n")
    uploader(log, times, to).tick(last=True)
    to.store.put("0001-notes.txt", b"not ours")
    log.write_bytes(b"one\ntwo\n")
    uploader(log, times, to).tick(last=True)
    to.store.delete(["0001-notes.txt"])
    assert text(to) == b"one\ntwo\n"


def test_attempts_do_not_mix(log, times, to):
    log.write_bytes(b"first\n")
    uploader(log, times, to, attempt=1).tick(last=True)
    log.write_bytes(b"second\n")
    uploader(log, times, to, attempt=2).tick(last=True)
    assert text(to) == b"first\nsecond\n"


def test_no_log_is_no_lag(log, times, to):
    sync = uploader(log, times, to)
    before = sync.synced_at
    while time.monotonic() == before:
        pass
    sync.tick()
    assert sync.synced_at > before
    assert chunks(to) == {}


def test_a_full_disk_tears_no_mark(log, tmp_path):
    with small_disk(tmp_path / "disk", "64k") as disk:
        times = disk / "log.times"
        clock = LogClock(log, times)
        log.write_text("x")
        clock.tick()
        fill(disk)
        with times.open("ab", buffering=0) as file:  # up to just before the end of its page
            file.write(b"%d 1.000\n" % 2 * ((4096 - file.tell() - 5) // 8))
        size = times.stat().st_size
        log.write_text("x" * 100)
        clock.tick()
        assert times.stat().st_size == size
        (disk / "filler").unlink()
        clock.tick()
        assert read_marks(times)[-1].size == 100
