"""The end of a log, followed."""

from pathlib import Path

from tests.jobs.conftest import embedded_buckets as embedded_buckets
from tests.jobs.conftest import home as home
from tests.jobs.conftest import is_training, make_spec, run_to_end
from tests.jobs.conftest import jobs as jobs
from tests.jobs.conftest import settings as settings
from tests.wait import until
from trackside.jobs.jobs import Jobs
from trackside.views.logs.log_tail import MOST_CHARACTERS, LogTail, uncoloured


def held(jobs: Jobs, **options) -> Path:
    jobs.submit(make_spec("job-1", hyper={"hold": "1"}, **options))
    until(lambda: is_training(jobs, "job-1"))
    return jobs.settings.layout.job("job-1").host("algo-1", 1).log


def finish(jobs: Jobs) -> None:
    (jobs.settings.layout.job("job-1").root / "release").touch()
    run_to_end(jobs)


def texts(tail: LogTail) -> list[str]:
    tail.refresh()
    return [line.text for line in tail.lines()]


def test_new_lines_are_added_and_a_bar_is_last(jobs: Jobs):
    log = held(jobs)
    tail = LogTail(jobs, "job-1")
    assert texts(tail) == ["line 0", "line 1", "line 2"]
    assert texts(tail) == ["line 0", "line 1", "line 2"]
    with log.open("ab") as file:
        file.write(b"new\n10 %\r20 %")
    assert texts(tail)[-2:] == ["new", "20 %"]
    with log.open("ab") as file:
        file.write(b"\r30 %\n  indented\n")
    assert texts(tail)[-3:] == ["new", "30 %", "  indented"]
    finish(jobs)


def test_of_a_long_log_only_the_end_is_read(jobs: Jobs):
    log = held(jobs)
    with log.open("ab") as file:
        file.writelines(b"%d of many\n" % number for number in range(100_000))
    tail = LogTail(jobs, "job-1", most_lines=100)
    found = texts(tail)
    assert len(found) == 100
    assert found[-1] == "99999 of many"
    finish(jobs)


def test_lines_of_every_host_are_named(jobs: Jobs):
    jobs.submit(make_spec("job-1", num_hosts=2, hyper={"hold": "1"}))
    until(lambda: is_training(jobs, "job-1"))
    tail = LogTail(jobs, "job-1")
    tail.refresh()
    assert {line.host for line in tail.lines()} == {"algo-1", "algo-2"}
    finish(jobs)


def test_a_finished_job_is_read_from_storage(jobs: Jobs):
    held(jobs)
    finish(jobs)
    assert texts(LogTail(jobs, "job-1"))[:3] == ["line 0", "line 1", "line 2"]


def test_a_line_is_what_a_terminal_would_show():
    assert uncoloured(b"a\tb\r\n") == "a   b"
    assert uncoloured(b"\x1b[31mred\x1b[0m \xff\n") == "red \N{REPLACEMENT CHARACTER}"
    assert len(uncoloured(b"x" * 100_000)) <= MOST_CHARACTERS
