"""`placed.json`: which group of hosts was placed for a job, by which placement, and its handles.

Written by the process that places a group: first the intent, then the handle. The release 0.1.0
wrote a file of this name for each host and attempt; they are still read.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trackside.files import damaged_files, durable
from trackside.quick_dataclass import dataclass
from trackside.records.layout import HostFolder, JobFolder
from trackside.system.boot_clock import Moment

LOCAL = "local"
"""The placement on this machine, and the only one that the release 0.1.0 had."""

Handle = dict[str, Any]
"""JSON-safe; finds a group of supervisors again after any restart of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedHost:
    nonce: str
    revivals: int = 0
    """How often it was restarted after it died, without a long life in between."""
    revived: Moment | None = None
    """When it was last restarted."""
    gpus: tuple[str, ...] | None = None
    """GPUs of this machine reserved for this host; None if they are not assigned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The hosts that one call of the placement started, and its handle."""

    hosts: tuple[str, ...]
    handle: Handle


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    hosts: dict[str, PlacedHost]
    started: tuple[Started, ...] = ()
    """Usually one, of all hosts. A host that was restarted alone has one of its own; a host that
    has none was not started yet."""
    placement: str = LOCAL
    epoch: int = 1
    """How many groups were placed for this job."""
    attempt: int = 1
    """The job's attempt in which the group was placed; local supervisors go on to the next."""
    stop: str = ""
    """The request to the lead of a group elsewhere that the job stops; empty if there is none."""

    @property
    def started_hosts(self) -> set[str]:
        return {host for each in self.started for host in each.hosts}

    def with_host(self, host: str, placed: PlacedHost) -> "Placed":
        return replace(self, hosts={**self.hosts, host: placed})

    def before_start(self, hosts: Sequence[str]) -> "Placed":
        """The intent to start these hosts: without their handles of before."""
        started = []
        for each in self.started:
            rest = tuple(host for host in each.hosts if host not in hosts)
            if rest:
                started.append(replace(each, hosts=rest))
        return replace(self, started=tuple(started))

    def after_start(self, hosts: Sequence[str], handle: Handle) -> "Placed":
        added = Started(hosts=tuple(hosts), handle=handle)
        return replace(self, started=(*self.before_start(hosts).started, added))

    def write(self, folder: JobFolder) -> None:
        durable.write_record(folder.placed, self)

    @classmethod
    def read(cls, folder: JobFolder) -> "Placed | None":
        """None when missing or damaged: a supervisor itself records its identity."""
        return damaged_files.read(cls, folder.placed) or _read_by_host(folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlacedOfHost:
    """What 0.1.0 wrote for each host."""

    nonce: str
    handle: Handle | None = None
    revivals: int = 0
    revived: Moment | None = None
    gpus: tuple[str, ...] | None = None


def _read_by_host(folder: JobFolder) -> Placed | None:
    hosts: dict[str, PlacedHost] = {}
    started: list[Started] = []
    for path in sorted(folder.hosts.glob("*/*/placed.json"), key=_newest_first):
        host = path.parent.parent.name
        found = damaged_files.read(_PlacedOfHost, HostFolder(path.parent).placed)
        if found is None or host in hosts:
            continue
        hosts[host] = PlacedHost(
            nonce=found.nonce, revivals=found.revivals, revived=found.revived, gpus=found.gpus
        )
        if found.handle is not None:
            handle = {"job": folder.root.name, "hosts": {host: found.handle}}
            started.append(Started(hosts=(host,), handle=handle))
    return Placed(hosts=hosts, started=tuple(started)) if hosts else None


def _newest_first(path: Path) -> tuple[str, int]:
    attempt = path.parent.name
    return path.parent.parent.name, -int(attempt) if attempt.isdigit() else 0
