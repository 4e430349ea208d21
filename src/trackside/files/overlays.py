"""Cached overlays on disk: whether one is complete, when it was last used, whether a job uses it
now. `toolkit/overlay` creates them; `jobs/garbage_collection` removes them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from typing import IO

from trackside.files.permissions import private_opener

MARKER = ".complete"
"""Its mtime is when the overlay was last used."""


def is_complete(folder: Path) -> float | None:
    """When it was last used; None if it is incomplete."""
    try:
        return (folder / MARKER).stat().st_mtime
    except OSError:
        return None


def open_lock(folder: str) -> IO[str]:
    """Held exclusively while an overlay is built or removed, and shared by the jobs that use it."""
    return open(f"{folder}.lock", "w", opener=private_opener)


def remove_unused(folder: Path) -> bool:
    """False when a job uses or builds it. The lock's file stays: others may wait for it."""
    with open_lock(str(folder)) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        (folder / MARKER).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
    return not os.path.exists(folder)
