"""Reads a job whose hosts are other machines, and asks its lead for something: through storage,
which the lead keeps current. This home has the request, the journal so far and the group's handle.
"""

import json
import logging
from dataclasses import replace

from trackside.coordination.documents import (
    Document,
    StoredRequest,
    document,
    host_name,
    lead_name,
    request_name,
)
from trackside.errors import ObjectNotFound, StorageError
from trackside.files.json_record import DamagedRecord, numbered
from trackside.files.json_record import record as make
from trackside.jobs.records import Record, fetch, folded, read_spec
from trackside.placement.choose import UnknownPlacement, placement_class
from trackside.records.hosts import HostRecord
from trackside.records.job_updates import with_updates
from trackside.records.journal import History
from trackside.records.layout import Home, JobFolder, JobKeys
from trackside.storage.locate import Location, entries_below, locate
from trackside.storage.unreachable_stores import asked_once

logger = logging.getLogger(__name__)


def shares_files(placement: str) -> bool:
    """Whether the hosts of its jobs work in this home. Not if it is unknown: then this home has
    nothing but the request."""
    try:
        return placement_class(placement).shares_files
    except UnknownPlacement:
        return False


def current(record: Record, home: Home) -> Record:
    """As it is now, of the record that this home has. Without `folder` if its hosts do not work
    there: all that they wrote is in storage."""
    assert record.folder is not None
    if shares_files(record.spec.options.placement):
        return record
    history, unreachable = record.history, ""
    if not history.state.is_final:
        try:
            history = _stored_history(record, record.folder, home) or history
        except StorageError as error:
            unreachable = str(error)
    now = with_updates(read_spec(record.folder), history)
    return replace(
        record,
        spec=now.spec,
        history=history,
        folder=None,
        stopped_rules=now.stopped_rules,
        unreachable=unreachable,
    )


def _stored_history(record: Record, folder: JobFolder, home: Home) -> History | None:
    """None when it is not further than what this home knows."""
    try:
        stored = fetch(record.keys.journal, home)
    except ObjectNotFound:
        return None  # it has not started yet
    return folded(record.keys, stored) if is_further(stored, folder.journal.read_bytes()) else None


def is_further(stored: bytes, here: bytes) -> bool:
    """Whether the journal in storage counts, and not this home's. That is ahead only until another
    group is placed; lines that a lead does not know are messages from before it began."""
    return not here.startswith(stored)


def host_records(record: Record, home: Home) -> dict[str, HostRecord]:
    """How far the hosts of the newest group are; empty once the job has ended."""
    place = locate(record.keys.coordination, home=home.root, hurried=True)
    with asked_once(place.store):
        names = {name for name, _ in entries_below(place)}
    heads = {name.partition("/")[0] for name in names}
    epoch = max((int(head) for head in heads if head.isdigit()), default=0)
    found = {}
    for number, host in enumerate(record.spec.hosts):
        name = lead_name(epoch) if number == 0 else host_name(epoch, host)
        if name in names and (said := _read(place, name)) is not None and said.record is not None:
            try:
                found[host] = make(HostRecord, said.record)
            except DamagedRecord as error:
                logger.warning("%s cannot be read: %s", name, error)
    return found


def put_request(keys: JobKeys, home: Home, request: StoredRequest) -> None:
    """Ask the job's lead: it looks every second or two."""
    place = locate(keys.coordination, home=home.root, hurried=True).child(request_name(request.id))
    place.store.put(place.key, json.dumps(numbered(request)).encode())


def remove_coordination(keys: JobKeys, home: Home) -> None:
    """What the hosts told each other, and the fence: no host of the job publishes any more."""
    place = locate(keys.coordination, home=home.root)
    place.store.delete([place.child(name).key for name, _ in entries_below(place)])


def _read(place: Location, name: str) -> Document | None:
    child = place.child(name)
    try:
        return document(child.store.get(child.key))
    except ObjectNotFound:
        return None
