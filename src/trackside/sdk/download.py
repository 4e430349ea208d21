"""Downloads a job's artifacts and kept files to this machine.

A file has a temporary name until it is complete.
"""

import filecmp
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trackside.errors import DamagedTransfer, InvalidKey
from trackside.jobs.artifacts import Artifact
from trackside.jobs.kept_files import KeptFile
from trackside.storage.locate import Location, locate
from trackside.storage.store import Store, check_key

PART_BYTES = 8 << 20
_CLOCK_SECONDS = 0.1
"""How much a file's mtime may lag behind the clock."""


@dataclass(frozen=True, slots=True)
class Downloaded:
    path: Path
    existing: Path | None = None
    """The existing file that was not replaced, if this one was written next to it."""


def download(artifact: Artifact, folder: Path, home: Path) -> Iterator[Path]:
    """Yields each file once complete: archives at the top, folders below their kind."""
    if artifact.sha256 is not None:
        parent, _, name = artifact.uri.rpartition("/")
        location = locate(parent, home=home).child(name)
        yield _fetch(location.store, location.key, folder / name, artifact.sha256)
        return
    location = locate(f"{artifact.uri}/", home=home)
    for entry in location.store.list(location.key):
        if not entry.key.endswith("/"):
            path = _below(folder / artifact.kind, location, entry.key)
            yield _fetch(location.store, entry.key, path)


def bring_back(
    file: KeptFile, folder: Path, job: str, may_replace: Callable[[Path], bool]
) -> Downloaded:
    """Download a kept file to its path below `folder`.

    An existing file with other content stays, and the job's is written next to it, with the job's
    name in its own; unless `may_replace` returns true for it.
    """
    check_key(file.path)  # no name may lead out of the folder
    path = folder / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{job}.part")
    try:
        with partial.open("wb") as out:
            for part in file.parts:
                for data in _chunks(part.place.store, part.place.key, part.skipped):
                    out.write(data)
        if not path.exists() or may_replace(path):
            partial.replace(path)
            return Downloaded(path)
        if path.is_file() and filecmp.cmp(partial, path, shallow=False):
            return Downloaded(path)
        beside = path.with_name(f"{path.stem}.{job}{path.suffix}")
        partial.replace(beside)
        return Downloaded(beside, path)
    finally:
        partial.unlink(missing_ok=True)


def unchanged_since(moment: float) -> Callable[[Path], bool]:
    """Whether a file was not changed since then (seconds since the epoch)."""
    return lambda path: path.is_file() and path.stat().st_ctime < moment - _CLOCK_SECONDS


def _below(folder: Path, location: Location, key: str) -> Path:
    relative = key.removeprefix(location.key).lstrip("/")
    if ".." in relative.split("/"):
        raise InvalidKey(f"The key {key!r} would leave the folder {str(folder)!r}.")
    return folder / relative


def _fetch(store: Store, key: str, path: Path, sha256: str | None = None) -> Path:
    """`DamagedTransfer` if the checksum is known and differs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.part")
    digest = hashlib.sha256()
    try:
        with partial.open("wb") as file:
            for data in _chunks(store, key):
                digest.update(data)
                file.write(data)
        if sha256 is not None and digest.hexdigest() != sha256:
            raise DamagedTransfer(
                f"{key!r} has SHA-256 {digest.hexdigest()}, and {sha256} when it was stored. "
                "Download it again; if that does not help, it was overwritten."
            )
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def _chunks(store: Store, key: str, skipped: int = 0) -> Iterator[bytes]:
    size_bytes = store.stat(key).size_bytes
    for start in range(skipped, size_bytes, PART_BYTES):
        yield store.get(key, start, min(start + PART_BYTES, size_bytes))
