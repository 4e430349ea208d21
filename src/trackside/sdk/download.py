"""Copies what a job has stored to a folder of this machine."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from trackside.errors import DamagedTransfer, InvalidKey
from trackside.jobs.artifacts import Artifact
from trackside.storage.locate import Location, locate
from trackside.storage.store import Store

PART_BYTES = 8 << 20


def download(artifact: Artifact, folder: Path, home: Path) -> Iterator[Path]:
    """Each file as it is complete: published archives at the top, folders below their kind."""
    if artifact.sha256 is not None:
        parent, _, name = artifact.uri.rpartition("/")
        place = locate(parent, home=home).child(name)
        yield _fetch(place.store, place.key, folder / name, artifact.sha256)
        return
    place = locate(f"{artifact.uri}/", home=home)
    for entry in place.store.list(place.key):
        if not entry.key.endswith("/"):
            yield _fetch(place.store, entry.key, _below(folder / artifact.kind, place, entry.key))


def _below(folder: Path, place: Location, key: str) -> Path:
    relative = key.removeprefix(place.key).lstrip("/")
    if ".." in relative.split("/"):
        raise InvalidKey(f"The key {key!r} would leave the folder {str(folder)!r}.")
    return folder / relative


def _fetch(store: Store, key: str, path: Path, sha256: str | None = None) -> Path:
    """Under a temporary name until it is whole and, where that is known, has the right sum."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.part")
    size_bytes = store.stat(key).size_bytes
    digest = hashlib.sha256()
    try:
        with partial.open("wb") as file:
            for start in range(0, size_bytes, PART_BYTES):
                data = store.get(key, start, min(start + PART_BYTES, size_bytes))
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
