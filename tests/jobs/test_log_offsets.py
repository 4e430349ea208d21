"""Places to read a log on from: each is where a line begins, and none is jumped over."""

import random

import pytest

from tests.api.written_jobs import Lines, keep_in_storage_only, write_job
from trackside.jobs.jobs import Jobs
from trackside.jobs.logs import PART_BYTES, LogPosition

BEGAN = 1_790_000_000.0


def attempts(chance: random.Random) -> list[Lines]:
    sizes = [0, 1, 30, 200, 3 * PART_BYTES]
    found: list[Lines] = []
    for number in range(3):
        count = chance.randrange(0, 40) if number else 30
        start = BEGAN + 1000 * number
        times = sorted(start + chance.randrange(0, 900) for _ in range(count))
        found.append([(time, b"x" * chance.choice(sizes) + b"\n") for time in times])
    return found


@pytest.mark.parametrize("where", ["folder", pytest.param("storage", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("seed", range(3))
def test_steps_back_meet_lines_only_and_lead_to_the_beginning(jobs: Jobs, where: str, seed: int):
    chance = random.Random(seed)
    folder = write_job(jobs, "job-1", attempts(chance), span=(BEGAN, BEGAN + 3000))
    if where == "storage":
        keep_in_storage_only(jobs, folder, chunk_bytes=chance.choice((1000, 1 << 20)))
    jobs.refresh()
    record = jobs.record("job-1")
    lines = [(line.attempt, line.offset) for line in jobs.settled_lines(record, "algo-1")]
    places = jobs.log_places(record, "algo-1")
    for size_bytes in (1, 100, 1 << 16):
        met: list[LogPosition] = []
        place: LogPosition | None = None
        while (place := places.before(place, size_bytes)) is not None:
            met.append(place)
        assert met[-1] == (1, 0)
        assert met == sorted(met, reverse=True)
        assert set(met) <= {*lines, LogPosition(1, 0)}


@pytest.mark.parametrize("where", ["folder", "storage"])
def test_no_line_of_a_time_or_later_is_before_its_place(jobs: Jobs, where: str):
    folder = write_job(jobs, "job-1", attempts(random.Random(7)), span=(BEGAN, BEGAN + 3000))
    if where == "storage":
        keep_in_storage_only(jobs, folder, chunk_bytes=PART_BYTES // 2)
    jobs.refresh()
    record = jobs.record("job-1")
    lines = list(jobs.settled_lines(record, "algo-1"))
    places = jobs.log_places(record, "algo-1")
    for moment in {0.0, BEGAN + 1e6, *(line.time for line in lines)}:
        place = places.since(moment)
        before = [line for line in lines if (line.attempt, line.offset) < place]
        assert all(line.time < moment for line in before)
        assert place in {(line.attempt, line.offset) for line in lines}


def test_a_place_that_is_not_there_is_the_end(jobs: Jobs):
    write_job(jobs, "job-1", [[(BEGAN, b"one\n"), (BEGAN, b"two\n")]], span=(BEGAN, BEGAN + 9))
    jobs.refresh()
    places = jobs.log_places(jobs.record("job-1"), "algo-1")
    assert places.before(LogPosition(99, 5), 1) == (1, 4)
    assert places.before(LogPosition(1, 10**9), 1) == (1, 4)
    assert places.before(LogPosition(1, 0), 1) is None
