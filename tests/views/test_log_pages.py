"""A page of a log: any part of it, while the job runs and when only storage has it."""

import json
from pathlib import Path

import pytest

from tests.job_processes import end_processes_of
from tests.jobs.conftest import ENVIRON, STAND_IN
from tests.views.log_jobs import FIRST_TIME, append, held_job, put_chunk, stored_job
from trackside.errors import InputError, JobError
from trackside.jobs.jobs import Jobs
from trackside.records.log_lines import TimeMark, chunk_name
from trackside.settings import Settings
from trackside.storage.locate import locate
from trackside.views.logs import open_logs
from trackside.views.logs.log_pages import LogPage, LogPages
from trackside.views.logs.log_text import KEPT_BYTES
from trackside.views.logs.open_logs import OpenLogs

TEN = b"".join(b"line %d\n" % number for number in range(1, 11))
"""Seven bytes each, but for the last."""


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRACKSIDE_S3", "embedded")
    settings = Settings.load({"TRACKSIDE_HOME": str(tmp_path / "home; echo 'x'")})
    yield Jobs(settings, ENVIRON, supervisor_command=STAND_IN)
    end_processes_of(settings.home)


@pytest.fixture
def pages(jobs: Jobs) -> LogPages:
    return LogPages(OpenLogs(jobs.settings.layout))


def texts(page: LogPage) -> list[str]:
    return [line.text for line in page.lines]


def chunks(log: bytes, size: int) -> list[tuple[int, bytes]]:
    return [(at, log[at : at + size]) for at in range(0, len(log), size)]


@pytest.mark.parametrize("where", ["folder", "storage", "storage in small chunks"])
def test_every_page_of_a_log(jobs: Jobs, pages: LogPages, where: str):
    if where == "folder":
        record = held_job(jobs, TEN)
    else:
        record = stored_job(jobs, chunks(TEN, 1000 if where == "storage" else 11))
    lines = TEN.decode().splitlines()
    for first in range(1, 11):
        for count in (1, 3, 20):
            page = pages.page(record, at=f"line:{first}", count=count)
            assert (page.first, page.total, page.target) == (first, 10, first)
            assert texts(page) == lines[first - 1 : first - 1 + count]
    tail = pages.page(record, count=4)
    assert (texts(tail), tail.first, tail.target) == (lines[-4:], 7, None)


def test_a_line_beyond_the_end_is_the_last_one(jobs: Jobs, pages: LogPages):
    page = pages.page(held_job(jobs, TEN), at="line:99")
    assert (page.first, texts(page)) == (10, ["line 10"])


def test_an_empty_log_is_an_empty_page(jobs: Jobs, pages: LogPages):
    record = held_job(jobs, b"")
    for at in ("tail", "line:3", "time:5"):
        page = pages.page(record, at=at)
        assert (page.total, page.first, page.lines) == (0, 1, [])


def test_a_log_that_grows(jobs: Jobs, pages: LogPages):
    record = held_job(jobs, b"first\nsec")
    before = pages.page(record)
    assert (texts(before), before.total) == (["first", "sec"], 2)
    append(jobs, b"ond\nthird\n")
    after = pages.page(record)
    assert (texts(after), after.total) == (["first", "second", "third"], 3)
    assert before.revision != after.revision == pages.page(record).revision


def test_a_log_in_storage_that_grows(jobs: Jobs, pages: LogPages):
    """As of a host elsewhere."""
    record = stored_job(jobs, [(0, b"first\nsec")])
    assert texts(pages.page(record)) == ["first", "sec"]
    put_chunk(jobs, record, 9, b"ond\nthird\n")
    assert texts(pages.page(record)) == ["first", "second", "third"]


def test_chunks_that_overlap_are_shown_once_and_lost_ones_are_named(jobs: Jobs, pages: LogPages):
    record = stored_job(jobs, [(0, b"one\ntwo\n"), (4, b"two\nthree\n"), (100, b"much later\n")])
    assert texts(pages.page(record)) == [
        "one",
        "two",
        "three",
        "[86 bytes of the log are missing here]",
        "much later",
    ]


@pytest.mark.parametrize("damage", [b"x", b"\n\n\n", b"short\nlines\n", b"\xff" * 30, b""])
def test_a_damaged_chunk_hurts_only_itself(jobs: Jobs, pages: LogPages, damage: bytes):
    record = stored_job(jobs, [(0, b"first\n"), (6, b"second\n"), (13, b"third\n")])
    place = locate(f"{record.keys.logs}/algo-1", home=jobs.settings.home)
    chunk = place.child(chunk_name(1, 6))
    chunk.store.put(chunk.key, damage)
    page = pages.page(record)
    assert (page.lines[0].text, page.lines[-1].text.endswith("third")) == ("first", True)
    for at in range(1, page.total + 1):
        assert pages.page(record, at=f"line:{at}").lines == page.lines[at - 1 :]


def test_times_of_lines_in_the_folder(jobs: Jobs, pages: LogPages):
    record = held_job(jobs, TEN, [TimeMark(14, 100.0), TimeMark(30, 200.0), TimeMark(71, 300.0)])
    page = pages.page(record)
    assert [line.time for line in page.lines] == [100.0] * 2 + [200.0] * 3 + [300.0] * 5
    found = {
        time: pages.page(record, at=f"time:{time}").target
        for time in (0, 100, 100.5, 200, 250, 300, 301)
    }
    # The fifth line was begun at 200, and the next byte was written at 300.
    assert found == {0: 1, 100: 1, 100.5: 3, 200: 3, 250: 6, 300: 6, 301: 10}


def test_times_of_lines_in_storage(jobs: Jobs, pages: LogPages):
    record = stored_job(jobs, chunks(TEN, 14))
    page = pages.page(record)
    assert [line.time for line in page.lines] == [FIRST_TIME + 7 * each for each in range(10)]
    for number in range(10):
        page = pages.page(record, at=f"time:{FIRST_TIME + 7 * number - 3}", count=3)
        assert page.target == number + 1
        assert texts(page)[page.target - page.first] == f"line {number + 1}"


def test_a_step_is_shown_where_the_log_was_at_its_time(jobs: Jobs, pages: LogPages):
    record = held_job(jobs, TEN, [TimeMark(14, 100.0), TimeMark(71, 300.0)])
    steps = {5: 150.0}
    assert pages.page(record, at="step:5", time_of_step=steps.get).target == 3
    with pytest.raises(InputError, match="reached step 6 is not known"):
        pages.page(record, at="step:6", time_of_step=steps.get)


def test_another_host(jobs: Jobs, pages: LogPages):
    record = held_job(jobs, TEN, num_hosts=2)
    assert texts(pages.page(record, host="algo-2", count=1)) == ["line 10"]
    with pytest.raises(JobError, match="no host 'algo-3'"):
        pages.page(record, host="algo-3")
    with pytest.raises(InputError, match="no attempt 2"):
        pages.page(record, attempt=2)


@pytest.mark.parametrize("at", ["", "line:", "line:x", "time:nan", "../x", "line:-1", "head:1"])
def test_a_place_that_is_none(jobs: Jobs, pages: LogPages, at: str):
    record = held_job(jobs, TEN)
    with pytest.raises(InputError, match="is no place in a log"):
        pages.page(record, at=at)


def test_very_long_lines_are_read_in_part(jobs: Jobs, pages: LogPages):
    long = 3 * KEPT_BYTES
    bar = b"".join(b"\r%3d %%" % (number % 101) for number in range(long // 2))
    log = b"a" * long + b"\n" + bar + b"\n" + b"".join([b"b" * long + b"\n"] * 40) + b"end\n"
    page = pages.page(held_job(jobs, log), at="line:1")
    assert texts(page)[0].startswith("aaaa")
    assert texts(page)[0].endswith("more bytes]")
    assert texts(page)[1] == bar.rpartition(b"\r")[2].decode()
    assert 2 < len(page.lines) < 43  # enough for now
    following = pages.page(jobs.record("job-1"), at=f"line:{page.first + len(page.lines)}")
    assert texts(following)[-1] == "end"
    assert len(page.lines) + len(following.lines) == page.total == 43


def test_a_page_is_json(jobs: Jobs, pages: LogPages):
    page = pages.page(held_job(jobs, b"\xff\x00\xed\xa0\x80\n")).as_json()
    assert json.loads(json.dumps(page))["lines"][0]["text"] == "�\\x00���"


def test_the_index_of_a_finished_job_is_kept(
    jobs: Jobs, pages: LogPages, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(open_logs, "_WORTH_KEEPING_BYTES", 1)
    record = stored_job(jobs, chunks(TEN, 14))
    before = pages.page(record)
    path = jobs.settings.layout.log_index("job-1", "algo-1", 1)
    kept = json.loads(path.read_bytes())
    assert (kept["size"], len(kept["source"]["parts"])) == (71, 6)
    assert LogPages(OpenLogs(jobs.settings.layout)).page(record) == before


def test_the_index_goes_with_its_job(jobs: Jobs, pages: LogPages, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(open_logs, "_WORTH_KEEPING_BYTES", 1)
    pages.page(stored_job(jobs, chunks(TEN, 14)))
    kept = jobs.settings.layout.log_index("job-1", "algo-1", 1)
    other = jobs.settings.layout.log_index("job-11", "algo-1", 1)
    other.write_bytes(kept.read_bytes())
    jobs.delete("job-1")
    assert not kept.exists()
    assert other.exists()


@pytest.mark.parametrize(
    "damage", [b"", b"{}", b"[]", b'{"identity": 1}', b"\xff", b"other chunks"]
)
def test_a_damaged_index_is_made_again(
    jobs: Jobs, pages: LogPages, monkeypatch: pytest.MonkeyPatch, damage: bytes
):
    monkeypatch.setattr(open_logs, "_WORTH_KEEPING_BYTES", 1)
    record = stored_job(jobs, chunks(TEN, 14))
    before = pages.page(record)
    path = jobs.settings.layout.log_index("job-1", "algo-1", 1)
    if damage == b"other chunks":
        damage = path.read_bytes().replace(b"[0,14,0,", b"[0,14,5,")
    path.write_bytes(damage)
    assert LogPages(OpenLogs(jobs.settings.layout)).page(record) == before


def test_few_logs_are_kept_open(jobs: Jobs):
    logs = OpenLogs(jobs.settings.layout, most_open=1)
    record = held_job(jobs, TEN, num_hosts=2)
    first = logs.get(record, "algo-2", 1)
    assert logs.get(record, "algo-2", 1) is first
    logs.get(record, "algo-1", 1)
    assert logs.get(record, "algo-2", 1) is not first


def test_a_million_lines(jobs: Jobs, pages: LogPages):
    lines = [b"step %d loss %f" % (number, 1 / (number + 1)) for number in range(1_000_000)]
    record = held_job(jobs, b"\n".join(lines) + b"\n")
    assert pages.page(record).total == 1_000_000
    for number in (1, 123_456, 999_990):
        page = pages.page(record, at=f"line:{number}", count=10)
        assert texts(page) == [line.decode() for line in lines[number - 1 : number + 9]]
