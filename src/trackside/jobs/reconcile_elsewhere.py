"""Keeps the group of a job alive whose hosts share no files with this machine.

Its truth is the journal in storage, which the job's lead writes; the folder here has the journal
from before the start, and is brought up to date. `decide` is pure; `GroupReconciler` reads and
acts. A group whose lead is gone is placed anew as a whole, in the job's next attempt.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from trackside.coordination.documents import LOST, STOP, StoredRequest
from trackside.errors import ImageError, JobBusy, JobError, ObjectNotFound
from trackside.files import durable
from trackside.files.json_record import DamagedRecord
from trackside.jobs.elsewhere import is_further, put_request
from trackside.jobs.records import fetch, publish_journal, read_spec
from trackside.jobs.revivals import MAX_REVIVALS, recent_revivals
from trackside.jobs.start_supervisor import (
    Launcher,
    death_at_start,
    locked,
    new_group,
    waiting_message,
)
from trackside.jobs.submit import announced
from trackside.placement.choose import UnknownPlacement
from trackside.placement.placement import (
    EndCause,
    Ended,
    Exited,
    Lost,
    Pending,
    PlacementAway,
    Poll,
    Running,
)
from trackside.quick_dataclass import dataclass
from trackside.records.death import (
    MOST_OF_INFRASTRUCTURE,
    Death,
    Evidence,
    Gone,
    MemoryKiller,
    cause_of,
)
from trackside.records.journal import RETRY, History, Journal, fold_lines
from trackside.records.layout import Home, JobFolder, JobKeys
from trackside.records.placed import LOCAL, Placed, PlacedHost
from trackside.records.spec import JobSpec
from trackside.records.status import Secondary, State, Status
from trackside.system import boot_clock

logger = logging.getLogger(__name__)

STOP_SECONDS = 60.0
"""So long after a stop and its grace, a group that has not ended is killed."""
_LOCK_SECONDS = 10.0
_PAUSE_SECONDS = 0.1
_ANSWER_SECONDS = 5.0
"""How long a stop waits until the lead has seen it; it is not lost if that takes longer."""
SILENT_SECONDS = 30.0
"""How long a lead is silent, by this process's own clock, before a group is placed in its stead."""


@dataclass(frozen=True, slots=True)
class Beat:
    content: bytes
    seen_at: float
    """When it was first seen: monotonic."""


@dataclass(frozen=True, slots=True)
class Place:
    """Place a group: the first, or another."""


@dataclass(frozen=True, slots=True)
class End:
    """There will be no other group."""

    to: Secondary
    reason: str | None = None
    death: Death | None = None


Action = Place | End


def decide(
    state: State,
    placed: Placed | None,
    polls: Mapping[str, Poll],
    now: boot_clock.Moment,
    earlier: Sequence[Death] = (),
) -> Action | None:
    """Acts only on proof: a lead that may be alive is left alone. Other hosts are the lead's
    business. `earlier` attempts have ended by these."""
    if state.is_final or state.is_queued:
        return None
    if placed is not None and placed.started:
        lead = next(iter(placed.hosts))
        poll = polls.get(lead)
        if any(isinstance(each, Pending) for each in polls.values()):
            return End(Secondary.STOPPED) if placed.stop and _waits(polls) else None
        if isinstance(poll, Ended):
            return _ended(poll)
        if not isinstance(poll, Exited | Lost):
            return None
        if (count := _too_often(state, placed.hosts[lead], earlier, now)) is not None:
            return End(Secondary.FAILED, _given_up(lead, poll, count), _death(poll, lead))
    is_stopping = state.status is Status.STOPPING or (placed is not None and placed.stop)
    return End(Secondary.STOPPED) if is_stopping else Place()


def is_gone_for_sure(state: State, attempt: int, placed: Placed, lead: Poll | None) -> bool:
    """Whether the engine has ended it, or its own last word was that it is interrupted."""
    is_interrupted = state.secondary is Secondary.INTERRUPTED and attempt == placed.attempt
    return isinstance(lead, Ended) or is_interrupted


def _waits(polls: Mapping[str, Poll]) -> bool:
    """Whether no host has been started yet. A stop that was asked while the engine was away may
    find that only later."""
    return all(isinstance(each, Pending) for each in polls.values())


def _lead(placed: Placed, polls: Mapping[str, Poll]) -> Poll | None:
    return polls.get(next(iter(placed.hosts)))


def _too_often(
    state: State, lead: PlacedHost, earlier: Sequence[Death], now: boot_clock.Moment
) -> int | None:
    """How often the group was lost, if that is too often. One that gave its machines back in order
    was not lost in a row, however soon."""
    lost = sum(each.cause.is_of_infrastructure for each in earlier)
    if lost > MOST_OF_INFRASTRUCTURE:
        return lost
    revivals, _ = recent_revivals(lead, now)
    is_in_order = state.secondary is Secondary.INTERRUPTED
    return revivals + 1 if revivals >= MAX_REVIVALS and not is_in_order else None


def _death(poll: Exited | Lost, lead: str) -> Death:
    """The end of a lead whose job has not ended."""
    gone = poll.gone or Gone.RECORD
    memory = MemoryKiller.ENGINE if gone is Gone.MEMORY else ""
    return Death(cause=cause_of(Evidence(gone=gone)), host=lead, memory=memory)


def _given_up(lead: str, poll: Exited | Lost, count: int) -> str:
    how = _why(poll)
    return f"InternalServerError: the supervisor of {lead} was lost {count} times in a row: {how}"


def _why(poll: Exited | Ended | Lost) -> str:
    return poll.why or "it exited before the job had ended"


def _ended(poll: Ended) -> End:
    match poll.cause:
        case EndCause.CANCELLED:
            return End(Secondary.STOPPED)
        case EndCause.TIME_LIMIT:
            death = Death(cause=cause_of(Evidence(is_time_over=True)))
            return End(Secondary.MAX_RUNTIME_EXCEEDED, death=death)
        case EndCause.OUT_OF_MEMORY:
            killer = MemoryKiller.ENGINE
            death = Death(cause=cause_of(Evidence(memory=killer)), memory=killer)
            return End(Secondary.FAILED, f"AlgorithmError: out of memory: {poll.why}", death)
        case EndCause.IMAGE:
            death = Death(cause=cause_of(Evidence(error=ImageError.code)))
            return End(Secondary.FAILED, f"ClientError: {poll.why}", death)


@dataclass(frozen=True, slots=True)
class GroupReconciler:
    folder: JobFolder
    home: Home
    launcher: Launcher
    spec: JobSpec
    beats: dict[str, "Beat"]
    """The last heartbeat that this process has seen of each job's lead."""

    @classmethod
    def of(
        cls, folder: JobFolder, home: Home, launcher: Launcher, beats: dict[str, "Beat"]
    ) -> "GroupReconciler | None":
        """None for a job whose supervisors work in this folder."""
        if not is_elsewhere(folder, launcher):
            return None
        return cls(folder, home, launcher, read_spec(folder), beats)

    def reconcile(self) -> None:
        """Does nothing when another process is doing it, or the placement is one of a later version
        of Trackside. A `StorageError` when the job's state cannot be known."""
        if self._is_of_host:
            return
        try:
            self.launcher.placement_of(self._placement_name())
        except UnknownPlacement as error:
            logger.warning("job %s: the placement %r %s", self.spec.name, error.name, error)
            return
        with locked(self.folder) as mine:
            if not mine:
                return
            history = update_journal(self.folder, self.spec, self.home)
            placed = Placed.read(self.folder)
            polls = {} if placed is None else self.launcher.poll(placed)
            if any(isinstance(each, Ended) for each in polls.values()):
                history = update_journal(self.folder, self.spec, self.home)  # its last word
            earlier = history.earlier_deaths
            action = decide(history.state, placed, polls, boot_clock.now(), earlier)
            if placed is not None and not history.state.is_final:
                self._say_why_it_waits(polls)
                self._report_lost(placed, polls)
                if self._ignores_stop(placed):
                    action = End(Secondary.STOPPED)
                elif action is not None and self._may_live(placed, _lead(placed, polls), history):
                    return
            match action:
                case End():
                    self._end_without(placed, action)
                case Place():
                    self._place(placed, history, polls)

    @property
    def _is_of_host(self) -> bool:
        """Whether this is the folder of one of the job's hosts: another home places its groups."""
        return self.folder.group.exists()

    def stop(self) -> History:
        """Ask the lead to stop the job. A group that has no machine yet is withdrawn instead."""
        if self._is_of_host:
            put_request(JobKeys.of(self.spec), self.home, StoredRequest(id="stop", what=STOP))
            return Journal(self.folder.journal).read()
        with self._locked():
            history = update_journal(self.folder, self.spec, self.home)
            placed = Placed.read(self.folder)
            polls = {} if placed is None else self.launcher.poll(placed)
            if history.state.is_final or (placed is not None and placed.stop):
                return history
            if _waits(polls):
                self._withdraw(placed)
                return Journal(self.folder.journal).read()
            assert placed is not None
            request = StoredRequest(id="stop", what=STOP)
            put_request(JobKeys.of(self.spec), self.home, request)
            replace(placed, stop=request.id).write(self.folder)
        return self._answered(history)

    def is_gone(self) -> bool:
        """Whether no host of the group runs any more. What it held is freed."""
        placed = Placed.read(self.folder)
        if placed is None or self._is_of_host:
            return True
        if any(isinstance(each, Running | Pending) for each in self.launcher.poll(placed).values()):
            return False
        with suppress(PlacementAway):  # it has ended all the same
            self._free(placed)
        return True

    def _answered(self, history: History) -> History:
        deadline = time.monotonic() + _ANSWER_SECONDS
        while history.state.status is Status.IN_PROGRESS and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
            with locked(self.folder) as mine:
                if mine:
                    history = update_journal(self.folder, self.spec, self.home)
        return history

    @contextmanager
    def _locked(self) -> Iterator[None]:
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            with locked(self.folder) as mine:
                if mine:
                    yield
                    return
            if time.monotonic() > deadline:
                raise JobBusy(self.spec.name, str(self.folder.lock), _LOCK_SECONDS, None)
            time.sleep(_PAUSE_SECONDS)

    def _say_why_it_waits(self, polls: Mapping[str, Poll]) -> None:
        for poll in polls.values():
            if isinstance(poll, Pending):
                message = waiting_message(self.spec.options.placement, poll.why)
                return Journal(self.folder.journal).say(message)

    def _ignores_stop(self, placed: Placed) -> bool:
        """Whether a stop was asked for, and nothing has ended though its time is long over: by this
        process's own clock, so that only one that lives as long kills a group."""
        if not placed.stop:
            return False
        key = f"{placed.stop} of {self.spec.name}"
        asked = self.beats.setdefault(key, Beat(b"", time.monotonic()))
        waited = time.monotonic() - asked.seen_at
        return waited > self.spec.options.grace_seconds + STOP_SECONDS

    def _report_lost(self, placed: Placed, polls: Mapping[str, Poll]) -> None:
        """Tell the lead of other hosts that are gone, once: the placement may know it long before
        the lead does."""
        lead = next(iter(placed.hosts))
        for host, poll in polls.items():
            if host == lead or not isinstance(poll, Exited | Ended | Lost):
                continue
            request = StoredRequest(f"lost-{placed.epoch}-{host}", LOST, host, {"why": _why(poll)})
            key = f"{request.id} of {self.spec.name}"
            if key not in self.beats:
                put_request(JobKeys.of(self.spec), self.home, request)
                self.beats[key] = Beat(b"", time.monotonic())

    def _placement_name(self) -> str:
        placed = Placed.read(self.folder)
        return self.spec.options.placement if placed is None else placed.placement

    def _may_live(self, placed: Placed, lead: Poll | None, history: History) -> bool:
        """Whether the lead gives signs of life though the placement says that it is gone: it may
        have been started again on its machine. A lead that never gave any is gone."""
        if is_gone_for_sure(history.state, history.attempt, placed, lead):
            return False
        content = lead_beat(self.spec, self.home, placed.epoch) if placed.started else None
        if content is None:
            return False
        last = self.beats.get(self.spec.name)
        if last is None or last.content != content:
            self.beats[self.spec.name] = Beat(content, time.monotonic())
            return True
        return time.monotonic() - last.seen_at < SILENT_SECONDS

    def _place(self, placed: Placed | None, history: History, polls: Mapping[str, Poll]) -> None:
        journal = Journal(self.folder.journal)
        try:
            if placed is None or not placed.started:
                if announced(self.folder, self.home):
                    self.launcher.start(self.folder, self.spec, self._next(placed))
                return
            logger.warning("job %s: its lead is gone; placing another group", self.spec.name)
            self._free(placed)
            if history.attempt <= placed.attempt:
                self._note_death(journal, history, polls.get(next(iter(placed.hosts))))
                journal.try_move(Secondary.RESTARTING)
                history = journal.try_move(Secondary.STARTING, attempt=history.attempt + 1)
            following = replace(self._next(placed), attempt=history.attempt)
            self.launcher.start(self.folder, self.spec, following)
        except PlacementAway as error:
            journal.say(waiting_message(self.spec.options.placement, str(error)))
        except JobError as error:
            reason = f"InternalServerError: {error}"
            self._end(End(Secondary.FAILED, reason, death_at_start(error)))

    def _note_death(self, journal: Journal, history: History, lead: Poll | None) -> None:
        """Unless the lead has noted it itself. How long it ran is not known here."""
        is_noted = any(each.attempt == history.attempt for each in history.earlier_deaths)
        if isinstance(lead, Exited | Lost) and not is_noted:
            death = _death(lead, self.spec.hosts[0])
            journal.note(RETRY, attempt=history.attempt, reason=_why(lead), **death.line)

    def _next(self, placed: Placed | None) -> Placed:
        """Its epoch is another even if the last one may not have been started: the process that
        tried may have died before it wrote the handle."""
        group = new_group(self.spec)
        if placed is None:
            return group
        lead = next(iter(group.hosts))
        now = boot_clock.now()
        revivals, _ = recent_revivals(placed.hosts[lead], now)
        marked = replace(group.hosts[lead], revivals=revivals + 1, revived=now)
        following = group.with_host(lead, marked) if placed.started else group
        return replace(following, epoch=placed.epoch + 1, attempt=placed.attempt)

    def _withdraw(self, placed: Placed | None) -> None:
        try:
            self._free(placed)
        except PlacementAway as error:
            name = self._placement_name()
            raise JobError(
                f"{name} does not answer, and the job still waits there: {error}"
            ) from error
        self._end(End(Secondary.STOPPED))

    def _end_without(self, placed: Placed | None, end: End) -> None:
        """Tried again later while the engine is away."""
        try:
            self._free(placed)
        except PlacementAway as error:
            logger.warning("job %s: what it holds is not freed yet: %s", self.spec.name, error)
            return
        self._end(end)

    def _free(self, placed: Placed | None) -> None:
        """What is left of the group, and what it holds."""
        if placed is not None:
            self.launcher.stop(placed, force=True)

    def _end(self, end: End) -> None:
        journal = Journal(self.folder.journal)
        if end.to is Secondary.STOPPED:
            journal.try_move(Secondary.STOPPING)
        journal.try_move(end.to, reason=end.reason, death=end.death)
        publish_journal(self.folder, self.home)


def lead_beat(spec: JobSpec, home: Home, epoch: int) -> bytes | None:
    """What the lead of this group last wrote for the others; it changes every few seconds."""
    try:
        return fetch(f"{JobKeys.of(spec).coordination}/{epoch}/lead.json", home)
    except ObjectNotFound:
        return None


def is_elsewhere(folder: JobFolder, launcher: Launcher) -> bool:
    """Whether the job's hosts have folders of their own. Also for a placement that this version
    does not know: its supervisors are not started again here."""
    placed = Placed.read(folder)
    name = read_spec(folder).options.placement if placed is None else placed.placement
    if name == LOCAL:
        return False
    try:
        return not launcher.placement_of(name).shares_files
    except UnknownPlacement:
        return True


def update_journal(folder: JobFolder, spec: JobSpec, home: Home) -> History:
    """Replace the journal in the folder by the one in storage, if that is further. Call with the
    folder's lock held."""
    here = Journal(folder.journal).read()
    if here.state.is_final:
        return here
    try:
        stored = fetch(JobKeys.of(spec).journal, home)
        there = fold_lines(stored.split(b"\n")[:-1])
    except (ObjectNotFound, DamagedRecord):
        return here
    if not is_further(stored, folder.journal.read_bytes()):
        return here
    durable.write_bytes(folder.journal, stored)
    return there
