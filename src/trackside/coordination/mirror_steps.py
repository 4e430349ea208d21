"""Decides what a host that shares no disk with the others sends to the store, and what it makes of
what it reads there: (plan, state, event, now) -> (state, commands). Pure: no I/O, no clock.

Any event may come late, twice or never. What the lead says is the truth; other hosts propose.
"""

import zlib
from collections.abc import Collection, Mapping
from dataclasses import replace

from trackside.coordination.documents import (
    EPOCH,
    JOURNAL,
    LOST,
    STOP,
    Document,
    JournalCopy,
    StoredRequest,
    host_name,
    host_of,
    lead_name,
    request_id,
    request_name,
)
from trackside.coordination.mirror_state import (
    FIRST_PAUSE_SECONDS,
    POLL_SECONDS,
    PUT_SECONDS,
    SILENT_BEATS,
    Asked,
    Close,
    Command,
    Conflict,
    Delete,
    Deleted,
    Deliver,
    Event,
    Failed,
    Forget,
    Get,
    Got,
    JournalRead,
    KeepGeneration,
    List,
    Listed,
    Peer,
    Plan,
    Put,
    State,
    StopJob,
    Stored,
    Tick,
    Told,
    Unchanged,
    WriteJournal,
    WriteMeeting,
    WriteOrder,
    WriteRecord,
    is_lost,
)

_MOST_REQUESTS = 20
"""Requests that are read in one look; the others wait for the next."""
_MOST_HANDLED = 1000
_MOST_AWAY_SECONDS = 60.0
"""The longest time between two tries of the store that counts as trying."""

Result = tuple[State, list[Command]]


def step(plan: Plan, state: State, event: Event, now: float) -> Result:
    match event:
        case Tick():
            return _tick(plan, state, now)
        case Told() | JournalRead():
            return _own_change(plan, state, event), []
        case Asked():
            return _asked(plan, state, event)
        case Listed():
            return _listed(plan, state, event, now)
        case Got() | Unchanged():
            return _got(plan, state, event, now)
        case Stored() | Deleted() | Conflict():
            return _written(plan, state, event)
        case Failed():
            return _failed(plan, state, now), []
        case Close():
            return _close(plan, state)


def next_at(plan: Plan, state: State) -> float | None:
    """When the next `Tick` is due; None when there is nothing to wait for."""
    if state.is_swept or (state.over and not state.is_dirty):
        return None
    moments = [] if state.over else [state.poll_at]
    if state.is_joined and state.put_at is not None:
        pause = PUT_SECONDS if _is_unsaid(state) else plan.beat_seconds
        moments.append(state.put_at + pause)
    return max(min(moments, default=0.0), state.retry_at)


# Time


def _tick(plan: Plan, state: State, now: float) -> Result:
    if now < state.retry_at or state.is_swept:
        return state, []
    if not state.is_joined:
        return _join_soon(plan, state, now)
    state, commands = _put_if_due(plan, state, now)
    if state.over or now < state.poll_at:
        return state, commands
    state = replace(state, poll_at=now + POLL_SECONDS, is_looking=True)
    if plan.is_lead:
        return state, [*commands, List()]
    peer = state.peer(plan.lead)
    commands.append(Get(lead_name(plan.epoch), peer.etag))
    if peer.heard is None or peer.silent_seconds >= SILENT_BEATS * plan.beat_seconds:
        state, looks = _look_elsewhere(plan, state, now)
        commands += looks
    return state, commands


def _join_soon(plan: Plan, state: State, now: float) -> Result:
    """Read what earlier supervisors of this host have said, before it is overwritten."""
    if state.over or now < state.poll_at:
        return state, []
    journal: list[Command] = [Get(JOURNAL)] if plan.is_lead else []
    return replace(state, poll_at=now + POLL_SECONDS), [Get(EPOCH), *journal, Get(plan.own_name)]


def _put_if_due(plan: Plan, state: State, now: float) -> Result:
    is_unsaid = _is_unsaid(state)
    if state.over and not state.is_dirty:
        return state, []
    pause = PUT_SECONDS if is_unsaid else plan.beat_seconds
    if state.put_at is not None and now - state.put_at < pause:
        return state, []
    return _put(plan, state, now)


def _is_unsaid(state: State) -> bool:
    return state.is_dirty or state.is_record_dirty


def _put(plan: Plan, state: State, now: float | None) -> Result:
    state = replace(state, beat=state.beat + 1)
    ours = _document(plan, state)
    commands: list[Command] = []
    if plan.is_lead:
        if state.is_record_dirty and not state.over:
            commands.append(Put(host_name(plan.epoch, plan.host), ours))
        ours = _lead_document(state, ours)
    put_at = state.put_at if now is None else now
    state = replace(state, is_dirty=False, is_record_dirty=False, put_at=put_at)
    return state, [Put(plan.own_name, ours, state.own_etag), *commands]


def _document(plan: Plan, state: State) -> Document:
    lead = state.peer(plan.lead).heard
    waiting = lead.requests if lead else ()
    return Document(
        host=plan.host,
        epoch=plan.epoch,
        generation=state.generation,
        instance=plan.instance,
        beat=state.beat,
        nonce=plan.nonce,
        attempt=state.said.attempt,
        record=state.said.record,
        order=state.said.order,
        over=state.over,
        took=tuple(each.id for each in waiting if each.id in state.handled),
    )


def _lead_document(state: State, ours: Document) -> Document:
    heard = {host: peer.heard for host, peer in state.peers.items()}
    return replace(
        ours,
        journal=state.journal,
        meeting=state.said.meeting,
        requests=tuple(state.forwarded.values()),
        listens_to={h: (each.generation, each.instance) for h, each in heard.items() if each},
        took=tuple(each for each in state.handled if _is_in(state, each, state.journal.version)),
    )


def _is_in(state: State, identifier: str, version: int) -> bool:
    """Whether the journal of this version has the effect of a request that was handled."""
    return version > state.stops.get(identifier, -1)


def _look_elsewhere(plan: Plan, state: State, now: float) -> Result:
    """The lead is not heard: is there another group, or has the job ended?"""
    if state.looked_at is not None and now - state.looked_at < plan.beat_seconds:
        return state, []
    looks: list[Command] = [Get(EPOCH, state.epoch_etag), Get(JOURNAL, state.stored_etag)]
    return replace(state, looked_at=now), looks


# This host


def _own_change(plan: Plan, state: State, event: Told | JournalRead) -> State:
    if isinstance(event, JournalRead):
        if not plan.is_lead or event.journal.version <= state.journal.version:
            return state
        return replace(state, journal=event.journal, is_dirty=True)
    if event.said == state.said:
        return state
    is_new = event.said.record != state.said.record or event.said.attempt != state.said.attempt
    return replace(
        state,
        said=event.said,
        is_dirty=True,
        is_record_dirty=state.is_record_dirty or (plan.is_lead and is_new),
    )


def _asked(plan: Plan, state: State, event: Asked) -> Result:
    """The lead tells other hosts itself; the others ask through the store. The file of a request is
    kept until it has arrived."""
    commands: list[Command] = []
    for request in event.requests:
        if request.id in state.handled:
            commands.append(Forget(request.id))
        elif not plan.is_lead and state.is_joined and not state.num_failures:
            commands.append(Put(request_name(request.id), request))
        elif plan.is_lead and request.id not in state.forwarded:
            forwarded = {**state.forwarded, request.id: request}
            state = replace(state, forwarded=forwarded, is_dirty=True)
    return state, commands


def _close(plan: Plan, state: State) -> Result:
    state = replace(state, is_closing=True)
    if not state.is_joined or state.is_swept:
        return state, []
    is_done = bool(state.over) or state.journal.is_final
    if not is_done:
        state, commands = _put(plan, state, None) if _is_unsaid(state) else (state, [])
        # A lead that gives its machines back: who places the next group reads why in the journal.
        is_behind = plan.is_lead and state.journal.version > state.stored_version
        return state, [*commands, List()] if is_behind else commands
    if state.over:  # the others find out why
        return _put(plan, replace(state, is_swept=True), None)
    return state, [List() if plan.is_lead else Delete((plan.own_name,))]  # then `_sweep`


# The store


def _failed(plan: Plan, state: State, now: float) -> State:
    tried = 0.0 if state.away_at is None else min(now - state.away_at, _MOST_AWAY_SECONDS)
    away_seconds = state.away_seconds + max(0.0, tried)
    num_failures = state.num_failures + 1
    pause = FIRST_PAUSE_SECONDS * 2.0 ** min(num_failures - 1, 10)
    pause = min(pause, plan.longest_pause_seconds) * _jitter(plan, num_failures)
    over = state.over
    if state.said.has_ended and away_seconds >= plan.patience_seconds:
        over = over or f"the object store has not responded for {away_seconds:.0f} seconds"
    return replace(
        state,
        num_failures=num_failures,
        away_at=now,
        away_seconds=away_seconds,
        read_at=None,
        is_looking=False,
        own_etag=None,
        retry_at=now + pause,
        poll_at=now + pause,
        is_dirty=True,
        is_record_dirty=plan.is_lead,
        over=over,
    )


def _jitter(plan: Plan, number: int) -> float:
    """From 0.5 to 1, different for each host and try."""
    return 0.5 + zlib.crc32(f"{plan.instance}/{number}".encode()) / 2**33


def _written(plan: Plan, state: State, event: Stored | Deleted | Conflict) -> Result:
    if isinstance(event, Conflict) and event.name == JOURNAL:
        return state, [Get(EPOCH, state.epoch_etag), Get(JOURNAL)]
    if isinstance(event, Conflict):
        return replace(state, is_dirty=True, own_etag=None), [Get(plan.own_name)]
    if isinstance(event, Deleted):
        is_swept = state.is_closing and plan.own_name in event.names
        return replace(state, is_swept=state.is_swept or is_swept), []
    if event.name == JOURNAL:
        return replace(state, stored_version=event.number, stored_etag=event.etag), []
    if event.name == plan.own_name and event.number == state.beat:
        return replace(state, own_etag=event.etag), []
    if identifier := request_id(event.name):
        return _handled(state, identifier), [Forget(identifier)]
    return state, []


def _looked(plan: Plan, state: State, now: float, seen: Collection[str] = ()) -> State:
    """The store was read: the time since the last look counts as silence of the hosts that were not
    `seen` to have written anything."""
    if not state.is_looking:
        return state
    peers = {host: state.peer(host) for host in plan.peers}
    for host, peer in peers.items():
        if host not in seen and state.read_at is not None:
            since = max(state.read_at, peer.heard_at or state.read_at)
            silent = min(max(0.0, now - since), plan.step_seconds)
            peers[host] = replace(peer, silent_seconds=peer.silent_seconds + silent)
    return replace(_responded(state), peers=peers, read_at=now, is_looking=False)


def _responded(state: State) -> State:
    return replace(state, num_failures=0, retry_at=0.0, away_at=None, away_seconds=0.0)


# The lead reads


def _listed(plan: Plan, state: State, event: Listed, now: float) -> Result:
    if not plan.is_lead or not state.is_joined or state.over or state.is_swept:
        return state, []
    names = event.names
    changed = {
        host: name
        for host in plan.peers
        if (name := host_name(plan.epoch, host)) in names and names[name] != state.peer(host).etag
    }
    is_same_epoch = names.get(EPOCH) == state.epoch_etag
    # Hosts of an epoch that is over have reason to be silent: this one learns of it next.
    state = _looked(plan, state, now, changed if is_same_epoch else plan.peers)
    commands: list[Command] = []
    if not is_same_epoch:
        commands.append(Get(EPOCH))
    if names.get(plan.own_name) != state.own_etag:
        commands.append(Get(plan.own_name))
    commands += map(Get, changed.values())
    commands += _listed_requests(state, names)
    if not is_same_epoch:
        return state, commands
    if state.journal.version > state.stored_version:
        commands.append(Put(JOURNAL, state.journal, state.stored_etag or ""))
    elif state.is_closing and state.journal.is_final:
        return state, [_sweep(plan, names)]
    return state, commands


def _listed_requests(state: State, names: Mapping[str, str | None]) -> list[Command]:
    waiting = [name for name in names if request_id(name)]
    done = tuple(name for name in waiting if _is_done(state, request_id(name)))
    known = {*state.handled, *state.forwarded}
    new = [name for name in waiting if request_id(name) not in known][:_MOST_REQUESTS]
    removed: list[Command] = [Delete(done)] if done else []
    return [*removed, *(Get(name) for name in new)]


def _is_done(state: State, identifier: str) -> bool:
    return identifier in state.handled and _is_in(state, identifier, state.stored_version)


def _sweep(plan: Plan, names: Mapping[str, str | None]) -> Delete:
    """The job has ended, and its journal is stored: the rest is of no use to anybody."""
    ours = (plan.own_name, host_name(plan.epoch, plan.host))
    return Delete(tuple(sorted({*names, *ours} - {EPOCH})))


# What was read


def _got(plan: Plan, state: State, event: Got | Unchanged, now: float) -> Result:
    name = event.name
    if state.over:
        return state, []
    if not plan.is_lead and name == lead_name(plan.epoch):
        return _looked_at_lead(plan, state, event, now)
    if isinstance(event, Unchanged):
        return state, []
    if name == EPOCH:
        return _got_epoch(plan, state, event), []
    if name == JOURNAL:
        return _got_journal(plan, state, event)
    if name == plan.own_name:
        return _got_own(plan, _responded(state), event)
    if not plan.is_lead:
        return state, []
    if host_of(name, plan.epoch):
        return _got_host(plan, state, event, now)
    return _got_request(plan, state, event)


def _got_epoch(plan: Plan, state: State, event: Got) -> State:
    if isinstance(event.content, int) and event.content > plan.epoch:
        return _ended(
            state,
            f"another group of hosts runs this job now (epoch {event.content}, this host is of "
            f"epoch {plan.epoch})",
        )
    return replace(state, epoch_etag=event.etag)


def _ended(state: State, why: str) -> State:
    return replace(state, over=state.over or why, is_dirty=True)


def _got_journal(plan: Plan, state: State, event: Got) -> Result:
    found = event.content if isinstance(event.content, JournalCopy) else JournalCopy(-1)
    if not plan.is_lead:
        state = replace(state, stored_etag=event.etag)
        return _take_journal(state, found) if found.is_final else (state, [])
    state = replace(
        state, stored_version=found.version, stored_etag=event.etag, is_journal_read=True
    )
    return (state, []) if state.is_joined else _take_journal(state, found)


def _take_journal(state: State, found: JournalCopy | None) -> Result:
    """Never an older one than this host has."""
    if found is None or found.version <= state.journal.version:
        return state, []
    return replace(state, journal=found), [WriteJournal(found)]


def _got_own(plan: Plan, state: State, event: Got) -> Result:
    found = event.content if isinstance(event.content, Document) else None
    etag = event.etag or ""
    if not state.is_joined:
        return _join(plan, replace(state, own_etag=etag), found)
    ours = (state.generation, plan.instance)
    if found is not None and (found.generation, found.instance) > ours:
        return _ended(state, f"another supervisor of {plan.host} has taken over"), []
    is_latest = found is not None and found.order_key == (*ours, state.beat)
    return replace(state, own_etag=etag, is_dirty=state.is_dirty or not is_latest), []


def _join(plan: Plan, state: State, found: Document | None) -> Result:
    if plan.is_lead and not state.is_journal_read:
        return state, []
    commands: list[Command] = []
    generation = state.generation
    if found is not None:
        generation = max(generation, found.generation)
        state, commands = _recover(plan, state, found)
    state = replace(state, is_joined=True, generation=generation + 1, is_dirty=True, put_at=None)
    return state, [*commands, KeepGeneration(state.generation)]


def _recover(plan: Plan, state: State, found: Document) -> Result:
    """What an earlier supervisor of this host has said, if the folder does not have it."""
    handled = tuple(dict.fromkeys((*found.took, *state.handled)))[-_MOST_HANDLED:]
    state = replace(state, handled=handled)
    if not plan.is_lead:
        return state, []
    state, commands = _take_journal(state, found.journal)
    said = state.said
    if found.attempt != said.attempt:
        return state, commands
    if said.order is None and found.order is not None:
        commands.append(WriteOrder(found.attempt, found.order))
    if said.meeting is None and found.meeting is not None:
        commands.append(WriteMeeting(found.attempt, found.meeting))
    said = replace(said, order=said.order or found.order, meeting=said.meeting or found.meeting)
    return replace(state, said=said), commands


# The other hosts read what the lead says


def _looked_at_lead(plan: Plan, state: State, event: Got | Unchanged, now: float) -> Result:
    if not state.is_joined:
        return state, []
    is_due = state.is_looking
    commands: list[Command] = []
    state = _looked(plan, state, now)
    if isinstance(event, Got):
        state, commands = _got_lead(plan, state, event, now)
    if is_due and not commands:  # else the answer to a look elsewhere comes first
        state = _over_if_lead_is_lost(plan, state)
    return state, commands


def _got_lead(plan: Plan, state: State, event: Got, now: float) -> Result:
    found, peer = event.content, state.peer(plan.lead)
    if not isinstance(found, Document):
        if peer.etag is not None:  # it was there until now: perhaps the job has ended
            state = replace(state, looked_at=None)
        state = _with_peer(state, plan.lead, replace(peer, etag=event.etag))
        return _look_elsewhere(plan, state, now)
    if peer.heard is not None and found.order_key <= peer.heard.order_key:
        return _with_peer(state, plan.lead, replace(peer, etag=event.etag)), []
    peer = Peer(heard=found, heard_at=now, etag=event.etag)
    state = _with_peer(state, plan.lead, peer)
    if found.over:
        return _ended(state, f"the lead {plan.lead} has given up: {found.over}"), []
    if found.listens_to.get(plan.host, (0, "")) > (state.generation, plan.instance):
        return _ended(state, f"another supervisor of {plan.host} has taken over"), []
    return _follow(plan, state, found)


def _follow(plan: Plan, state: State, found: Document) -> Result:
    """Orders and meetings are written though the folder has them: it may have another one."""
    state, commands = _take_journal(state, found.journal)
    if found.order is not None:
        commands.append(WriteOrder(found.attempt, found.order))
    if found.meeting is not None:
        commands.append(WriteMeeting(found.attempt, found.meeting))
    if found.attempt == state.said.attempt:
        said = state.said
        said = replace(said, order=found.order or said.order)
        said = replace(said, meeting=found.meeting or said.meeting)
        state = replace(state, said=said)
    ours = [each for each in found.requests if each.host == plan.host]
    for request in ours:
        if request.id not in state.handled:
            commands.append(Deliver(request))
            state = _handled(state, request.id)
    return replace(state, is_dirty=state.is_dirty or bool(ours)), commands


def _over_if_lead_is_lost(plan: Plan, state: State) -> State:
    peer = state.peer(plan.lead)
    if state.journal.is_final or not is_lost(plan, peer):
        return state
    return _ended(
        state, f"the lead {plan.lead} has not been heard for {peer.silent_seconds:.0f} seconds"
    )


# The lead reads what the other hosts say


def _got_host(plan: Plan, state: State, event: Got, now: float) -> Result:
    found, host = event.content, host_of(event.name, plan.epoch)
    if host not in plan.peers:
        return state, []
    peer = state.peer(host)
    before = peer.heard
    if not isinstance(found, Document) or (before and found.order_key <= before.order_key):
        return _with_peer(state, host, replace(peer, etag=event.etag)), []
    state = _with_peer(state, host, Peer(heard=found, heard_at=now, etag=event.etag))
    commands: list[Command] = []
    if found.record is not None and (before is None or _shown(before) != _shown(found)):
        commands.append(WriteRecord(host, found.attempt, found.record))
    if before is None or before.instance != found.instance:
        state = replace(state, is_dirty=True)
    state, orders = _proposed(state, found)
    state, removals = _taken(state, found)
    return state, [*commands, *orders, *removals]


def _shown(found: Document) -> tuple[int, object]:
    return found.attempt, found.record


def _proposed(state: State, found: Document) -> Result:
    """A host may order the end of the attempt; the first order counts."""
    said = state.said
    if found.order is None or found.attempt != said.attempt or said.order is not None:
        return state, []
    state = replace(state, said=replace(said, order=found.order), is_dirty=True)
    return state, [WriteOrder(found.attempt, found.order)]


def _taken(state: State, found: Document) -> Result:
    """Requests that have reached their host are removed."""
    done = [
        each
        for each in found.took
        if each in state.forwarded and state.forwarded[each].host == found.host
    ]
    if not done:
        return state, []
    for each in done:
        state = _handled(state, each)
    left = {key: each for key, each in state.forwarded.items() if key not in done}
    state = replace(state, forwarded=left, is_dirty=True)
    return state, [*map(Forget, done), Delete(tuple(map(request_name, done)))]


def _got_request(plan: Plan, state: State, event: Got) -> Result:
    identifier = request_id(event.name)
    request = event.content
    if not identifier or not isinstance(request, StoredRequest) or identifier in state.forwarded:
        return state, []
    removal: list[Command] = [Delete((event.name,))]
    if identifier in state.handled:
        return state, removal if _is_done(state, identifier) else []
    request = replace(request, id=identifier)
    if request.what == STOP:
        state = replace(state, stops={**state.stops, identifier: state.journal.version})
        return _handled(state, identifier), [StopJob(request)]
    if request.what == LOST:  # may come again: the next beat makes it void
        return _reported_lost(state, request), removal
    if request.host in plan.peers:
        forwarded = {**state.forwarded, identifier: request}
        return replace(state, forwarded=forwarded, is_dirty=True), []
    if request.host in ("", plan.host):
        return _handled(state, identifier), [Deliver(request), *removal]
    return _handled(state, identifier), removal


def _reported_lost(state: State, request: StoredRequest) -> State:
    if request.host not in state.peers:
        return state
    why = str(request.details.get("why") or "it is gone")
    peer = replace(state.peer(request.host), reported_lost=why)
    return _with_peer(state, request.host, peer)


def _handled(state: State, identifier: str) -> State:
    return replace(state, handled=(*state.handled, identifier)[-_MOST_HANDLED:])


def _with_peer(state: State, host: str, peer: Peer) -> State:
    return replace(state, peers={**state.peers, host: peer})
