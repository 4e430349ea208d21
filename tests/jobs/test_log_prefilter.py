"""What is passed over of a log is exactly what does not hold what is looked for."""

import io
import random

import pytest

from trackside.jobs import log_prefilter
from trackside.jobs.log_prefilter import skim_chunk, skim_file
from trackside.records.log_lines import TimeMark, encode, parse_stamp, stamp

PART = 50


@pytest.mark.parametrize("seed", range(5))
def test_every_line_comes_that_may_hold_it_at_its_place(seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(log_prefilter, "_BLOCK_BYTES", 200)
    chance = random.Random(seed)
    lines = [chance.choice((b"hay", b"needle", b"")) * chance.randrange(9) for _ in range(99)]
    log = b"\n".join(lines) + b"\nno end"
    start, end = 0, len(log)
    seen = b""
    for passed, data in skim_file(io.BytesIO(log), start, end, lambda d: b"needle" in d, PART):
        skipped = log[len(seen) : len(seen) + passed]
        assert all(b"needle" not in line for line in skipped.splitlines() if len(line) < PART)
        assert log[len(seen) + passed :].startswith(data)
        assert len(data) <= PART
        assert not data or b"needle" in data
        seen += skipped + data
    assert seen == log[: log.rfind(b"\n") + 1]


def test_a_stored_chunk_tells_the_same_with_its_times():
    raw = b"hay\nneedle 1\nhay\nhay\nneedle 2\nhay\n"
    sizes = [at + 1 for at, byte in enumerate(raw) if byte == 10]
    marks = [TimeMark(size, 1_790_000_000.0 + size) for size in sizes]
    chunk = encode(raw, 0, marks, 0.0)
    found = list(skim_chunk(chunk, lambda data: b"needle" in data))
    times = [parse_stamp(stamp(1_790_000_000.0 + size)) for size in sizes]
    assert found == [
        (4, times[1], b"needle 1\n"),
        (8, times[4], b"needle 2\n"),
        (4, times[5], b""),
    ]
    assert list(skim_chunk(chunk, lambda data: b"pin" in data)) == [(len(raw), times[5], b"")]
