"""How a host that has no folder of the job joins its group: `trackside.supervisor --group HOST`.

The placement passes a `Bundle` in TRACKSIDE_GROUP, or in the private file that TRACKSIDE_GROUP_FILE
names. The host makes the job's folder below its own TRACKSIDE_HOME, with `group.json`, and is
supervised as any other from there on. Safe to repeat: a folder that exists is continued.
"""

import logging
import os
import shutil
import socket
import time
from collections.abc import MutableMapping
from pathlib import Path

from trackside.errors import JobError
from trackside.files import durable
from trackside.files.json_record import DamagedRecord, numbered
from trackside.files.permissions import make_folder
from trackside.quick_dataclass import dataclass
from trackside.records.group import (
    Bundle,
    GroupRecord,
    loopback_addresses,
    loopback_interface,
    read_group,
)
from trackside.records.layout import JobFolder
from trackside.records.spec import JobSpec
from trackside.settings import Settings
from trackside.system.network import interface_of

logger = logging.getLogger(__name__)

BUNDLE = "TRACKSIDE_GROUP"
BUNDLE_FILE = "TRACKSIDE_GROUP_FILE"
ADDRESSES = "TRACKSIDE_GROUP_ADDRESSES"
"""Of all hosts in their order, separated by commas, where they are known only on the hosts."""
INTERFACE = "TRACKSIDE_GROUP_INTERFACE"
ENDS = "TRACKSIDE_GROUP_ENDS"
"""When the engine ends the group, in seconds since 1970, where it has a time limit."""
NOTICE = "TRACKSIDE_GROUP_NOTICE"
"""A file that the placement writes before it passes on the engine's notice, `{"host": "algo-2"}`:
a supervisor that is started after the signal finds it there."""
RESOLVE_SECONDS = 60.0
"""How long the names of the other hosts may take to become known."""
_PAUSE_SECONDS = 0.5
_USUAL_INTERFACE = "eth0"


@dataclass(frozen=True, slots=True)
class Joined:
    folder: JobFolder
    host: str
    nonce: str


def join(which: str, environ: MutableMapping[str, str]) -> Joined:
    """As the host of this name, or of this place in the group, counted from 0.

    `environ` gets what the job needs, and loses what only this function reads: no process of the
    job inherits the bundle. `JobError` when this host cannot take part.
    """
    names = (BUNDLE, BUNDLE_FILE, ADDRESSES, INTERFACE, ENDS, NOTICE)
    given = {name: environ.pop(name, "") for name in names}
    bundle = _read(given[BUNDLE], given[BUNDLE_FILE])
    host = _host(bundle, which)
    environ.update(bundle.environment)
    spec = JobSpec.from_request(bundle.spec)
    addresses = _addresses(bundle, given[ADDRESSES])
    group = GroupRecord(
        addresses=addresses,
        interface=given[INTERFACE] or bundle.interface or _interface(addresses[host]),
        host=host,
        attempt=bundle.attempt,
        epoch=bundle.epoch,
        shares_files=bundle.shares_files,
        ends_at=float(given[ENDS]) if given[ENDS].isdigit() else 0.0,
        notice=given[NOTICE],
    )
    folder = Settings.load(environ).layout.job(spec.name)
    if not folder.root.exists():
        _make(folder, bundle, group)
    else:
        _continue(folder, bundle, group)
    return Joined(folder, host, bundle.hosts[host])


def _read(text: str, file: str) -> Bundle:
    if not text and not file:
        raise JobError(f"`--group` needs a bundle: set {BUNDLE}, or {BUNDLE_FILE} to its file.")
    try:
        return Bundle.parse(text or Path(file).read_text())
    except (DamagedRecord, OSError) as error:
        where = BUNDLE if text else f"the file {file!r}"
        raise JobError(f"The bundle in {where} cannot be used: {error}") from error


def _host(bundle: Bundle, which: str) -> str:
    names = [*bundle.hosts]
    if which.isdigit() and int(which) < len(names):
        return names[int(which)]
    if which not in names:
        raise JobError(f"{which!r} is no host of the group; it has {', '.join(names)}.")
    return which


def _addresses(bundle: Bundle, given: str) -> dict[str, str]:
    names = [*bundle.hosts]
    if given:
        listed = [each.strip() for each in given.split(",")]
        if len(listed) != len(names):
            raise JobError(
                f"{ADDRESSES} = {given!r} has {len(listed)} addresses, and the group has "
                f"{len(names)} hosts. Give one for each, in their order."
            )
        return _resolved(dict(zip(names, listed, strict=True)))
    if bundle.addresses:
        return _resolved(bundle.addresses)
    if len(names) == 1:
        return loopback_addresses(str(bundle.spec["TrainingJobName"]), names)
    raise JobError(
        f"The addresses of {', '.join(names)} are not known: the placement must set {ADDRESSES} "
        "on each host."
    )


def _resolved(addresses: dict[str, str]) -> dict[str, str]:
    """The IP address of each: of a machine that has only just started, a name may not be known."""
    deadline = time.monotonic() + RESOLVE_SECONDS
    found: dict[str, str] = {}
    for host, name in addresses.items():
        while host not in found:
            try:
                found[host] = str(socket.getaddrinfo(name, None)[0][4][0])
            except OSError as error:
                if time.monotonic() > deadline:
                    raise JobError(f"The address {name!r} of {host} is unknown: {error}") from error
                time.sleep(_PAUSE_SECONDS)
    return found


def _interface(address: str) -> str:
    if address.startswith("127."):
        return loopback_interface()
    return interface_of(address) or _USUAL_INTERFACE


def _make(folder: JobFolder, bundle: Bundle, group: GroupRecord) -> None:
    """Complete under a hidden name, then renamed: as a submitter makes it."""
    nonce = bundle.hosts[group.host]
    draft = JobFolder(folder.root.with_name(f".{folder.root.name}.{nonce}"))
    shutil.rmtree(draft.root, ignore_errors=True)  # of a process that died here
    make_folder(draft.root)
    durable.create(draft.spec, durable.json_bytes(bundle.spec))
    durable.create(draft.journal, bundle.journal.encode())
    durable.create(draft.group, durable.json_bytes(numbered(group)))
    make_folder(draft.host(group.host, group.attempt).root)
    durable.sync_folder(draft.root)
    try:
        os.rename(draft.root, folder.root)
    except OSError:
        shutil.rmtree(draft.root, ignore_errors=True)
        if not folder.root.exists():
            raise
        _continue(folder, bundle, group)
    else:
        durable.sync_folder(folder.root.parent)


def _continue(folder: JobFolder, bundle: Bundle, group: GroupRecord) -> None:
    """The folder of an earlier supervisor or an earlier group on this machine."""
    before = read_group(folder)
    if before is None or before.host != group.host:
        whose = "the submitter's" if before is None else f"that of {before.host}"
        raise JobError(
            f"The folder {str(folder.root)!r} is {whose}, and {group.host} needs one of its own: "
            "set TRACKSIDE_HOME on each host to a folder that no other host sees."
        )
    if before.epoch > group.epoch:
        raise JobError(f"Group {group.epoch} of the job is over: group {before.epoch} has begun.")
    if before.epoch < group.epoch:  # its journal is over; of the same group, ours is the newer one
        durable.write_bytes(folder.journal, bundle.journal.encode())
    if before != group:
        group.write(folder)
