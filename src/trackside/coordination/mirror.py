"""Runs the decisions of `mirror_steps` on one host: a thread between its folder and storage."""

import json
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from random import SystemRandom

from trackside.coordination import mirror_steps
from trackside.coordination.documents import (
    EPOCH,
    JOURNAL,
    Document,
    JournalCopy,
    StoredRequest,
    document,
    epoch_of,
    request_id,
    stored_request,
)
from trackside.coordination.mirror_files import MirrorFiles, journal_copy
from trackside.coordination.mirror_state import (
    Asked,
    Close,
    Conflict,
    Content,
    Delete,
    Deleted,
    Event,
    Failed,
    Get,
    Got,
    JournalRead,
    List,
    Listed,
    Plan,
    Put,
    Remote,
    State,
    Stored,
    Tick,
    Told,
    Unchanged,
    is_flushed,
)
from trackside.errors import ObjectChanged, ObjectNotFound, StorageError, StoreUnreachable
from trackside.storage.locate import Location, entries_below
from trackside.system.worker import Pause, Worker

logger = logging.getLogger(__name__)

LOCAL_SECONDS = 0.25
"""How often this host's own files are looked at."""
_GETS_AT_ONCE = 8
_CLOSE_SECONDS = 30.0
"""How long a host that leaves tries to say so."""
_MOST_ROUNDS = 5


def new_instance() -> str:
    return f"{SystemRandom().getrandbits(64):016x}"


class Mirror:
    """`state` may be read by any thread; all else is the worker's, once it is started."""

    def __init__(
        self, plan: Plan, files: MirrorFiles, place: Location, journal: Location,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """`place` is the job's `coordination/` in storage, `journal` the journal's object."""
        self._plan = plan
        self._files = files
        self._place = place
        self._journal = journal
        self._clock = clock
        self._pool: ThreadPoolExecutor | None = None
        self._is_failing = False
        self.num_requests = 0
        """Sent to the store, for measurements."""
        memory = files.memory
        self.is_new = memory.epoch == 0
        """Whether this folder has taken no part in this epoch yet."""
        self.state = State(
            generation=memory.generation,
            journal=files.journal() or JournalCopy(),
            handled=files.handled(),
        )
        self._worker = Worker(
            "trackside-mirror", self._tick, interval=LOCAL_SECONDS, at_end=self._leave,
            problem="The other hosts are not told, and retried",
        )  # fmt: skip

    def start(self, join_seconds: float) -> None:
        """A lead whose folder is new first learns how far an earlier one came: it waits for the
        store so long, and then raises `StoreUnreachable`."""
        deadline = self._clock() + join_seconds
        while self._plan.is_lead and self.is_new and not self._has_joined():
            self._tick()
            if self._clock() > deadline:
                raise StoreUnreachable(
                    f"{self._place.uri!r} does not respond, and only there can this host learn "
                    "how far its job is. Check the network and the credentials."
                )
            if not self._has_joined():
                time.sleep(LOCAL_SECONDS)
        self._worker.start()

    def wake(self) -> None:
        self._worker.wake()

    def close(self) -> None:
        try:
            self._worker.close(retry_for=_CLOSE_SECONDS)
        except StorageError as error:
            logger.warning("left without telling the other hosts: %s", error)
        if self._pool is not None:
            self._pool.shutdown(wait=False)

    def _has_joined(self) -> bool:
        return self.state.is_joined or bool(self.state.over)

    def _tick(self) -> Pause:
        self._read_files()
        self._run(self._feed(Tick()))
        due = mirror_steps.next_at(self._plan, self.state)
        left = LOCAL_SECONDS if due is None else due - self._clock()
        return Pause(min(LOCAL_SECONDS, max(0.02, left)), 0.02)

    def _read_files(self) -> None:
        self._feed(Told(self._files.said()))
        if self._plan.is_lead and (journal := self._files.journal()) is not None:
            self._feed(JournalRead(journal))
        if asked := self._files.asked():
            self._run(self._feed(Asked(asked)))

    def _leave(self) -> None:
        """Say the last, and remove what nobody needs any more. Raises while the store is away."""
        for _ in range(_MOST_ROUNDS):
            self._read_files()
            self._is_failing = False
            self._run(self._feed(Close()))
            if self._is_failing:
                raise StoreUnreachable(f"{self._place.uri!r} does not respond.")
            if self.state.is_swept or not self._is_done():
                return

    def _is_done(self) -> bool:
        return bool(self.state.over) or self.state.journal.is_final or not is_flushed(self.state)

    def _feed(self, event: Event) -> list[Remote]:
        """The new state counts once the files say the same."""
        state, commands = mirror_steps.step(self._plan, self.state, event, self._clock())
        remote: list[Remote] = []
        for command in commands:
            if isinstance(command, List | Get | Put | Delete):
                remote.append(command)
            else:
                self._files.write(command)
        if state.over and not self.state.over:
            logger.warning("%s stops: %s", self._plan.host, state.over)
        self.state = state
        return remote

    def _run(self, commands: Sequence[Remote]) -> None:
        """One after the other, but what is only read at the same time. Ends with the first failure:
        the store is asked again later."""
        waiting = list(commands)
        while waiting:
            batch = _first_gets(waiting) or waiting[:1]
            waiting = waiting[len(batch) :]
            try:
                events = self._requested(batch)
            except (ObjectNotFound, StorageError) as error:
                self._failed(error)
                return
            for event in events:
                waiting += self._feed(event)
            self._is_failing = False

    def _requested(self, batch: Sequence[Remote]) -> list[Event]:
        self.num_requests += len(batch)
        if len(batch) == 1:
            return [self._request(batch[0])]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_GETS_AT_ONCE, "trackside-mirror-get")
        return [*self._pool.map(self._request, batch)]

    def _failed(self, error: Exception) -> None:
        if self.state.num_failures == 0:
            logger.warning("the other hosts cannot be reached through the store: %s", error)
        self._is_failing = True
        self._feed(Failed())

    # The store

    def _request(self, command: Remote) -> Event:
        match command:
            case List():
                return Listed({name: entry.etag for name, entry in entries_below(self._place)})
            case Get():
                return self._get(command)
            case Put():
                return self._put(command)
            case Delete():
                keys = [self._at(name).key for name in command.names]
                self._place.store.delete(keys)
                return Deleted(command.names)

    def _at(self, name: str) -> Location:
        return self._journal if name == JOURNAL else self._place.child(name)

    def _get(self, command: Get) -> Event:
        place = self._at(command.name)
        try:
            found = place.store.get_newer(place.key, command.unless)
        except ObjectNotFound:
            return Got(command.name, None, None)
        if found is None:
            return Unchanged(command.name)
        return Got(command.name, found[1], _content(command.name, found[0]))

    def _put(self, command: Put) -> Event:
        place, content = self._at(command.name), command.content
        replaces = command.replaces
        if place.store.most_conditional_bytes == 0:
            replaces = None
        try:
            entry = place.store.put(place.key, _bytes(content), replaces=replaces)
        except ObjectChanged:
            return Conflict(command.name)
        return Stored(command.name, entry.etag, _number(content))


def _first_gets(commands: Sequence[Remote]) -> list[Remote]:
    gets: list[Remote] = []
    for command in commands:
        if not isinstance(command, Get):
            break
        gets.append(command)
    return gets


def _content(name: str, data: bytes) -> Content:
    if name == EPOCH:
        return epoch_of(data)
    if name == JOURNAL:
        return journal_copy(data)
    if identifier := request_id(name):
        return stored_request(data) or StoredRequest(identifier, "damaged")
    return document(data)


def _bytes(content: Document | JournalCopy | StoredRequest) -> bytes:
    match content:
        case Document():
            return content.bytes
        case JournalCopy():
            return content.text.encode()
        case StoredRequest():
            return json.dumps(asdict(content)).encode()


def _number(content: Document | JournalCopy | StoredRequest) -> int:
    match content:
        case Document():
            return content.beat
        case JournalCopy():
            return content.version
        case StoredRequest():
            return 0
