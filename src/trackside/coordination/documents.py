"""What hosts that share no disk write to storage for each other: names below a job's
`coordination/`, and the JSON behind them. Unknown members of a newer version are ignored.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any, TypeVar

from trackside.files.json_record import DamagedRecord, parsed_object, record
from trackside.quick_dataclass import dataclass

T = TypeVar("T")

FORMAT = 1
EPOCH = "epoch.json"
"""How many groups were placed for this job: the fence. Written by who places one."""
JOURNAL = "journal.jsonl"
"""The copy of the journal at its usual key, which is not below `coordination/`."""
REQUESTS = "requests/"

STOP = "stop"
"""Requests that the lead carries out itself: end the job, and that a placement lost a host."""
LOST = "lost"

_MOST_BYTES = 64 << 20


def lead_name(epoch: int) -> str:
    return f"{epoch}/lead.json"


def host_name(epoch: int, host: str) -> str:
    return f"{epoch}/hosts/{host}.json"


def host_of(name: str, epoch: int) -> str:
    """Whose document of this epoch that is; '' for any other name."""
    start = f"{epoch}/hosts/"
    return name[len(start) : -len(".json")] if name.startswith(start) else ""


def request_name(identifier: str) -> str:
    return f"{REQUESTS}{identifier}.json"


def request_id(name: str) -> str:
    """'' for a name that is no request's."""
    is_request = name.startswith(REQUESTS) and name.endswith(".json")
    return name[len(REQUESTS) : -len(".json")] if is_request else ""


@dataclass(frozen=True, slots=True)
class JournalCopy:
    """A job's journal; of two, the one with the higher version counts."""

    version: int = 0
    is_final: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """Something that is asked of a host, or of the job when `host` is empty."""

    id: str
    what: str
    host: str = ""
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What one host says: `<epoch>/lead.json` of the lead, `<epoch>/hosts/<host>.json` of all."""

    host: str
    epoch: int
    generation: int
    """Counts the supervisors that this host has had in this epoch, as far as they knew."""
    instance: str
    """Random for each of them, so that two at the same time are told apart."""
    beat: int
    """The heartbeat: higher in each document of an instance."""
    format: int = FORMAT
    nonce: str = ""
    attempt: int = 0
    record: dict[str, Any] | None = None
    order: dict[str, Any] | None = None
    """The end order of this attempt. The lead's counts, other hosts propose theirs."""
    over: str = ""
    """Why this host has given up its part in this epoch."""
    took: tuple[str, ...] = ()
    """Requests that this host has got from the lead."""
    # Of the lead alone:
    journal: JournalCopy | None = None
    meeting: dict[str, Any] | None = None
    requests: tuple[StoredRequest, ...] = ()
    """For other hosts that have not got them yet."""
    listens_to: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Generation and instance of the supervisor of each host that counts."""

    @property
    def order_key(self) -> tuple[int, str, int]:
        """Of two documents of a host, the one with the greater key is the later one."""
        return self.generation, self.instance, self.beat

    @property
    def bytes(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()


def document(data: bytes) -> Document | None:
    """None when it is damaged: it is written again with the next heartbeat."""
    return _read(Document, data)


def stored_request(data: bytes) -> StoredRequest | None:
    return _read(StoredRequest, data)


def epoch_of(data: bytes) -> int:
    """0 when it is damaged."""
    found = _read(_Epoch, data)
    return found.epoch if found else 0


@dataclass(frozen=True, slots=True)
class _Epoch:
    epoch: int


def _read(kind: type[T], data: bytes) -> T | None:
    if len(data) > _MOST_BYTES:
        return None
    try:
        return record(kind, parsed_object(data))
    except DamagedRecord:
        return None
