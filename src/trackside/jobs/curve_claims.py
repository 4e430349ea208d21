"""Claims on TensorBoard locations: the event files in one belong to a single job.

Within one output location a job's name is unique (`submit.py`), but TensorBoard locations are
shared by jobs of other outputs and other machines. So each job writes a claim next to its location.
"""

import json
from collections.abc import Iterator
from dataclasses import replace

from trackside.errors import CurvesTaken, StorageError
from trackside.files.json_record import parsed
from trackside.records.event_names import is_event_file
from trackside.records.layout import CURVES_FOLDER, Home, JobKeys, curves_of
from trackside.records.spec import JobSpec
from trackside.storage.locate import Location, locate

CLAIM = "trackside-claim-"
"""Prefix of a claim's name."""


def check_free(spec: JobSpec, home: Home) -> None:
    """`CurvesTaken` when another job claims the location, or event files are there already."""
    if spec.tensorboard is not None:
        try:
            _check_claims(spec, home)
            _check_files(spec, home)
        except StorageError as error:
            uri = spec.tensorboard.uri
            raise type(error)(
                f"The TensorBoard location {uri!r} cannot be used: {error}"
            ) from error


def claim(spec: JobSpec, home: Home) -> None:
    """Claim the location for this job's event files; idempotent.

    Of two concurrent claims at most one succeeds: each writes first and checks afterwards.
    """
    if spec.tensorboard is None:
        return
    place = _own_claim(spec, home)
    record = {"job": spec.name, "output": _identity(spec, home)}
    place.store.put(place.key, json.dumps(record).encode())
    try:
        _check_claims(spec, home)
    except CurvesTaken:
        release(spec, home)
        raise


def release(spec: JobSpec, home: Home) -> None:
    if spec.tensorboard is not None:
        place = _own_claim(spec, home)
        place.store.delete([place.key])


def _check_claims(spec: JobSpec, home: Home) -> None:
    """Also of locations that contain this one: a job's location may be given as another's."""
    mine = _own_claim(spec, home).key.rpartition("/")[2]
    for uri in _with_outer(curves_of(spec)):
        start = _claims(uri, home)
        for entry in start.store.list(start.key):
            if entry.key.rpartition("/")[2] != mine:
                raise CurvesTaken(spec.name, uri, *_owner(start, entry.key))


def _check_files(spec: JobSpec, home: Home) -> None:
    uri = curves_of(spec)
    place = locate(uri, home=home.root)
    prefix = place.child("x").key[:-1]
    for entry in place.store.list(prefix):
        if is_event_file(entry.key):
            raise CurvesTaken(spec.name, uri)


def _with_outer(uri: str) -> Iterator[str]:
    yield uri
    while (at := uri.rfind(f"/{CURVES_FOLDER}/")) >= 0:
        uri = uri[: at + 1] + CURVES_FOLDER
        yield uri


def _owner(claims: Location, key: str) -> tuple[str, str]:
    """The job and its output; as much as can be read of a foreign file."""
    try:
        record = parsed(claims.store.get(key))
        return str(record["job"]), str(record["output"])
    except (StorageError, ValueError, KeyError, TypeError):
        return "", ""


def _own_claim(spec: JobSpec, home: Home) -> Location:
    from hashlib import sha256  # loads OpenSSL, which most jobs do not need

    digest = sha256(_identity(spec, home).encode()).hexdigest()[:16]
    claims = _claims(curves_of(spec), home)
    return replace(claims, key=f"{claims.key}{digest}.json", uri=f"{claims.uri}{digest}.json")


def _identity(spec: JobSpec, home: Home) -> str:
    """The job's output, which is unique; embedded buckets and paths belong to one machine."""
    prefix = JobKeys.of(spec).prefix
    local = locate(prefix, home=home.root).local
    if local is None:
        return prefix
    import socket  # few jobs request curves in a location of their own

    return f"{socket.gethostname()}:{local}"


def _claims(curves: str, home: Home) -> Location:
    """Key prefix of claims on a location. Next to the location, which is for event files only."""
    return locate(curves.removesuffix(f"/{CURVES_FOLDER}"), home=home.root).child(CLAIM)
