"""Every line is found where splitting the whole log would find it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.views.logs import line_index
from trackside.views.logs.line_index import LineIndex


@pytest.fixture(autouse=True, scope="module")
def short_strides():
    before = line_index.STRIDE
    line_index.STRIDE = 8
    yield
    line_index.STRIDE = before


LOG = st.lists(st.sampled_from([b"\n", b"a", b"bc", b"\r", b"x" * 20, b"\n\n\n"])).map(b"".join)


@given(LOG, st.lists(st.integers(1, 30), max_size=10))
def test_lines_are_where_splitting_finds_them(log: bytes, pieces: list[int]):
    index = LineIndex()
    at = 0
    for size in [*pieces, len(log)]:  # it grows by pieces
        piece = log[at : at + size]
        index.add(len(piece), piece.count(b"\n"), ends_line=piece.endswith(b"\n"))
        at += size
    lines = log.split(b"\n")
    if not lines[-1]:
        lines.pop()

    def read(start: int, end: int) -> bytes:
        return log[start:end]

    assert index.size == len(log)
    assert index.num_lines == len(lines)
    offset = 0
    for number, line in enumerate(lines):
        assert index.start(number, read) == offset
        for inside in {offset, offset + len(line)}:
            if inside < len(log):
                assert index.line_at(inside, read) == number
        offset += len(line) + 1
    assert index.start(len(lines), read) == len(log)
    assert index.start(len(lines) + 5, read) == len(log)
