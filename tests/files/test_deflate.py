import gzip
import random
import threading
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.files.deflate import BLOCK_BYTES, Piece, gzipped

pieces_of_any_size = st.lists(
    st.builds(
        lambda seed, size, alphabet, careful: Piece(
            bytes(random.Random(seed).choices(range(alphabet), k=size)), careful
        ),
        st.integers(0, 1000),
        st.sampled_from([0, 1, 7, 511, 512, 40_000, BLOCK_BYTES, BLOCK_BYTES + 1]),
        st.sampled_from([1, 3, 40, 256]),
        st.booleans(),
    ),
    max_size=5,
)


@settings(max_examples=20)
@given(pieces_of_any_size)
def test_any_reader_gets_back_what_went_in(pieces: list[Piece]) -> None:
    packed = b"".join(gzipped(pieces, threads=2))
    assert gzip.decompress(packed) == b"".join(piece.data for piece in pieces)
    whole = zlib.decompressobj(wbits=31)
    whole.decompress(packed)
    assert whole.eof
    assert whole.unused_data == b"", "a second gzip member, which some readers stop at"


def test_the_same_input_gives_the_same_bytes_whatever_the_number_of_threads() -> None:
    rng = random.Random(5)
    pieces = [Piece(rng.randbytes(300_000) + b"word " * 90_000, careful=True) for _ in range(6)]
    assert len({b"".join(gzipped(pieces, threads=count)) for count in (1, 2, 5)}) == 1


@pytest.mark.parametrize(
    "text",
    [
        " ".join(str(number * 7919 % 10_007) for number in range(200_000)),
        "".join(f'"token{number:x}": {number},\n' for number in range(100_000)),
        "".join(f"step={number} loss={1 / (1 + number):.6f}\n" for number in range(100_000)),
    ],
    ids=["numbers", "vocabulary", "log"],
)
def test_text_in_small_files_is_as_small_as_with_level_6(text: str) -> None:
    data = text.encode()
    pieces = [
        Piece(data[start : start + 30_000], careful=True) for start in range(0, len(data), 30_000)
    ]
    ours = sum(map(len, gzipped(pieces)))
    assert ours <= 1.02 * len(gzip.compress(data, 6))


def test_a_consumer_that_stops_early_leaves_no_thread() -> None:
    def endless() -> Iterator[Piece]:
        while True:
            yield Piece(b"x" * BLOCK_BYTES, careful=False)

    stream = gzipped(endless(), threads=3)
    for _ in range(4):
        next(stream)
    assert any(thread.name.startswith("trackside-deflate") for thread in threading.enumerate())
    stream.close()  # type: ignore[attr-defined]  # a generator
    assert not any(thread.name.startswith("trackside-deflate") for thread in threading.enumerate())


def test_only_a_few_blocks_are_read_ahead() -> None:
    taken = 0

    def counted() -> Iterator[Piece]:
        nonlocal taken
        for _ in range(100):
            taken += 1
            yield Piece(bytes(BLOCK_BYTES), careful=False)

    stream = gzipped(counted(), threads=2)
    next(stream)
    next(stream)
    assert taken <= 2 * 2 + 2
    assert sum(1 for _ in stream) == 100
    assert taken == 100


def test_a_failure_of_the_source_reaches_the_consumer() -> None:
    def broken() -> Iterator[Piece]:
        yield Piece(b"x" * BLOCK_BYTES, careful=False)
        raise RuntimeError("disk on fire")

    with pytest.raises(RuntimeError, match="disk on fire"):
        list(gzipped(broken()))
