"""A real file system of one megabyte, for tests of what happens when it is full."""

import shutil
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


@contextmanager
def broken_disk(mountpoint: Path) -> Iterator[Path]:
    """An ext4 that the kernel lets nobody write to any more, as after an error of the disk."""
    image = mountpoint.with_suffix(".img")
    mountpoint.mkdir()
    with image.open("wb") as file:
        file.truncate(8 << 20)
    for words in (
        ["mkfs.ext4", "-q", str(image)],
        ["mount", "-o", "loop", str(image), str(mountpoint)],
    ):
        if shutil.which(words[0]) is None or subprocess.run(words, check=False).returncode:
            pytest.skip(f"no ext4 can be mounted here: {words}")
    try:
        subprocess.run(["mount", "-o", "remount,abort", str(mountpoint)], check=True)
        yield mountpoint
    finally:
        subprocess.run(["umount", "--lazy", str(mountpoint)], check=True)
