import os
from pathlib import Path

import numpy as np
import pytest

from trackside.capture.writing.direct_output import DirectOutput

CHUNK = 4 << 20


def check_written(path: Path, sizes: list[int]) -> None:
    random = np.random.default_rng(0)
    parts = [random.integers(0, 256, size, dtype=np.uint8) for size in sizes]
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        DirectOutput().write(descriptor, [b"head", *parts])
    finally:
        os.close(descriptor)
    assert path.read_bytes() == b"head" + b"".join(part.tobytes() for part in parts)


@pytest.mark.parametrize(
    "sizes",
    [
        [],
        [1],
        [4092],
        [CHUNK - 4],
        [CHUNK - 5],
        [CHUNK - 3],
        [7, CHUNK, 4096, 1],
        [3 * CHUNK + 4095, 13, 8192],
    ],
)
def test_every_byte_arrives_whatever_the_parts_sizes(tmp_path, sizes):
    check_written(tmp_path / "file", sizes)


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no file system in memory here")
def test_a_file_system_that_refuses_is_written_to_as_usual():
    path = Path("/dev/shm") / f"trackside-test-{os.getpid()}"
    try:
        check_written(path, [CHUNK + 1, 4096])
    finally:
        path.unlink(missing_ok=True)


@pytest.mark.skipif(not hasattr(os, "O_DIRECT"), reason="writing past the cache is Linux's")
def test_a_write_that_is_refused_midway_continues_through_the_cache(tmp_path):
    """At an odd place of the file no direct write is possible, though the flag is accepted."""
    path = tmp_path / "file"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        os.write(descriptor, b"odd")
        DirectOutput().write(descriptor, [bytes(CHUNK), b"end"])
    finally:
        os.close(descriptor)
    assert path.read_bytes() == b"odd" + bytes(CHUNK) + b"end"
