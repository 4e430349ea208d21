"""Log chunks: every byte back, each line with its time, whatever the script wrote."""

import pytest

from trackside.log_lines import TimeMark, chunk_name, decode, encode, parse_stamp, stamp, time_of


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
