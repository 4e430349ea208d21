"""The files of a folder that a script is writing to, as one look sees them."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Look:
    """A file as one scan saw it."""

    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int = field(compare=False)
    """Also moved by a rename, and by a mode: too much to tell an unsent file by."""

    @classmethod
    def of(cls, status: os.stat_result) -> "Look":
        return cls(status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)


def scan(root: Path, problems: dict[str, Exception]) -> Iterator[tuple[str, Look]]:
    """Path and look of every regular file; folders that cannot be read are left in `problems`.

    Links are left out, what vanishes meanwhile is skipped.
    """
    stack = [""]
    while stack:
        below = stack.pop()
        try:
            with os.scandir(root / below) as entries:
                found = list(entries)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            problems[below] = error
            continue
        for entry in found:
            path = f"{below}/{entry.name}" if below else entry.name
            try:
                if entry.is_dir(follow_symlinks=False):
                    stack.append(path)
                elif entry.is_file(follow_symlinks=False):
                    yield path, Look.of(entry.stat(follow_symlinks=False))
            except FileNotFoundError:
                continue
            except OSError as error:  # a path longer than the system takes
                problems[path] = error
