"""A folder and its copy in a store, for tests of what is uploaded."""

import os
import time
from pathlib import Path

from trackside.storage.locate import Location, locate
from trackside.supervisor.folder_sync import FolderSync


def place(path: Path) -> Location:
    return locate(str(path), home=path)


def write(path: Path, content: str | bytes = "x", *, age: float = 10.0) -> Path:
    """A file that has been left alone for a while."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    written = time.time() - age
    os.utime(path, (written, written))
    return path


def send(folder: FolderSync) -> None:
    """A file is taken to be complete at its second scan."""
    folder.tick()
    folder.tick()


def names(stored: Path) -> list[str]:
    return sorted(str(path.relative_to(stored)) for path in stored.rglob("*") if path.is_file())
