"""The files of a folder that a script is writing to, as one scan sees them."""

import os
from collections.abc import Callable, Iterator
from dataclasses import field
from pathlib import Path

from trackside.files.script_folder import ScriptFolder
from trackside.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class FileState:
    """A file as one scan saw it."""

    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int = field(compare=False)
    """Also changed by a rename or chmod: too often to recognize an unsent file by."""

    @classmethod
    def of(cls, status: os.stat_result) -> "FileState":
        return cls(status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)


def scan(
    root: Path | ScriptFolder,
    problems: dict[str, Exception],
    *,
    enters: Callable[[str], bool] = lambda path: True,
    takes: Callable[[str], bool] | None = None,
    links: list[str] | None = None,
) -> Iterator[tuple[str, FileState]]:
    """Path and state of every regular file; folders that cannot be read are left in `problems`.

    Links are left out, and named in `links`; what is deleted meanwhile is skipped. `enters` decides
    which folders are scanned, `takes` which files: others are not inspected.
    """
    folder = ScriptFolder.of(root)
    stack = [""]
    while stack:
        below = stack.pop()
        found: list[tuple[str, FileState]] = []
        try:
            with folder.entries(below) as entries:
                for entry in entries:
                    path = f"{below}/{entry.name}" if below else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        if enters(path):
                            stack.append(path)
                    elif takes is not None and not takes(path):
                        continue
                    elif state := _state_of(entry):
                        found.append((path, state))
                    elif links is not None and entry.is_symlink():
                        links.append(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:  # also a path longer than the system takes
            problems[below] = error
        yield from found


def _state_of(entry: "os.DirEntry[str]") -> FileState | None:
    try:
        if entry.is_file(follow_symlinks=False):
            return FileState.of(entry.stat(follow_symlinks=False))
    except FileNotFoundError:
        pass
    return None
