"""Brings the files that a job kept from its working folder to a folder of this machine.

What is there already is not lost: a file that is another one stays, and the job's is written beside
it, with the job's name in its own.
"""

import filecmp
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trackside.jobs.kept_files import KeptFile
from trackside.storage.store import check_key

PART_BYTES = 8 << 20
_GRAIN_SECONDS = 0.1
"""By which a file's time may be behind the clock."""


@dataclass(frozen=True, slots=True)
class Brought:
    path: Path
    taken: Path | None = None
    """What has its name and stays, when it was written beside."""


def bring_back(
    file: KeptFile, folder: Path, job: str, may_replace: Callable[[Path], bool]
) -> Brought:
    """Under a temporary name until it is whole. `may_replace` is asked of a file with other
    content."""
    check_key(file.path)  # no name leads out of the folder
    path = folder / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{job}.part")
    try:
        _fetch(file, partial)
        if not path.exists() or may_replace(path):
            partial.replace(path)
            return Brought(path)
        if path.is_file() and filecmp.cmp(partial, path, shallow=False):
            return Brought(path)
        beside = path.with_name(f"{path.stem}.{job}{path.suffix}")
        partial.replace(beside)
        return Brought(beside, path)
    finally:
        partial.unlink(missing_ok=True)


def unchanged_since(moment: float) -> Callable[[Path], bool]:
    """Whether a file has been left alone since then (seconds since the epoch)."""
    return lambda path: path.is_file() and path.stat().st_ctime < moment - _GRAIN_SECONDS


def _fetch(file: KeptFile, path: Path) -> None:
    with path.open("wb") as out:
        for part in file.parts:
            store, key = part.place.store, part.place.key
            size_bytes = store.stat(key).size_bytes
            for start in range(part.skipped, size_bytes, PART_BYTES):
                out.write(store.get(key, start, min(start + PART_BYTES, size_bytes)))
