"""A job's data in storage besides its record, and what may be removed with the job.

A job owns the folders below its output location and its other locations that have its name in their
path. Checkpoints may be at a location without it, which other jobs may share: `judged` returns what
prevents their removal. `delete` removes.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from trackside.errors import StorageError
from trackside.jobs.curve_claims import CLAIM
from trackside.jobs.index import JobSummary
from trackside.jobs.records import UNREADABLE, Record, fetch
from trackside.quick_dataclass import dataclass
from trackside.records.layout import CURVES_FOLDER, Home, JobKeys
from trackside.storage.locate import Location, locate

CHECKPOINTS = "checkpoints"
CURVES = "curves"
_KINDS = {
    "debug-output": "tensors",
    CURVES_FOLDER: CURVES,
    "profiler-output": "profile",
    "rule-output": "rules",
}
_RECORD = "trackside"


@dataclass(frozen=True, slots=True)
class Stored:
    """All objects below one location, or the one object that is there."""

    kind: str
    uri: str
    size_bytes: int
    num_files: int
    is_own: bool = True
    """The location has this job's name; else it may belong to any job."""
    kept: str = ""
    """Why it may not be removed; empty if it may."""


@dataclass(frozen=True, slots=True)
class Use:
    """A location that another job needs."""

    job: str
    uri: str
    place: str
    """In canonical form, for comparison."""
    is_read: bool = False
    """A running job reads it, so nothing above or below may go. Else the job writes there."""


def stored_by(record: Record, home: Home) -> list[Stored]:
    """By kind; empty locations are left out."""
    keys, spec = record.keys, record.spec
    found = [*_below_output(keys, home)]
    own = _identity(keys.prefix, home)
    for uri in dict.fromkeys(_own_folders(record)):
        if not _is_below(_identity(uri, home), own):
            found.append(_counted(_kind(uri), uri, home))
    if spec.checkpoints is not None:
        uri = spec.checkpoints.uri.rstrip("/")
        if not _is_below(_identity(uri, home), own):
            found.append(replace(_counted(CHECKPOINTS, uri, home), is_own=False))
    return [each for each in found if each.num_files]


def judged(stored: Iterable[Stored], uses: Sequence[Use], home: Home) -> list[Stored]:
    """With the reason why each may not be removed, if any."""
    return [replace(each, kept=_reason(each, uses, home)) for each in stored]


def is_removed(stored: Stored, data: bool, checkpoints: bool) -> bool:
    """Whether deleting the job with these options removes it."""
    return data and not stored.kept and (stored.is_own or checkpoints)


def uses(row: JobSummary, home: Home) -> list[Use]:
    """The locations this job needs, by its request; only its output if that cannot be read."""
    keys = JobKeys(row.output, row.name)
    named = [(keys.prefix, False)]
    with suppress(*UNREADABLE):
        folder = home.job(row.name)
        content = folder.spec.read_bytes() if folder.spec.exists() else fetch(keys.spec, home)
        named += _named(json.loads(content), keys, is_running=row.ended is None)
    found = []
    for uri, is_read in named:
        with suppress(StorageError):  # a location that no job can use
            found.append(Use(row.name, uri, _identity(uri, home), is_read))
    return found


def _named(
    request: dict[str, Any], keys: JobKeys, *, is_running: bool
) -> Iterator[tuple[str, bool]]:
    """Locations, and whether they are read. Without validation: a request of a later version counts
    too.
    """
    for member in ("TensorBoardOutputConfig", "DebugHookConfig", "ProfilerConfig"):
        if uri := (request.get(member) or {}).get("S3OutputPath"):
            yield keys.under(str(uri), ""), False
    if uri := (request.get("CheckpointConfig") or {}).get("S3Uri"):
        yield str(uri), False
    if is_running:
        for uri in _read_by(request):
            yield str(uri), True


def remove(stored: Stored, home: Home) -> None:
    place = _folder(stored.uri, home)
    below = [entry.key for entry in place.store.list(place.key)]
    itself = place.key.removesuffix("/")
    place.store.delete([*below, itself] if stored.is_own and itself else below)


def _read_by(request: dict[str, Any]) -> Iterator[str]:
    for channel in request.get("InputDataConfig") or ():
        if uri := channel.get("DataSource", {}).get("S3DataSource", {}).get("S3Uri"):
            yield uri
    if source := (request.get("HyperParameters") or {}).get("sagemaker_submit_directory"):
        yield source.strip('"')


def _own_folders(record: Record) -> Iterator[str]:
    keys, spec = record.keys, record.spec
    if spec.tensorboard is not None:
        yield keys.under(spec.tensorboard.uri, CURVES_FOLDER)
    if spec.debug_hook is not None:
        yield keys.under(spec.debug_hook.uri, "debug-output")
    if spec.profiler is not None and spec.profiler.uri is not None:
        yield keys.under(spec.profiler.uri, "profiler-output")
    for rule in (*spec.debug_rules, *spec.profiler_rules):
        if rule.uri is not None:
            yield keys.under(rule.uri, "rule-output")


def _below_output(keys: JobKeys, home: Home) -> Iterator[Stored]:
    """One listing, grouped by the first name below the job's prefix. Excludes its record and its
    claim on a TensorBoard location, which exists as long.
    """
    place = _folder(keys.prefix, home)
    sizes: dict[str, list[int]] = defaultdict(list)
    for entry in place.store.list(place.key):
        name = entry.key.removeprefix(place.key).partition("/")[0]
        if name != _RECORD and not name.startswith(CLAIM):
            sizes[name].append(entry.size_bytes)
    for name, of_files in sizes.items():
        uri = f"{keys.prefix}/{name}"
        yield Stored(_kind(uri), uri, sum(of_files), len(of_files))


def _counted(kind: str, uri: str, home: Home) -> Stored:
    place = _folder(uri, home)
    sizes = [entry.size_bytes for entry in place.store.list(place.key)]
    return Stored(kind, uri, sum(sizes), len(sizes))


def _reason(stored: Stored, uses: Sequence[Use], home: Home) -> str:
    place = _identity(stored.uri, home)
    for use in uses:
        is_inside = _is_below(use.place, place)
        if use.is_read and (is_inside or _is_below(place, use.place)):
            return f"job {use.job!r} is running and reads {use.uri}"
        if is_inside or (not stored.is_own and _is_below(place, use.place)):
            return f"job {use.job!r} writes to {use.uri}"
    if not stored.is_own and not _folder(stored.uri, home).key.strip("/"):
        return "it is a whole bucket"
    return ""


def _kind(uri: str) -> str:
    name = uri.rpartition("/")[2]
    return _KINDS.get(name, name)


def _folder(uri: str, home: Home) -> Location:
    """Its key ends in a slash. The store's root is above it, so that no empty folder remains."""
    parent, slash, name = uri.rstrip("/").rpartition("/")
    if not slash or parent.endswith(("/", ":")) or "%" in name:  # a bucket, or a name in code
        place = locate(uri, home=home.root)
        return replace(place, key=place.child("x").key[:-1])
    place = locate(parent, home=home.root).child(name)
    return replace(place, key=f"{place.key}/")


def _identity(uri: str, home: Home) -> str:
    """The canonical form of a location, with a trailing slash."""
    place = _folder(uri, home)
    return f"{str(place.local or place.uri).rstrip('/')}/"


def _is_below(place: str, other: str) -> bool:
    return place.startswith(other)
