"""The files of a folder that a script is writing to, as one look sees them."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Look:
    """A file as one scan saw it."""

    size: int
    mtime_ns: int
    inode: int


def scan(root: Path) -> Iterator[tuple[str, Look]]:
    """Path below the folder and look of each file; links are left out, what vanishes is skipped."""
    stack = [""]
    while stack:
        below = stack.pop()
        try:
            entries = list(os.scandir(root / below))
        except (FileNotFoundError, NotADirectoryError):
            continue
        for entry in entries:
            path = f"{below}/{entry.name}" if below else entry.name
            try:
                if entry.is_dir(follow_symlinks=False):
                    stack.append(path)
                elif entry.is_file(follow_symlinks=False):
                    stat = entry.stat(follow_symlinks=False)
                    yield path, Look(stat.st_size, stat.st_mtime_ns, stat.st_ino)
            except FileNotFoundError:
                continue
