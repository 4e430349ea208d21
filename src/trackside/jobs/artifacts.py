"""A job's artifacts in object storage: archives with checksums, folders with counts."""

from collections.abc import Iterator

from trackside.errors import ObjectNotFound
from trackside.files import damaged_files
from trackside.files.json_record import DamagedRecord, parsed
from trackside.files.json_record import record as make
from trackside.jobs.kept_files import KeptFile, kept_files
from trackside.jobs.records import Record
from trackside.quick_dataclass import dataclass
from trackside.records.layout import Home
from trackside.storage.locate import locate_object_to_read, locate_to_read

FILES = "files"


@dataclass(frozen=True, slots=True)
class Artifact:
    """One object, or all objects below one prefix."""

    kind: str
    """output, files (of the working folder), checkpoints, tensorboard or debug."""
    uri: str
    size_bytes: int
    num_files: int = 1
    sha256: str | None = None
    """Known for artifacts published at the job's end; None for a prefix."""
    files: tuple[KeptFile, ...] = ()
    """Files that the script wrote to its working folder, by path."""


def artifacts_of(record: Record, home: Home) -> list[Artifact]:
    return [*_published(record, home), *_kept(record, home), *_folders(record, home)]


def _published(record: Record, home: Home) -> Iterator[Artifact]:
    """The list is written last: without it, nothing is published yet."""
    location = locate_object_to_read(record.keys.artifacts, home=home.root)
    try:
        listed = parsed(location.store.get(location.key))
    except ObjectNotFound:
        return
    except DamagedRecord as error:
        damaged_files.say_once(record.keys.artifacts, f"{error}; it is left out")
        return
    for item in listed if isinstance(listed, list) else [listed]:
        try:
            known = make(_Listed, item)
        except DamagedRecord as error:
            damaged_files.say_once(record.keys.artifacts, f"an artifact is left out: {error}")
        else:
            yield Artifact("output", known.uri, known.size_bytes, sha256=known.sha256)


@dataclass(frozen=True, slots=True)
class _Listed:
    """As in `artifacts.json`."""

    uri: str
    size_bytes: int
    sha256: str


def _kept(record: Record, home: Home) -> Iterator[Artifact]:
    if files := kept_files(record, home):
        size_bytes = sum(file.size_bytes for file in files)
        yield Artifact(FILES, record.keys.files, size_bytes, len(files), files=files)


def _folders(record: Record, home: Home) -> Iterator[Artifact]:
    for kind, uri in _prefixes(record):
        location = locate_to_read(f"{uri}/", home=home.root)
        sizes = [entry.size_bytes for entry in location.store.list(location.key)]
        if sizes:
            yield Artifact(kind, uri, sum(sizes), len(sizes))


def _prefixes(record: Record) -> Iterator[tuple[str, str]]:
    spec, keys = record.spec, record.keys
    if spec.checkpoints:
        yield "checkpoints", spec.checkpoints.uri.rstrip("/")
    if spec.tensorboard:
        yield "tensorboard", keys.under(spec.tensorboard.uri, "tensorboard-output")
    if spec.debug_hook:
        yield "debug", keys.under(spec.debug_hook.uri, "debug-output")
