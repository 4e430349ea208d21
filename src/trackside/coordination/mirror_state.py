"""What a host knows of the others and of the store, what happens to it, and what it then does.

Plain records for `mirror_steps`, which decides. Nothing here does I/O or reads a clock.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from trackside.coordination.documents import (
    Document,
    JournalCopy,
    StoredRequest,
    host_name,
    lead_name,
)
from trackside.quick_dataclass import dataclass

POLL_SECONDS = 1.0
"""How often the others' documents are looked at."""
PUT_SECONDS = 0.5
"""The shortest time between two documents of a host."""
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 15.0
"""Between two tries of a store that is away."""
STEP_SECONDS = 10.0
SILENT_BEATS = 3.0
"""After so many beats without a sign, a host is lost if its placement says so."""
STARTING_LEASES = 3.0
"""How many leases a host has to give its first sign: machines and images take their time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What stays the same while a host's mirror runs."""

    hosts: tuple[str, ...]
    host: str
    epoch: int
    instance: str
    nonce: str = ""
    lease_seconds: float = 600.0
    heartbeat_seconds: float = 5.0
    patience_seconds: float = 900.0
    """How long a host that has ended waits for a store that is away."""

    @property
    def lead(self) -> str:
        return self.hosts[0]

    @property
    def is_lead(self) -> bool:
        return self.host == self.lead

    @property
    def peers(self) -> tuple[str, ...]:
        """Whom this host listens to."""
        return self.hosts[1:] if self.is_lead else (self.lead,)

    @property
    def own_name(self) -> str:
        return lead_name(self.epoch) if self.is_lead else host_name(self.epoch, self.host)

    @property
    def beat_seconds(self) -> float:
        """Several within a lease, however short that is."""
        return min(self.heartbeat_seconds, self.lease_seconds / 6)

    @property
    def step_seconds(self) -> float:
        """The longest time between two looks that counts as silence: a host that stands still, or
        cannot reach the store, is not looking."""
        return max(POLL_SECONDS, min(STEP_SECONDS, self.lease_seconds / 4))

    @property
    def longest_pause_seconds(self) -> float:
        return min(LONGEST_PAUSE_SECONDS, self.lease_seconds / 6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What this host has to tell the others."""

    attempt: int = 0
    record: dict[str, Any] | None = None
    has_ended: bool = False
    """Whether nothing is left to do for this host but to learn how the job ends."""
    order: dict[str, Any] | None = None
    meeting: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """What is known of a host that this one listens to."""

    heard: Document | None = None
    heard_at: float | None = None
    etag: str | None = None
    silent_seconds: float = 0.0
    """Without a new beat, while the store could be read."""
    reported_lost: str = ""
    """Why its placement says that it is gone; '' again with the next beat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    generation: int = 0
    """Of the supervisor before this one, until it has joined."""
    is_joined: bool = False
    """Whether the store was read once, so that nothing newer there is overwritten."""
    over: str = ""
    is_closing: bool = False
    is_swept: bool = False
    """Whether this host has removed what is not needed in storage any more."""

    said: Said = field(default_factory=Said)
    journal: JournalCopy = field(default_factory=JournalCopy)
    beat: int = 0
    is_dirty: bool = True
    """Whether the others do not know yet what was said."""
    is_record_dirty: bool = True
    """The same of the lead's record, which has a document of its own for readers."""
    put_at: float | None = None
    own_etag: str | None = None
    """Of this host's document, '' without one; None while that is unknown."""

    poll_at: float = 0.0
    retry_at: float = 0.0
    num_failures: int = 0
    read_at: float | None = None
    """When the others were last looked at; None since the store was away."""
    is_looking: bool = False
    """Whether the answer to a look is due: the same answer again says nothing about now."""
    away_at: float | None = None
    away_seconds: float = 0.0
    """How long the store has been away, as far as it was tried."""

    peers: Mapping[str, Peer] = field(default_factory=dict)
    looked_at: float | None = None
    """When a host other than the lead last looked for another epoch and for the job's end."""
    epoch_etag: str | None = None
    stored_version: int = -1
    """Of the journal at its usual key; -1 while unknown."""
    stored_etag: str | None = None
    """Of the same; None without one."""
    is_journal_read: bool = False

    handled: tuple[str, ...] = ()
    """Requests that were carried out, or delivered to this host."""
    stops: Mapping[str, int] = field(default_factory=dict)
    """Requests to stop the job, with the journal's version before each. They are removed when a
    later version is stored: until then another group would not know of them."""
    forwarded: Mapping[str, StoredRequest] = field(default_factory=dict)
    """Requests for other hosts that have not got them yet."""

    def peer(self, host: str) -> Peer:
        return self.peers.get(host) or Peer()


def is_lost(plan: Plan, peer: Peer) -> bool:
    """Whether a host is gone for good: it says so, its placement does, or it is silent."""
    if peer.heard and peer.heard.over:
        return True
    if peer.reported_lost and peer.silent_seconds >= SILENT_BEATS * plan.beat_seconds:
        return True
    leases = 1.0 if peer.heard else STARTING_LEASES
    return peer.silent_seconds >= leases * plan.lease_seconds


def is_flushed(state: State) -> bool:
    """Whether the others can read all that this host has said."""
    return state.is_joined and not state.is_dirty and not state.is_record_dirty


# Events: what happens to a host.


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Told:
    """This host's own processes have something to tell."""

    said: Said


@dataclass(frozen=True, slots=True)
class JournalRead:
    """The lead's journal as it is on its disk."""

    journal: JournalCopy


@dataclass(frozen=True, slots=True)
class Asked:
    """Requests of this host's processes to other hosts that are not known to have arrived."""

    requests: tuple[StoredRequest, ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """All names below `coordination/`, with their etags."""

    names: Mapping[str, str | None]


Content = Document | JournalCopy | StoredRequest | int | None


@dataclass(frozen=True, slots=True)
class Got:
    """An object's content; None if there is no such object."""

    name: str
    etag: str | None
    content: Content


@dataclass(frozen=True, slots=True)
class Unchanged:
    """An object is what it was, or cannot be understood."""

    name: str


@dataclass(frozen=True, slots=True)
class Stored:
    """An object of ours is in the store."""

    name: str
    etag: str | None
    number: int
    """Its beat, or the journal's version; 0 of a request."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Another writer has changed the object that was to be replaced."""

    name: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """These objects are not in the store any more."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The store did not respond, or refused."""


@dataclass(frozen=True, slots=True)
class Close:
    """This host leaves: for another attempt, or because it is done."""


Event = (
    Tick
    | Told
    | Asked
    | JournalRead
    | Listed
    | Got
    | Unchanged
    | Stored
    | Conflict
    | Deleted
    | Failed
    | Close
)

# Commands: what a host does. Those to the store end in one of the events above.


@dataclass(frozen=True, slots=True)
class List:
    """Everything below `coordination/`."""


@dataclass(frozen=True, slots=True)
class Get:
    name: str
    unless: str | None = None
    """The etag that is known already."""


@dataclass(frozen=True, slots=True)
class Put:
    name: str
    content: Document | JournalCopy | StoredRequest
    replaces: str | None = None
    """The etag of what this host last knew there, '' for nothing; None if it does not matter."""


@dataclass(frozen=True, slots=True)
class Delete:
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriteJournal:
    journal: JournalCopy


@dataclass(frozen=True, slots=True)
class WriteRecord:
    host: str
    attempt: int
    record: dict[str, Any]


@dataclass(frozen=True, slots=True)
class WriteOrder:
    attempt: int
    order: dict[str, Any]


@dataclass(frozen=True, slots=True)
class WriteMeeting:
    attempt: int
    meeting: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Deliver:
    """To the processes of this host; repeated, it does nothing."""

    request: StoredRequest


@dataclass(frozen=True, slots=True)
class Forget:
    """Remove the file of a request to another host: it has arrived."""

    identifier: str


@dataclass(frozen=True, slots=True)
class StopJob:
    """By the lead, in its journal; repeated, it does nothing."""

    request: StoredRequest


@dataclass(frozen=True, slots=True)
class KeepGeneration:
    """For the next supervisor of this host."""

    generation: int


Remote = List | Get | Put | Delete
Local = (
    WriteJournal
    | WriteRecord
    | WriteOrder
    | WriteMeeting
    | Deliver
    | Forget
    | StopJob
    | KeepGeneration
)
Command = Remote | Local
