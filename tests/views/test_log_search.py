"""A search gives what searching line by line would, and no expression can hold it up."""

import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.job_processes import end_processes_of
from tests.jobs.conftest import ENVIRON, STAND_IN
from tests.views.log_jobs import FIRST_TIME, held_job, stored_job
from trackside.errors import InputError, InvalidPattern, JobError
from trackside.jobs.jobs import Jobs
from trackside.jobs.logs import LogLine
from trackside.records.log_lines import STAMP_LENGTH, TimeMark
from trackside.settings import Settings
from trackside.views.logs import log_search_worker
from trackside.views.logs.log_search import Hit, LogSearch, RunningSearch, SearchEnd, streams_of
from trackside.views.logs.log_search_worker import LineSearch, required_texts
from trackside.views.logs.log_source import SearchPart
from trackside.views.logs.open_logs import OpenLogs

LOG = b"""starting
loss: 1.5
loss: \x1b[31mnan\x1b[0m
 10%|#| loss 0.9\r 20%|##| loss 0.8\rdone       \x20
Loss: \xff inf
"""


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRACKSIDE_S3", "embedded")
    settings = Settings.load({"TRACKSIDE_HOME": str(tmp_path / "home")})
    yield Jobs(settings, ENVIRON, supervisor_command=STAND_IN)
    end_processes_of(settings.home)


@pytest.fixture
def search(jobs: Jobs) -> LogSearch:
    return LogSearch(OpenLogs(jobs.settings.layout))


def found(running: RunningSearch) -> tuple[list[Hit], SearchEnd]:
    *hits, end = running
    assert isinstance(end, SearchEnd)
    assert all(isinstance(hit, Hit) for hit in hits)
    return [hit for hit in hits if isinstance(hit, Hit)], end


def numbers(running: RunningSearch) -> list[int]:
    return [hit.line for hit in found(running)[0]]


FOUND = {
    "loss": [2, 3, 4],
    "(?i)loss": [2, 3, 4, 5],
    "loss: nan": [3],
    "loss: (nan|inf)": [3],
    "nan|inf": [3, 5],
    "^done": [4],
    "10%": [4],
    r"\d\.\d$": [2, 4],
    "^$": [],
    "^s": [1],
    "g$": [1],
    r"\A\w+\Z": [1],
    r"g\s*l": [],
    "\ufffd": [5],
    ".": [1, 2, 3, 4, 5],
}


@pytest.mark.parametrize("where", ["folder", "storage"])
def test_what_is_found(jobs: Jobs, search: LogSearch, where: str):
    record = held_job(jobs, LOG) if where == "folder" else stored_job(jobs, [(0, LOG)])
    assert {pattern: numbers(search.search(record, pattern)) for pattern in FOUND} == FOUND


def test_a_hit_has_its_text_and_time(jobs: Jobs, search: LogSearch):
    hits, end = found(search.search(stored_job(jobs, [(0, LOG)]), "nan|20%|\ufffd"))
    assert [hit.text for hit in hits] == ["loss: nan", " 20%|##| loss 0.8", "Loss: � inf"]
    starts = [LOG.index(text) for text in (b"loss: \x1b", b" 10%", b"Loss")]
    assert [hit.time - FIRST_TIME for hit in hits] == starts
    assert hits[0].as_json().keys() == {"host", "attempt", "line", "time", "text"}
    assert end.as_json() == {"done": True, "matches": 3, "more": False}


def test_it_goes_on_from_a_line(jobs: Jobs, search: LogSearch):
    log = b"".join(b"hit %d\n" % number for number in range(1, 8))
    marks = [TimeMark(6 * number, 100.0 + number) for number in range(1, 8)]
    record = held_job(jobs, log, marks)
    hits, end = found(search.search(record, r"hit \d", most=3))
    assert ([hit.line for hit in hits], end.more) == ([1, 2, 3], True)
    hits, end = found(search.search(record, r"hit \d", first_line=4))
    assert ([hit.line for hit in hits], end.more) == ([4, 5, 6, 7], False)
    assert [hit.time for hit in hits] == [104.0, 105.0, 106.0, 107.0]


def test_all_hosts_are_searched(jobs: Jobs, search: LogSearch):
    record = held_job(jobs, b"hit\n", num_hosts=2)
    jobs.settings.layout.job("job-1").host("algo-1", 1).log.write_bytes(b"no\nhit\n")
    hits, _ = found(search.search(record, "hit"))
    assert [(hit.host, hit.attempt, hit.line) for hit in hits] == [
        ("algo-1", 1, 2),
        ("algo-2", 1, 1),
    ]
    assert numbers(search.search(record, "hit", host="algo-2")) == [1]
    with pytest.raises(JobError, match="no host"):
        search.search(record, "hit", host="algo-9")


def test_what_is_no_expression_is_refused(jobs: Jobs, search: LogSearch):
    record = held_job(jobs, LOG)
    for pattern in ("(", "[", "*", "(?P<", r"\1", "x" * 5000, "(?i" + "(" * 90):
        with pytest.raises(InvalidPattern, match="is no regular expression"):
            search.search(record, pattern)


def test_an_expression_that_takes_too_long_is_given_up(jobs: Jobs):
    search = LogSearch(OpenLogs(jobs.settings.layout), seconds=0.5)
    record = held_job(jobs, b"quick a\n" + b"a" * 60 + b"!\nmore a\n")
    for pattern in ("(a+)+$", "(a|a)*$", "(.*a){30}c"):
        hits, end = found(search.search(record, pattern))
        assert "takes too long, as on line 2 of algo-1" in end.slow
        assert end.as_json()["error"]["code"] == "slow_pattern"
        assert [hit.line for hit in hits] in ([], [1])


def test_searches_that_were_not_read_to_the_end_make_room(jobs: Jobs):
    search = LogSearch(OpenLogs(jobs.settings.layout), most_at_once=1)
    record = held_job(jobs, b"hit\n" * 1000)
    for _ in range(3):
        with search.search(record, "hit") as running:
            next(running)
        search.search(record, "hit").close()
        with pytest.raises(InvalidPattern):
            search.search(record, "(")


def test_a_line_longer_than_memory_should_hold(jobs: Jobs, search: LogSearch):
    log = b"x" * 5_000_000 + b" needle " + b"y" * 3_000_000 + b" needle\nneedle\n" + b"z" * 10
    hits, _ = found(search.search(held_job(jobs, log), "needle"))
    assert [hit.line for hit in hits] == [1, 2]
    assert "needle" in hits[0].text
    assert len(hits[0].text) < 2100
    assert numbers(search.search(jobs.record("job-1"), "zzz$")) == [3]


def test_a_log_that_is_gone_is_reported(jobs: Jobs, search: LogSearch):
    record = held_job(jobs, b"hit\n")
    with search.search(record, "hit") as running:
        jobs.settings.layout.job("job-1").host("algo-1", 1).log.unlink()
        with pytest.raises(InputError, match="moved while it was searched"):
            list(running)


def test_lines_in_chunks_have_the_same_numbers_as_in_the_log(jobs: Jobs, search: LogSearch):
    log = b"".join(b"line %d\n" % number for number in range(1, 1001)) + b"no end 1001"
    pieces = [log[at : at + 97] for at in range(0, len(log), 97)]  # most end within a line
    whole = [b"".join(pieces[at : at + 9]) for at in range(0, len(pieces), 9)]
    record = stored_job(jobs, [(9 * 97 * number, part) for number, part in enumerate(whole)])
    expected = [n for n in range(1, 1002) if "77" in str(n) or n == 1001]
    assert numbers(search.search(record, "77|1001")) == expected
    assert numbers(search.search(record, "77|1001", first_line=277)) == [
        number for number in expected if number >= 277
    ]
    hits, _ = found(search.search(record, "line 777$", first_line=500))
    assert [hit.time - FIRST_TIME for hit in hits] == [log.index(b"line 777\n")]


def test_chunks_of_whole_lines_are_skipped_without_a_hit(jobs: Jobs, search: LogSearch):
    parts = [b"nothing\n" * 10, b"one hit here\n" * 2, b"nothing\n" * 5, b"Hit\n"]
    starts = [sum(map(len, parts[:number])) for number in range(4)]
    record = stored_job(jobs, list(zip(starts, parts, strict=True)))
    assert numbers(search.search(record, "hit")) == [11, 12]
    assert numbers(search.search(record, "(?i)HIT")) == [11, 12, 18]
    assert numbers(search.search(record, "2026-")) == [], "time stamps are not searched"


def test_stamps_are_as_long_as_the_format_says():
    assert log_search_worker._STAMP_LENGTH == STAMP_LENGTH


def test_lines_of_a_server(jobs: Jobs):
    lines = [
        LogLine("algo-1", 1, 0, 5.0, b"no\n"),
        LogLine("algo-1", 1, 3, 6.0, b"hit, in "),
        LogLine("algo-1", 1, 11, 7.0, b"parts\n"),
        LogLine("algo-1", 2, 0, 8.0, b"hit\n"),
    ]
    hits, _ = found(RunningSearch(streams_of(lines), "hit"))
    assert hits == [Hit("algo-1", 1, 2, 6.0, "hit, in parts"), Hit("algo-1", 2, 1, 8.0, "hit")]


def test_a_line_at_the_end_of_a_million(jobs: Jobs, search: LogSearch):
    log = b"".join(b"step %d and some more text\n" % number for number in range(1_000_000))
    assert numbers(search.search(held_job(jobs, log), "step 999999 ")) == [1_000_000]


class Endless:
    """A log whose second block does not come."""

    host, attempt, first_line = "algo-1", 1, 0

    def __init__(self) -> None:
        self.is_over = threading.Event()

    def parts(self) -> Iterator[SearchPart]:
        yield SearchPart(data=b"hit\n" * 100_000)
        self.is_over.wait()

    def time_at(self, offset: int) -> float:
        return 0.0


def test_hits_are_given_before_the_rest_is_read():
    log = Endless()
    with RunningSearch([log], "hit") as running:
        assert next(running) == Hit("algo-1", 1, 1, 0.0, "hit")
    log.is_over.set()


LITERAL_PATTERNS = {
    "loss": [b"loss"],
    "loss: nan": [b"loss: nan"],
    r"loss: \d+ nan": [b"loss: "],
    "nan|inf": [b"nan", b"inf"],
    "(nan|inf)ity": [b"ity"],
    "(?i)NaN": [b"nan"],
    "(?i)straße": [],
    "(?:ab)+": [b"ab"],
    "(?:ab)*": [],
    "(?:ab)?c": [],
    "nan|x": [],
    "nan|": [],
    "(?i:ab)cd": [b"cd"],
    "(?x) a b c": [b"abc"],
    "(?!abc)d": [],
    "(?<=abc)de": [b"de"],
    "[ab]": [],
    "": [],
    r"\x00abc": [],
    "ünï": ["ünï".encode()],
}


@pytest.mark.parametrize("pattern", LITERAL_PATTERNS)
def test_texts_that_every_match_has(pattern: str):
    assert sorted(required_texts(pattern)) == sorted(LITERAL_PATTERNS[pattern])


PATTERNS = [
    "ab", "(?i)AB", "a|b", "ab|cd", "^a", "b$", "a.*d", "[^a]b", "(?i)k", "(ab)+c?", "cd|^$",
    r"\bab\b", "a(?!b)", "(?<!a)b", "ab|(?i:CD)", "K\u212a", r"\s", "aa?b", "(?s)a.b",
]  # fmt: skip
LINES = st.lists(
    st.text(alphabet="abcdAB \u212aké", max_size=8) | st.sampled_from(["", "ab", "xabcd", "a b"]),
    max_size=20,
)


@given(st.sampled_from(PATTERNS), LINES, st.integers(1, 40), st.booleans())
def test_blocks_are_searched_as_lines_are(
    pattern: str, lines: list[str], block_size: int, ends: bool
):
    log = "\n".join(lines).encode() + (b"\n" if ends and lines else b"")
    expected = [
        (number, len(b"\n".join(part.encode() for part in lines[:number])) + bool(number))
        for number, line in enumerate(lines)
        if re.search(pattern, line) and (line or ends or number < len(lines) - 1)
    ]
    blocks = [log[at : at + block_size] for at in range(0, len(log), block_size)]
    assert [(line, offset) for line, offset, _ in hits_of(pattern, blocks)] == expected


def hits_of(pattern: str, blocks: Sequence[bytes]) -> Iterator[tuple[int, int, str]]:
    search = LineSearch(pattern, 1000)
    for block in blocks:
        yield from search.hits(block)
    yield from search.rest()
