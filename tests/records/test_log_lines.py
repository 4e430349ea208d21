"""Log chunks: every byte back, each line with its time, whatever the script wrote."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from trackside.records.log_lines import (
    TimeMark,
    chunk_name,
    decode,
    encode,
    last_mark,
    line_start,
    near_mark,
    parse_stamp,
    stamp,
    time_of,
)


@pytest.mark.parametrize(
    "raw",
    [
        b"one\ntwo\n",
        b"cut",
        b"",
        b"\n\n",
        b"10%\r20%\r30%\ndone\n",
        b"nul \0 and \xff\xfe not text\n",
        b"form\x0cfeed\x1cand \xc2\x85 are no line ends\n",
    ],
)
def test_a_chunk_gives_every_byte_back(raw: bytes):
    assert b"".join(line for _, line in decode(encode(raw, 0, [], 0.0))) == raw


def test_lines_carry_the_time_at_which_they_were_seen():
    marks = [TimeMark(4, 100.25), TimeMark(8, 200.5)]
    assert list(decode(encode(b"one\ntwo\nend\n", 0, marks, 300.75))) == [
        (100.25, b"one\n"),
        (200.5, b"two\n"),
        (300.75, b"end\n"),
    ]
    assert time_of(4, marks, 0.0) == 200.5


def test_a_stamp_is_readable_and_comes_back():
    assert stamp(1794773801.574) == b"2026-11-15T20:16:41.574Z "
    assert parse_stamp(stamp(1794773801.574)) == pytest.approx(1794773801.574, abs=1e-3)


def test_chunk_names_sort_by_place():
    names = [chunk_name(1, 0), chunk_name(1, 9), chunk_name(1, 10_000), chunk_name(2, 0)]
    assert names == sorted(names)


def test_a_mark_is_found_among_many_by_reading_few(tmp_path: Path):
    class Counted(io.BytesIO):
        num_read = 0

        def readline(self, size: int | None = -1, /) -> bytes:
            line = super().readline(size)
            self.num_read += len(line)
            return line

    data = b"".join(b"%d %d.000\n" % (7 * n, 1_790_000_000 + n // 3) for n in range(1, 50_000))
    path = tmp_path / "times"
    path.write_bytes(data + b"999999 17900")

    def is_up_to(most: int) -> Callable[[TimeMark], bool]:
        return lambda mark: mark.size <= most

    for size in (0, 7, 7000, 200_000, 349_993, 10**9):
        file = Counted(data)
        file.seek(near_mark(file, is_up_to(size)))
        following = [int(line.split()[0]) for line in file.readlines()]
        assert [each for each in following if each > size] == list(
            range((size // 7 + 1) * 7, 350_000, 7)
        )
        assert file.num_read < 4096
        found = last_mark(path, is_up_to(size))
        assert found == (TimeMark(min(size // 7, 49_999) * 7, found.time) if found else None)
        assert (found is None) == (size < 7)
    assert last_mark(tmp_path / "none", lambda mark: True) is None


def test_a_line_s_beginning_is_found_from_any_of_its_bytes():
    data = b"one\n" + b"x" * 100_000 + b"\ntwo\n"
    starts = [0, *(at + 1 for at, byte in enumerate(data) if byte == 10)]
    for end in (0, 1, 3, 4, 5, 99_999, 100_004, 100_005, 100_006, len(data)):
        assert line_start(io.BytesIO(data), end) == max(each for each in starts if each <= end)
