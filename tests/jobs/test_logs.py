"""A log is given byte for byte, from any place, however often its reader is killed."""

import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.jobs.conftest import ENVIRON, is_training, make_spec, run_to_end
from tests.wait import until
from trackside.errors import JobError
from trackside.jobs.jobs import Jobs
from trackside.jobs.logs import PART_BYTES, LogLine, LogPosition
from trackside.records.journal import History, Journal
from trackside.records.layout import Home, HostFolder
from trackside.records.log_lines import chunk_name, encode
from trackside.records.status import Secondary, Status
from trackside.settings import Settings


def joined(lines: Sequence[LogLine]) -> bytes:
    return b"".join(line.data for line in lines)


def held_job(jobs: Jobs, home: Home, num_hosts: int = 1) -> HostFolder:
    jobs.submit(make_spec(num_hosts=num_hosts, hyper={"hold": "yes", "lines": "0"}))
    until(lambda: is_training(jobs, "job-1"))
    return home.job("job-1").host("algo-1", 1)


def release(jobs: Jobs, home: Home) -> None:
    (home.job("job-1").root / "release").touch()
    run_to_end(jobs)


AWKWARD = b"".join(
    [
        b"plain\n",
        b"\n",
        b"\r 10%\r 20%\r100%\n",
        b"nul \0 and \xff\xfe no utf-8\n",
        b"x" * (3 * PART_BYTES + 17) + b"\n",
        b"a line separator \xe2\x80\xa8 ends no line\n",
        b"no newline at the end",
    ]
)


@pytest.mark.parametrize("folder", ["here", "gone"])
def test_every_byte_is_given_as_it_was_written(jobs: Jobs, home: Home, folder: str):
    held_job(jobs, home).log.write_bytes(AWKWARD)
    release(jobs, home)
    jobs.list()
    if folder == "gone":
        shutil.rmtree(home.job("job-1").root)
    lines = list(jobs.logs("job-1"))
    assert joined(lines) == AWKWARD
    for before, after in itertools.pairwise(lines):
        assert before.end == LogPosition(1, after.offset)
    if folder == "here":
        assert max(len(line.data) for line in lines) == PART_BYTES


@pytest.mark.parametrize("folder", ["here", "gone"])
def test_a_reader_goes_on_from_any_byte(jobs: Jobs, home: Home, folder: str):
    text = b"first\nsecond\nthird\n"
    held_job(jobs, home).log.write_bytes(text)
    release(jobs, home)
    jobs.list()
    if folder == "gone":
        shutil.rmtree(home.job("job-1").root)
    for offset in range(len(text) + 1):
        after = {"algo-1": LogPosition(1, offset)}
        assert joined(list(jobs.logs("job-1", after=after))) == text[offset:]
        assert joined(list(jobs.logs("job-1", after=after, follow=True))) == text[offset:]


FOLLOWER = """
import sys
from tests.jobs.conftest import make_jobs
from trackside.jobs.logs import LogPosition
from trackside.settings import Settings
out = open(sys.argv[1], "ab", buffering=0)
after = {"algo-1": LogPosition(1, out.tell())}
for line in make_jobs(Settings.load()).logs("job-1", follow=True, after=after):
    out.write(line.data)
"""


def start_follower(settings: Settings, copy: Path) -> "subprocess.Popen[bytes]":
    root = Path(__file__).parents[2]
    environ = {**ENVIRON, **settings.variables, "TRACKSIDE_S3": "embedded"}
    environ["PYTHONPATH"] += f":{root}"
    return subprocess.Popen([sys.executable, "-c", FOLLOWER, copy], env=environ, cwd=root)


def test_a_follower_killed_again_and_again_has_the_log_byte_for_byte(
    jobs: Jobs, home: Home, settings: Settings, tmp_path: Path
):
    place = held_job(jobs, home)
    copy = tmp_path / "copy"
    with place.log.open("ab", buffering=0) as log:
        for number in range(5):
            follower = start_follower(settings, copy)
            log.write(b"".join(b"%d: line %d\n" % (number, line) for line in range(400)))
            log.write(b"\r %d %%" % number)
            until(lambda: copy.exists() and copy.stat().st_size > log.tell() - 5000)
            follower.send_signal(signal.SIGKILL)
            follower.wait(60)
    follower = start_follower(settings, copy)
    release(jobs, home)
    assert follower.wait(120) == 0
    assert copy.read_bytes() == place.log.read_bytes()


def test_a_follower_gets_lines_as_they_come_and_the_end_last(jobs: Jobs, home: Home):
    place = held_job(jobs, home)
    followed = jobs.follow("job-1")
    with place.log.open("ab", buffering=0) as log:
        log.write(b"one\n")
        first = next(item for item in followed if isinstance(item, LogLine))
        assert first.data == b"one\n"
        log.write(b"a progress bar 50 %")
        second = next(item for item in followed if isinstance(item, LogLine))
        assert second.data == b"a progress bar 50 %"
    release(jobs, home)
    *_, last = followed
    assert isinstance(last, History)
    assert last.state.status is Status.COMPLETED


def test_a_line_being_written_is_not_given_in_pieces(jobs: Jobs, home: Home):
    place = held_job(jobs, home)
    lines = jobs.logs("job-1", follow=True)
    with place.log.open("ab", buffering=0) as log:
        log.write(b"whole\nhal")
        assert next(lines).data == b"whole\n"
        log.write(b"f and half\n")
        assert next(lines).data == b"half and half\n"
    release(jobs, home)


def test_the_lines_of_all_hosts_come_in_the_order_of_their_times(jobs: Jobs, home: Home):
    held_job(jobs, home, num_hosts=2)
    until(home.job("job-1").host("algo-2", 1).record.exists)
    for host, texts, times in (
        ("algo-1", [b"1 a\n", b"1 b\n"], [10.0, 30.0]),
        ("algo-2", [b"2 a\n", b"2 b\n"], [20.0, 40.0]),
    ):
        place = home.job("job-1").host(host, 1)
        place.log.write_bytes(b"".join(texts))
        place.log_times.write_text(f"4 {times[0]}\n8 {times[1]}\n")
    lines = list(jobs.logs("job-1"))
    assert [(line.time, line.data) for line in lines] == [
        (10.0, b"1 a\n"),
        (20.0, b"2 a\n"),
        (30.0, b"1 b\n"),
        (40.0, b"2 b\n"),
    ]
    assert {line.host for line in jobs.logs("job-1", host="algo-2")} == {"algo-2"}
    with pytest.raises(JobError, match="has no host 'algo-3'. Its hosts: algo-1, algo-2."):
        jobs.logs("job-1", host="algo-3")
    release(jobs, home)


def test_attempts_follow_one_another_and_a_reader_of_the_second_does_not_get_the_first(
    jobs: Jobs, home: Home
):
    place = held_job(jobs, home)
    place.log.write_bytes(b"attempt 1, cut of")
    journal = Journal(home.job("job-1").journal)
    journal.move(Secondary.RESTARTING)
    journal.move(Secondary.STARTING, attempt=2)
    second = home.job("job-1").host("algo-1", 2)
    second.root.mkdir()
    second.log.write_bytes(b"attempt 2\n")
    assert [(line.attempt, line.data) for line in jobs.logs("job-1")] == [
        (1, b"attempt 1, cut of"),
        (2, b"attempt 2\n"),
    ]
    after = {"algo-1": LogPosition(2, 3)}
    assert [line.data for line in jobs.logs("job-1", after=after)] == [b"empt 2\n"]


def test_chunks_that_overlap_do_not_double_and_a_gap_is_reported(
    jobs: Jobs, home: Home, caplog: pytest.LogCaptureFixture
):
    held_job(jobs, home)
    release(jobs, home)
    jobs.list()
    shutil.rmtree(home.job("job-1").root)
    chunks = home.buckets / "out/runs/job-1/trackside/logs/algo-1"
    shutil.rmtree(chunks, ignore_errors=True)
    chunks.mkdir(parents=True)
    text = b"0123\n5678\nabcd\n"
    for start, end in ((0, 10), (5, 10), (5, 15)):
        name = chunk_name(1, start)
        (chunks / name).write_bytes(encode(text[start:end], start, [], 5.0))
    assert joined(list(jobs.logs("job-1"))) == text
    (chunks / chunk_name(1, 0)).unlink()
    assert joined(list(jobs.logs("job-1"))) == text[5:]
    assert "5 bytes of the log before" in caplog.text


def test_times_are_those_of_the_marks_and_unmarked_bytes_have_the_file_s(jobs: Jobs, home: Home):
    place = held_job(jobs, home)
    place.log.write_bytes(b"a\nb\nc\nd\n")
    place.log_times.write_text("2 100.5\n6 200.5\n7 3")  # the last is being written
    os.utime(place.log, (400.5, 400.5))
    assert [line.time for line in jobs.logs("job-1")] == [100.5, 200.5, 200.5, 400.5]
    release(jobs, home)


def test_each_of_100_000_lines_has_its_own_time(jobs: Jobs, home: Home):
    place = held_job(jobs, home)
    text = b"".join(b"line %d\n" % number for number in range(100_000))
    place.log.write_bytes(text)
    marks = itertools.accumulate(len(line) + 1 for line in text.splitlines())
    place.log_times.write_text("".join(f"{size} {size}.0\n" for size in marks))
    lines = list(jobs.logs("job-1"))
    assert joined(lines) == text
    assert all(line.time == line.end.offset for line in lines)
    release(jobs, home)
