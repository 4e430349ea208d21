"""Files that another process reads: written under a temporary name, synced, renamed."""

import json
import os
from pathlib import Path
from typing import Any


def write_bytes(path: Path, data: bytes) -> None:
    """Readers see the old content or the new, whole, also after a power cut."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_json(path: Path, record: Any) -> None:
    write_bytes(path, json.dumps(record, indent=1).encode() + b"\n")


def read_json(path: Path) -> Any | None:
    """None when there is no such file: not written yet is an answer, not an error."""
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None


def sync_folder(path: Path) -> None:
    """Make a rename or a new name in this folder last."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
