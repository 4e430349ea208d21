"""A real file system of one megabyte, for tests of what happens when it is full."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def small_disk(mountpoint: Path, size: str = "1m") -> Iterator[Path]:
    mountpoint.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(mountpoint)],
        capture_output=True,
        text=True,
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield mountpoint
    finally:
        # Lazily: a thread that was left behind may still have a file open there.
        subprocess.run(["umount", "--lazy", str(mountpoint)], check=True)


def fill(disk: Path) -> None:
    """Until not another byte fits; removing `filler` there makes room again."""
    with (disk / "filler").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
