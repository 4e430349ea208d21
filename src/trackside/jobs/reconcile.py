"""Restores the invariant that every unfinished job has living supervisors.

`decide` is pure; `Reconciler` reads and acts. Every reader of a job runs it, any number
concurrently. Queued jobs are left to a server's `scheduler.py`.
"""

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import field, replace
from math import inf

from trackside.containers.job_containers import remove_container
from trackside.errors import StorageError
from trackside.files import damaged_files
from trackside.jobs.pending_jobs import has_ended_waiting, keep_end
from trackside.jobs.records import publish_journal, read_folder, read_spec
from trackside.jobs.start_supervisor import FIRST_ATTEMPT, Launcher, Placed, locked, new_nonce
from trackside.jobs.submit import announced
from trackside.placement.placement import Exited, Placement, Poll, Running
from trackside.quick_dataclass import dataclass
from trackside.records import evaluator_process, hosts, pending_uploads
from trackside.records.attached_process import is_elsewhere
from trackside.records.host_processes import is_supervised, script_lives, supervisor_lives
from trackside.records.hosts import Phase
from trackside.records.journal import Journal
from trackside.records.layout import FIRST_HOST, Home, HostFolder, JobFolder
from trackside.records.status import Secondary, State
from trackside.system import boot_clock, processes

logger = logging.getLogger(__name__)

MAX_REVIVALS = 3
"""How often one host's supervisor is restarted within the window before the job is given up. Never
while its script runs: then the next restart is delayed.
"""
REVIVAL_WINDOW_SECONDS = 600.0
"""A supervisor that lived this long gets its full number of restarts again."""
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
    placed: Placed | None = None
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
        elif isinstance(host.poll, Exited):
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
    _away: dict[str, float] = field(default_factory=dict, compare=False)
    """Output locations that could not be reached, and when to retry them."""

    def reconcile(self, name: str) -> None:
        """Does nothing when another process is doing it or the job has finished."""
        folder = self.home.job(name)
        look = Journal(folder.journal).version_stamp()
        if self._queued.get(name) == look:
            return None
        self._queued.pop(name, None)
        if is_elsewhere(folder.host(FIRST_HOST, FIRST_ATTEMPT)):
            return None
        state, seen = self._inspect(folder)
        if state.is_queued:
            self._queued[name] = look
            return None
        if state.is_final:
            self._revive_end(folder)
            return self._revive_rules(folder)
        if not decide(state, seen):
            return None
        with locked(folder) as mine:
            if not mine:
                return None
            state, seen = self._inspect(folder)  # read again now that no other process acts
            never_started = seen and all(host.poll is None for host in seen)
            if never_started and not announced(folder, self.home):
                return None
            for action in decide(state, seen):
                self._apply(folder, action)
        return None

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
            lead, *_ = observe(folder, history.attempt, self.launcher.placement)
            if isinstance(lead.poll, Exited) and lead.revivals < MAX_REVIVALS:
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
        if is_supervised(folder):
            return
        with locked(folder) as mine:
            if not mine or evaluator_process.may_live(rules):
                return
            nonce = evaluator_process.intend(rules)
            if nonce is None:
                return evaluator_process.give_up(rules, spec)
            logger.warning("job %s: starting the evaluator of its rules", spec.name)
            command = evaluator_process.command(folder, nonce)
            environment = self.launcher.environment
            handle = self.launcher.placement.start(command, environment, nonce=nonce, log=rules.log)
            evaluator_process.note_started(rules, handle["pid"])

    def _inspect(self, folder: JobFolder) -> tuple[State, list[SeenHost]]:
        history = Journal(folder.journal).read()
        if history.state.is_final or history.state.is_queued:
            return history.state, []
        return history.state, observe(folder, history.attempt, self.launcher.placement)

    def _apply(self, folder: JobFolder, action: Action) -> None:
        host = action.seen.host
        match action:
            case GiveUp(seen=seen, reason=reason):
                logger.error("job %s: %s", folder.root.name, reason)
                pending_uploads.note(self.home, folder.root.name, keeps_files=True)
                Journal(folder.journal).try_move(Secondary.FAILED, reason=reason)
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
        placed = seen.placed or Placed(nonce=new_nonce())
        placed = replace(placed, revivals=revivals, revived=boot_clock.now() if revivals else None)
        self.launcher.start(folder, seen.host, seen.attempt, placed)


def observe(folder: JobFolder, attempt: int, placement: Placement) -> list[SeenHost]:
    """Every host of the job, by the folders created before its first start."""
    try:
        names = sorted(os.listdir(folder.hosts), key=lambda name: (len(name), name))
    except FileNotFoundError:  # lost in a power cut, or a queued job was requested to stop
        names = list(read_spec(folder).hosts)
    return [
        _observe_host(folder, name, attempt, placement, is_lead=name == names[0]) for name in names
    ]


def _observe_host(
    folder: JobFolder, host: str, attempt: int, placement: Placement, *, is_lead: bool
) -> SeenHost:
    # A supervisor continues into the next attempt; it may have died before it wrote there.
    places = [folder.host(host, number) for number in range(attempt, 0, -1)]
    seen = SeenHost(host=host, is_lead=is_lead, attempt=attempt, poll=Running())
    if any(supervisor_lives(place) for place in places):
        return seen  # by its own record: the usual case, and sufficient
    placed = [found for place in places if (found := Placed.read(place.placed))]
    record = hosts.read(places[0].record)
    revivals, since = recent_revivals(placed[0], boot_clock.now()) if placed else (0, inf)
    return replace(
        seen,
        placed=placed[0] if placed else None,
        revivals=revivals,
        seconds_since_revival=since,
        poll=_poll(places, placed, placement),
        script_lives=any(map(script_lives, places)),
        has_ended=record is not None and record.phase is Phase.ENDED,
        log=str(places[0].supervisor_log),
    )


def recent_revivals(placed: Placed, now: boot_clock.Moment) -> tuple[int, float]:
    """Restarts within the window, and the age of the last one. Pure."""
    age = placed.revived.age_at(now) if placed.revived else None
    since = inf if age is None else age
    return (placed.revivals if since < REVIVAL_WINDOW_SECONDS else 0), since


def _poll(
    places: Sequence[HostFolder], placed: Sequence[Placed], placement: Placement
) -> Poll | None:
    """By its handle, without a record of its own: it may not have written one yet."""
    polls = [placement.poll(found.handle) for found in placed if found.handle is not None]
    if sign_of_life := next((poll for poll in polls if not isinstance(poll, Exited)), None):
        return sign_of_life
    was_started = polls or any(place.supervisor.exists() for place in places)
    return Exited(None) if was_started else None


def _given_up(host: SeenHost, deaths: int) -> str:
    return (
        f"InternalServerError: the supervisor of {host.host} died {deaths} times in a row; "
        f"its log is {host.log}"
    )


def _sweep(folder: JobFolder, attempt: int) -> None:
    """The script may have outlived its supervisors; a finished job has no processes."""
    for path in folder.hosts.iterdir():
        for number in range(attempt, 0, -1):
            host = folder.host(path.name, number)
            remove_container(host)
            intent = damaged_files.read_object(host.sandbox / "intent.json")
            if intent is not None and isinstance(intent.get("mark"), str):
                processes.sweep(intent["mark"])
