"""What a job has stored, as files to list and to download: only what belongs to that job."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from trackside.errors import ObjectNotFound
from trackside.jobs.artifacts import FILES, Artifact
from trackside.jobs.described_locations import keys_of
from trackside.jobs.kept_files import KeptFile
from trackside.records.layout import JobKeys
from trackside.storage.locate import Location, entries_below, locate, locate_object
from trackside.storage.store import Entry

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader

MOST_LISTED = 2000
_OUTPUT, _CHECKPOINTS = "output", "checkpoints"


@dataclass(frozen=True, slots=True)
class JobFile:
    name: str
    """Unique in the job: `output/model.tar.gz`, `files/out.csv`, `checkpoints/last.pt`; of a folder
    with very many files, its kind and a slash."""
    location: str
    size_bytes: int
    modified: float | None
    pieces: Callable[[], Iterator[bytes]] | None
    """Its content; None for a folder."""


def job_files(jobs: "JobReader", name: str, keys: JobKeys) -> list[JobFile]:
    """At most `MOST_LISTED`."""
    return [*islice(_files(jobs, name, keys), MOST_LISTED)]


def open_file(jobs: "JobReader", job: str, name: str) -> JobFile:
    """`ObjectNotFound` if the job has no such file."""
    for file in _files(jobs, job, keys_of(jobs.describe(job))):
        if file.name == name and file.pieces is not None:
            return file
    raise ObjectNotFound(f"The job has stored no file {name!r}. Its setup lists all files.")


def _files(jobs: "JobReader", name: str, keys: JobKeys) -> Iterator[JobFile]:
    for artifact in jobs.artifacts(name):
        yield from _of_artifact(artifact, keys, jobs.settings.home)


def _of_artifact(artifact: Artifact, keys: JobKeys, home: Path) -> Iterator[JobFile]:
    if artifact.kind == _OUTPUT:
        # The list of these is an object in storage, which others may have written.
        if artifact.uri.startswith(f"{keys.prefix}/{_OUTPUT}/"):
            name = artifact.uri.removeprefix(f"{keys.prefix}/")
            place = locate_object(artifact.uri, home=home)
            yield _stored(name, place, place.store.stat(place.key))
    elif artifact.kind == FILES:
        for file in artifact.files:
            yield _kept(file, artifact.uri)
    elif artifact.kind == _CHECKPOINTS:
        folder = locate(artifact.uri, home=home)
        for below, entry in entries_below(folder):
            yield _stored(f"{_CHECKPOINTS}/{below}", folder.child(below), entry)
    else:
        yield JobFile(f"{artifact.kind}/", artifact.uri, artifact.size_bytes, None, None)


def _stored(name: str, place: Location, entry: Entry) -> JobFile:
    pieces = partial(place.store.read, entry.key, etag=entry.etag)
    return JobFile(name, place.uri, entry.size_bytes, entry.modified or None, pieces)


def _kept(file: KeptFile, folder: str) -> JobFile:
    def pieces() -> Iterator[bytes]:
        left = file.size_bytes  # a file that still grows is cut to the size that was announced
        for part in file.parts:
            for piece in part.place.store.read(part.place.key, part.skipped):
                yield piece[:left]
                left -= len(piece)
                if left <= 0:
                    return

    location = f"{folder}/{file.path}"
    return JobFile(f"{FILES}/{file.path}", location, file.size_bytes, None, pieces)
