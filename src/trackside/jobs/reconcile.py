"""Restores the invariant that every unfinished job has living supervisors.

`decide` is pure; `Reconciler` reads and acts. Every reader of a job runs it, any number
concurrently. Queued jobs are left to a server's `scheduler.py`, jobs whose hosts share no files
with this machine to `reconcile_elsewhere.py`.
"""

import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from math import inf

from trackside.containers.job_containers import remove_container
from trackside.coordination.host_files import files_so_far, first_files, record_of
from trackside.errors import StorageError
from trackside.files import damaged_files
from trackside.jobs.pending_jobs import has_ended_waiting, keep_end
from trackside.jobs.reconcile_elsewhere import Beat, GroupReconciler, is_elsewhere
from trackside.jobs.records import publish_journal, read_folder, read_spec
from trackside.jobs.revivals import MAX_REVIVALS as MAX_REVIVALS
from trackside.jobs.revivals import recent_revivals as recent_revivals
from trackside.jobs.start_supervisor import (
    Launcher,
    locked,
    new_group,
    new_nonce,
    waiting_message,
)
from trackside.jobs.submit import announced
from trackside.placement.local import start_detached
from trackside.placement.placement import Exited, Lost, Pending, PlacementAway, Poll, Running
from trackside.quick_dataclass import dataclass
from trackside.records import evaluator_process, pending_uploads
from trackside.records.attached_process import is_elsewhere as is_attached_elsewhere
from trackside.records.death import Death, Evidence, Gone, cause_of
from trackside.records.host_processes import is_supervised, script_lives, supervisor_lives
from trackside.records.hosts import Phase
from trackside.records.journal import Journal
from trackside.records.layout import Home, HostFolder, JobFolder
from trackside.records.placed import Placed, PlacedHost
from trackside.records.status import Secondary, State
from trackside.system import boot_clock, processes

logger = logging.getLogger(__name__)

LATE_REVIVAL_SECONDS = 60.0
"""Pause between restarts of a supervisor that keeps dying while its script runs."""
STORE_AWAY_SECONDS = 15.0
"""Pause before one process retries an output location that could not be reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenHost:
    """What is known about one host's supervisor at one moment."""

    host: str
    is_lead: bool
    attempt: int
    poll: Poll | None
    """None if no supervisor was ever started."""
    placed: PlacedHost | None = None
    revivals: int = 0
    """Restarts within the window."""
    seconds_since_revival: float = inf
    script_lives: bool = False
    has_ended: bool = False
    """Its part of the current attempt is over. The lead's is over only with the job."""
    log: str = ""


@dataclass(frozen=True, slots=True)
class Start:
    """The first start: the starter died between the intent and the process."""

    seen: SeenHost


@dataclass(frozen=True, slots=True)
class Revive:
    seen: SeenHost


@dataclass(frozen=True, slots=True)
class GiveUp:
    seen: SeenHost
    reason: str


Action = Start | Revive | GiveUp


def decide(state: State, seen: Sequence[SeenHost]) -> list[Action]:
    """Acts only on proof: a supervisor that may be alive is left alone."""
    if state.is_final or state.is_queued:
        return []
    actions: list[Action] = []
    for host in seen:
        if host.has_ended and not host.is_lead:
            continue
        if host.poll is None:
            actions.append(Start(host))
        elif isinstance(host.poll, Exited | Lost):
            if host.revivals < MAX_REVIVALS:
                actions.append(Revive(host))
            elif not host.script_lives:
                return [GiveUp(host, _given_up(host, host.revivals + 1))]
            elif host.seconds_since_revival >= LATE_REVIVAL_SECONDS:
                actions.append(Revive(host))
    return actions


@dataclass(frozen=True, slots=True)
class Reconciler:
    home: Home
    launcher: Launcher
    _queued: dict[str, tuple[int, int]] = field(default_factory=dict, compare=False)
    """Size and mtime of the journals of jobs that were queued when last read."""
    _pulses: dict[str, evaluator_process.Pulse] = field(default_factory=dict, compare=False)
    """Evaluators that continue after their job's end."""
    _beats: dict[str, Beat] = field(default_factory=dict, compare=False)
    """Of leads on other machines."""
    _away: dict[str, float] = field(default_factory=dict, compare=False)
    """Output locations that could not be reached, and when to retry them."""

    def reconcile(self, name: str) -> None:
        """Does nothing when another process is doing it or the job has finished."""
        folder = self.home.job(name)
        look = Journal(folder.journal).version_stamp()
        if self._queued.get(name) == look:
            return None
        self._queued.pop(name, None)
        if is_attached_elsewhere(first_files(folder)):
            return None
        if (group := self.group_of(name)) is not None and not _is_at_rest(folder):
            return group.reconcile()
        state, seen = self._inspect(folder)
        if state.is_queued:
            self._queued[name] = look
            return None
        if state.is_final:
            self._revive_end(folder)
            return self._revive_rules(folder)
        _say_why_it_waits(folder, seen)
        return self._restore(folder) if decide(state, seen) else None

    def group_of(self, name: str) -> GroupReconciler | None:
        """None for a job whose supervisors work in this home."""
        return GroupReconciler.of(self.home.job(name), self.home, self.launcher, self._beats)

    def _restore(self, folder: JobFolder) -> None:
        with locked(folder) as mine:
            if not mine:
                return None
            state, seen = self._inspect(folder)  # read again now that no other process acts
            actions = decide(state, seen)
            if actions and all(host.poll is None for host in seen):
                return self._start_group(folder, seen[0].attempt)
            for action in actions:
                self._apply(folder, action)
        return None

    def _start_group(self, folder: JobFolder, attempt: int) -> None:
        """The first start: its starter died before."""
        if not announced(folder, self.home):
            return
        spec = read_spec(folder)
        logger.warning("job %s: starting its supervisors", spec.name)
        placed = Placed.read(folder) or new_group(spec)
        try:
            self.launcher.start(folder, spec, placed, attempt=attempt)
        except PlacementAway as error:
            Journal(folder.journal).say(waiting_message(placed.placement, str(error)))

    def _revive_end(self, folder: JobFolder) -> None:
        """Restart the lead of a finished job, to complete what its supervisor left undone."""
        name = folder.root.name
        if pending_uploads.keeps_files(self.home, name) is None or is_supervised(folder):
            return
        with locked(folder) as mine:
            if not mine or is_supervised(folder):
                return
            history = Journal(folder.journal).read()
            if has_ended_waiting(history):
                return self._send_end(folder)
            if is_elsewhere(folder, self.launcher):  # its lead has a note of its own
                return pending_uploads.forget(self.home, name)
            lead, *_ = observe(folder, history.attempt, self.launcher)
            if isinstance(lead.poll, Exited | Lost) and lead.revivals < MAX_REVIVALS:
                self._apply(folder, Revive(lead))

    def _send_end(self, folder: JobFolder) -> None:
        """For a job that never started. An unreachable store is not retried for a while: many such
        jobs would otherwise delay all others by seconds each.
        """
        output = read_spec(folder).output.uri
        if time.monotonic() < self._away.get(output, 0.0):
            return
        try:
            keep_end(folder, self.home)
        except StorageError:
            self._away[output] = time.monotonic() + STORE_AWAY_SECONDS
            raise
        self._away.pop(output, None)

    def _revive_rules(self, folder: JobFolder) -> None:
        """Rules continue after the job's end, with only their evaluator. Until then the supervisor
        keeps it running.
        """
        rules = folder.rules
        if evaluator_process.may_live(rules):
            pulse = self._pulses.setdefault(folder.root.name, evaluator_process.Pulse())
            if pulse.is_frozen(rules):
                logger.warning("job %s: the evaluator of its rules is frozen", folder.root.name)
                evaluator_process.kill(rules)
            return
        self._pulses.pop(folder.root.name, None)
        spec = read_folder(folder).spec
        if not evaluator_process.is_wanted(spec) or evaluator_process.is_done(rules, spec):
            return
        if is_supervised(folder) or is_elsewhere(folder, self.launcher):
            return
        with locked(folder) as mine:
            if not mine or evaluator_process.may_live(rules):
                return
            nonce = evaluator_process.intend(rules)
            if nonce is None:
                return evaluator_process.give_up(rules, spec)
            logger.warning("job %s: starting the evaluator of its rules", spec.name)
            command = evaluator_process.command(folder, nonce)
            started = start_detached(command, self.launcher.environment, rules.log)
            evaluator_process.note_started(rules, started.pid)

    def _inspect(self, folder: JobFolder) -> tuple[State, list[SeenHost]]:
        history = Journal(folder.journal).read()
        if history.state.is_final or history.state.is_queued:
            return history.state, []
        return history.state, observe(folder, history.attempt, self.launcher)

    def _apply(self, folder: JobFolder, action: Action) -> None:
        host = action.seen.host
        match action:
            case GiveUp(seen=seen, reason=reason):
                logger.error("job %s: %s", folder.root.name, reason)
                pending_uploads.note(self.home, folder.root.name, keeps_files=True)
                death = Death(cause=cause_of(Evidence(gone=Gone.RECORD)), host=host)
                Journal(folder.journal).try_move(Secondary.FAILED, reason=reason, death=death)
                _sweep(folder, seen.attempt)
                publish_journal(folder, self.home)
                pending_uploads.forget(self.home, folder.root.name)
            case Start(seen=seen):
                logger.warning("job %s: starting the supervisor of %s", folder.root.name, host)
                self._launch(folder, seen, revivals=0)
            case Revive(seen=seen):
                revivals = seen.revivals + 1
                logger.warning(
                    "job %s: the supervisor of %s died; starting it again (number %d)",
                    folder.root.name,
                    host,
                    revivals,
                )
                self._launch(folder, seen, revivals=revivals)

    def _launch(self, folder: JobFolder, seen: SeenHost, *, revivals: int) -> None:
        spec = read_spec(folder)
        placed = Placed.read(folder) or new_group(spec)
        host = seen.placed or placed.hosts.get(seen.host) or PlacedHost(nonce=new_nonce())
        host = replace(host, revivals=revivals, revived=boot_clock.now() if revivals else None)
        placed = placed.with_host(seen.host, host)
        self.launcher.start(folder, spec, placed, hosts=[seen.host], attempt=seen.attempt)


def observe(folder: JobFolder, attempt: int, launcher: Launcher) -> list[SeenHost]:
    """Every host of the job, by the folders created before its first start."""
    try:
        names = sorted(os.listdir(folder.hosts), key=lambda name: (len(name), name))
    except FileNotFoundError:  # lost in a power cut, or a queued job was requested to stop
        names = list(read_spec(folder).hosts)
    group = _Placement(folder, launcher)
    return [_observe_host(folder, name, attempt, group, is_lead=name == names[0]) for name in names]


class _Placement:
    """What is known of a job's group, read when it is needed: a living supervisor's own record is
    the usual case, and sufficient."""

    def __init__(self, folder: JobFolder, launcher: Launcher) -> None:
        self._folder = folder
        self._launcher = launcher

    @cached_property
    def hosts(self) -> Mapping[str, PlacedHost]:
        return {} if self._placed is None else self._placed.hosts

    @cached_property
    def polls(self) -> Mapping[str, Poll]:
        return {} if self._placed is None else self._launcher.poll(self._placed)

    @cached_property
    def _placed(self) -> Placed | None:
        return Placed.read(self._folder)


def _observe_host(
    folder: JobFolder, host: str, attempt: int, group: _Placement, *, is_lead: bool
) -> SeenHost:
    # A supervisor continues into the next attempt; it may have died before it wrote there.
    places = files_so_far(folder, host, attempt)
    seen = SeenHost(host=host, is_lead=is_lead, attempt=attempt, poll=Running())
    if any(supervisor_lives(place) for place in places):
        return seen  # by its own record: the usual case, and sufficient
    placed = group.hosts.get(host)
    record = record_of(folder, host, attempt)
    revivals, since = recent_revivals(placed, boot_clock.now()) if placed else (0, inf)
    return replace(
        seen,
        placed=placed,
        revivals=revivals,
        seconds_since_revival=since,
        poll=_poll(places, group.polls.get(host)),
        script_lives=any(map(script_lives, places)),
        has_ended=record is not None and record.phase is Phase.ENDED,
        log=str(places[0].supervisor_log),
    )


def _poll(places: Sequence[HostFolder], poll: Poll | None) -> Poll | None:
    """By its handle, without a record of its own: it may not have written one yet."""
    if poll is None and any(place.supervisor.exists() for place in places):
        return Exited(None)
    return poll


def _is_at_rest(folder: JobFolder) -> bool:
    state = Journal(folder.journal).read().state
    return state.is_final or state.is_queued


def _say_why_it_waits(folder: JobFolder, seen: Sequence[SeenHost]) -> None:
    for host in seen:
        placed = Placed.read(folder) if isinstance(host.poll, Pending) else None
        if isinstance(host.poll, Pending) and placed is not None:
            Journal(folder.journal).say(waiting_message(placed.placement, host.poll.why))
            return


def _given_up(host: SeenHost, deaths: int) -> str:
    return (
        f"InternalServerError: the supervisor of {host.host} died {deaths} times in a row; "
        f"its log is {host.log}"
    )


def _sweep(folder: JobFolder, attempt: int) -> None:
    """The script may have outlived its supervisors; a finished job has no processes."""
    for path in folder.hosts.iterdir():
        for place in files_so_far(folder, path.name, attempt):
            remove_container(place)
            intent = damaged_files.read_object(place.sandbox / "intent.json")
            if intent is not None and isinstance(intent.get("mark"), str):
                processes.sweep(intent["mark"], spares_jobs=True)
