"""TFRecord framing."""

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.curves import native, records


@pytest.mark.parametrize(
    ("data", "crc"),
    # The check value of the algorithm, and two of RFC 3720's examples.
    [(b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43)],
)
def test_crc32c_gives_the_published_values(
    data: bytes, crc: int, library: ctypes.CDLL | None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(native, "library", library)
    assert records.crc32c(data) == crc


def test_compiled_and_plain_checksums_agree_at_every_length(
    compiled: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
):
    data = bytes(range(256)) * 2
    monkeypatch.setattr(native, "library", None)
    for length in range(100):
        piece = data[length : 2 * length]
        assert compiled.trackside_crc32c(piece, len(piece)) == records.crc32c(piece)


def test_tensorboard_reads_what_we_frame(tmp_path):
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import PyRecordReader_New

    contents = [b"", b"a", bytes(1000)]
    path = tmp_path / "records"
    path.write_bytes(b"".join(map(records.frame, contents)))
    reader = PyRecordReader_New(str(path), 0, b"")
    seen = []
    for _ in contents:
        reader.GetNext()
        seen.append(reader.record())
    assert seen == contents


@given(st.lists(st.binary(max_size=40), max_size=6), st.integers(0, 60))
def test_a_torn_tail_hides_nothing_before_it(contents: list[bytes], cut: int):
    framed = [records.frame(content) for content in contents]
    data = b"".join(framed)
    data = data[: max(0, len(data) - cut)]
    whole = [data[start:end] for start, end in records.contents(data)]
    sizes, total = [], 0
    for one in framed:
        total += len(one)
        sizes.append(total)
    assert whole == contents[: sum(size <= len(data) for size in sizes)]


def test_a_bad_header_ends_the_walk_and_the_next_valid_one_is_found():
    first, second = records.frame(b"first"), records.frame(b"second")
    damaged = b"\x01" + first[1:]
    assert list(records.contents(damaged + second)) == []
    assert records.next_header(damaged + second, 1) == len(first)
