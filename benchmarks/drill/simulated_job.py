"""The processes of one job on a simulated machine, which go by the product's decisions.

Submitter, scheduler, supervisors, reconcilers and whoever stops the job are here as thin shells:
they write in the order in which the real ones write. What they write is decided by `status`,
`journal`, `outcome`, `lead`, `peers`, `keeper`, `gang` and `reconcile` themselves.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from benchmarks.drill.simulated_machine import Machine, Process, Script, require
from trackside.coordination.coordination import EndOrder, Meeting, Why
from trackside.jobs import reconcile
from trackside.jobs.reconcile import SeenHost
from trackside.placement.placement import Exited, Poll, Running
from trackside.records.hosts import HostRecord, Phase
from trackside.records.placed import PlacedHost
from trackside.records.status import Secondary, Status
from trackside.supervisor import gang, outcome, peer_watchdog, watchdog
from trackside.supervisor.lead import start_again, write_end
from trackside.supervisor.outcome import Again
from trackside.system.boot_clock import Moment

LEAD_GONE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for, and what the script will do."""

    hosts: tuple[str, ...]
    max_attempts: int
    max_runtime_seconds: float
    script_seconds: float
    exit_code: int
    grace_seconds: float
    is_queued: bool


class Job:
    """One job: what its processes share."""

    def __init__(self, machine: Machine, request: Request) -> None:
        self.machine = machine
        self.request = request
        self.lead = request.hosts[0]
        self.folder_lock: Process | None = None
        self.host_locks: dict[str, Supervisor] = {}
        self.handles: dict[str, Supervisor] = {}
        """The process that `placed.json` names."""
        self.words: dict[str, Supervisor] = {}
        """The one that said in `supervisor.json` who it is."""
        self.publishers: set[Supervisor] = set()
        self.num_started: dict[tuple[str, int], int] = {}
        self.met_at: dict[int, float] = {}
        """When the hosts of an attempt met, in true seconds."""
        self.num_stops = 0
        """Requests that were answered."""
        self.on_order: Callable[[int, Why], None] = lambda attempt, why: None
        self.on_watched: Callable[[int], None] = lambda attempt: None
        """Called when the lead has looked at what only the lead watches."""
        self.on_overdue: Callable[[Script], None] = lambda script: None
        """Called when a supervisor has looked at a script that was to end before."""
        machine.on_kill = self.forget

    def forget(self, process: Process) -> None:
        """What the kernel takes from a process that dies."""
        if self.folder_lock is process:
            self.folder_lock = None
        if isinstance(process, Supervisor):
            self.publishers.discard(process)
            if self.host_locks.get(process.host) is process:
                del self.host_locks[process.host]

    def records(self, attempt: int) -> dict[str, HostRecord]:
        found = self.machine.disk.records
        return {host: found.get((host, attempt), HostRecord()) for host in self.request.hosts}

    def is_ending(self, attempt: int) -> bool:
        is_stopping = self.machine.journal.read().state.status is Status.STOPPING
        return is_stopping or attempt in self.machine.disk.orders

    def order(self, attempt: int, why: Why, host: str) -> None:
        machine = self.machine
        machine.pause()
        if attempt not in machine.disk.orders:
            machine.disk.orders[attempt] = EndOrder(why, host, machine.wall)
            self.on_order(attempt, why)

    def start_supervisor(self, host: str, placed: PlacedHost) -> None:
        """As `Launcher.start`: the intent, the process, the handle."""
        machine = self.machine
        machine.pause()
        machine.disk.placed[host] = placed
        machine.disk.handles.discard(host)
        machine.pause()
        started = Supervisor(self, host)
        machine.start(started)
        machine.pause()
        machine.disk.handles.add(host)
        self.handles[host] = started

    def start_script(self, host: str, attempt: int) -> Script:
        key = (host, attempt)
        scripts = self.machine.disk.scripts
        if key not in scripts:
            self.machine.pause()
            if key in scripts:
                return scripts[key]
            ends_at = self.machine.true_seconds + self.request.script_seconds
            scripts[key] = Script(host, attempt, ends_at, self.request.exit_code)
            self.num_started[key] = self.num_started.get(key, 0) + 1
        return scripts[key]

    def run_scripts(self) -> None:
        """Scripts end by themselves or as they were asked to; inits revive supervisors."""
        machine = self.machine
        for script in machine.disk.scripts.values():
            if not script.is_alive:
                continue
            now = machine.true_seconds
            if now >= script.ends_at:
                self._revive_supervisor(script, is_last=True)
                script.end(script.exit_code)
            elif script.asked_at is not None and now >= script.asked_at + 1.0:
                script.end(-15)
            else:
                self._revive_supervisor(script)

    def _revive_supervisor(self, script: Script, *, is_last: bool = False) -> None:
        machine = self.machine
        if script.supervisor is not None and script.supervisor.is_alive:
            if machine.true_seconds - script.revived_at > watchdog.STABLE_AFTER_SECONDS:
                script.num_revivals = 0
            return
        since = machine.true_seconds - script.revived_at
        if is_last or watchdog.is_due(script.num_revivals, since):
            script.num_revivals += 1
            script.revived_at = machine.true_seconds
            script.supervisor = Supervisor(self, script.host)
            machine.start(script.supervisor)

    def script_lives(self, host: str) -> bool:
        scripts = self.machine.disk.scripts.items()
        return any(script.is_alive for (name, _), script in scripts if name == host)


class Supervisor(Process):
    """`supervisor.program`, `Attempt` and `lead.conclude`, a stage for each tick."""

    def __init__(self, job: Job, host: str) -> None:
        super().__init__(job.machine)
        self.job = job
        self.host = host
        self.is_lead = host == job.lead
        self.number = 0
        self.stage = self._new
        self.record = HostRecord()
        self._asked_at: float | None = None
        self._seen: dict[str, float] = {}
        self._starts: dict[str, list[float]] = {}
        self._lead_seen = self.machine.true_seconds
        self._stamped_at = self.machine.true_seconds
        self._met: Moment | None = None

    def tick(self) -> None:
        job = self.job
        if job.host_locks.setdefault(self.host, self) is not self:
            return self.leave()
        journal = self.machine.journal
        history = journal.read()
        if history.state.is_final:
            return self._leave_ended()
        if history.attempt != self.number:
            self._end_earlier(history.attempt)
            self.number = history.attempt
            found = self.machine.disk.records.get((self.host, self.number))
            self.record = replace(found) if found else HostRecord()
            self._asked_at = None
            self._met = None
            self.stage = self._new
        job.words[self.host] = self
        self.stage()

    def _leave_ended(self) -> None:
        self._end_earlier(self.machine.journal.read().attempt + 1)
        if self.is_lead and self.machine.disk.has_ending_note:
            self._wind_up()
        self.job.forget(self)
        self.leave()

    def _end_earlier(self, attempt: int) -> None:
        for number in range(1, attempt):
            if script := self.machine.disk.scripts.get((self.host, number)):
                script.end(-9)

    @property
    def _script(self) -> Script | None:
        return self.machine.disk.scripts.get((self.host, self.number))

    # The stages of one attempt

    def _new(self) -> None:
        if self.record.phase is Phase.ENDED:
            self.stage = self._conclude
        elif self._script is not None:
            self.stage = self._start
        else:
            self._move(Secondary.DOWNLOADING)
            self._announce(Phase.PREPARING)
            self.stage = self._prepare

    def _prepare(self) -> None:
        if self._must_end():
            self.stage = self._end
            return
        self._announce(Phase.READY)
        if self.is_lead and self.number not in self.machine.disk.meetings:
            self.machine.pause()
            now = self.machine.now
            meeting = Meeting(gang.DEFAULT_PORT, now.boot_id, now.seconds)
            self.machine.disk.meetings[self.number] = meeting
            self.job.met_at[self.number] = self.machine.true_seconds
        self.stage = self._wait_for_all

    def _wait_for_all(self) -> None:
        if self._must_end():
            self.stage = self._end
            return
        phases = {record.phase for record in self.job.records(self.number).values()}
        if self.is_lead and phases <= {Phase.READY, Phase.RUNNING}:
            self._move(Secondary.TRAINING)
        if self.machine.journal.read().state.secondary is Secondary.TRAINING:
            self.stage = self._start

    def _start(self) -> None:
        script = self.job.start_script(self.host, self.number)
        script.supervisor = self
        if self.record.phase is not Phase.UPLOADING:
            self._announce(Phase.RUNNING)
        self.stage = self._watch

    def _watch(self) -> None:
        script = self._script
        assert script is not None
        was_due = self.job.is_ending(self.number)
        must_end = self._must_end()
        if not script.is_alive:
            self._record_exit(script, was_asked=self._asked_at is not None or must_end)
            self.stage = self._end
            return
        if self._asked_at is None and must_end:
            self._asked_at = self.machine.true_seconds
            script.asked_at = script.asked_at or self._asked_at
        elif self._asked_at is not None:
            if self.machine.true_seconds - self._asked_at >= self.job.request.grace_seconds:
                script.end(-9)
        elif self.is_lead and self.machine.random.random() < 0.2:
            self.machine.journal.say(f"Sync is behind since {self.machine.wall}")
        if was_due and script.is_alive:
            self.job.on_overdue(script)

    def _record_exit(self, script: Script, *, was_asked: bool) -> None:
        self.record.ended_at = self.machine.wall
        if script.lost:
            self.record.lost = script.lost
            return
        self.record.exit_code = script.exited
        if script.exited and not was_asked:
            self.record.failure = outcome.algorithm_error("it failed", script.exited)
            if script.exited < 0:
                self.record.lost = "the script was ended from outside"

    def _end(self) -> None:
        if script := self._script:
            script.end(-9)
        self._announce(Phase.UPLOADING)
        self._lead_out()
        self._announce(Phase.ENDED)
        self.stage = self._conclude

    def _conclude(self) -> None:
        if not self.is_lead:
            return self._wait_for_the_lead()
        machine, number = self.machine, self.number
        if self.record.went_wrong:
            self.job.order(number, Why.HOST_FAILED, self.host)
        records = self.job.records(number)
        waiting = {host for host, record in records.items() if record.phase is not Phase.ENDED}
        if waiting:
            self._lead_out()
            lost = self._look_at_peers()
            if lost:
                self.job.order(number, Why.HOST_LOST, lost[0])
            if not lost or not waiting.issubset(lost):
                return
        history = machine.journal.read()
        decided = outcome.decide(
            history.state,
            records,
            machine.disk.orders.get(number),
            earlier=[each for each in history.earlier_deaths if each.attempt != number],
            max_attempts=self.job.request.max_attempts,
        )
        if isinstance(decided, Again):
            ran = self._running_seconds()
            return start_again(machine.journal, number, decided.reason, ran, decided.death)
        assert isinstance(decided, outcome.End), "no engine takes a machine back here"
        self._finish(decided)

    def _finish(self, end: outcome.End) -> None:
        machine = self.machine
        if machine.journal.read().has_trained(self.number):
            machine.journal.try_move(Secondary.UPLOADING)
            self.job.publishers.add(self)
            machine.pause()
            require(len(self.job.publishers) == 1, "two live publishers of the final names")
            machine.disk.published.append(self.number)
            self.job.publishers.discard(self)
        machine.pause()
        machine.disk.has_ending_note = True
        write_end(machine.journal, end)
        self._wind_up()

    def _wind_up(self) -> None:
        self.machine.pause()
        self.machine.disk.has_ending_note = False

    def _wait_for_the_lead(self) -> None:
        lead = self.job.words.get(self.job.lead)
        if lead is None or lead.is_alive:
            self._lead_seen = self.machine.true_seconds
        elif self.machine.true_seconds - self._lead_seen > LEAD_GONE_SECONDS:
            self.job.forget(self)
            self.leave()

    # What the lead watches

    def _must_end(self) -> bool:
        self._lead_on()
        order = self.machine.disk.orders.get(self.number)
        return outcome.must_end(self.machine.journal.read(), self.number, order)

    def _lead_on(self) -> None:
        if not self.is_lead or self.number in self.machine.disk.orders:
            return
        records = self.job.records(self.number)
        records[self.host] = self.record
        failed = outcome.failed_peer(records)
        runtime = self.machine.journal.read().earlier_seconds + self._running_seconds()
        found = outcome.why_end(
            records,
            [] if len(records) == 1 or failed else self._look_at_peers(),
            runtime_seconds=runtime,
            max_runtime_seconds=self.job.request.max_runtime_seconds,
        )
        if found is not None:
            self.job.order(self.number, *found)
        elif not outcome.are_over(records):
            self._stamp()
            self.job.on_watched(self.number)

    def _lead_out(self) -> None:
        if not self.is_lead:
            return
        self._lead_on()
        history = self.machine.journal.read()
        if history.state.secondary is Secondary.UPLOADING:
            return
        if outcome.are_over(self.job.records(self.number)) and history.has_trained(self.number):
            self._move(Secondary.UPLOADING)

    def _running_seconds(self) -> float:
        meeting = self.machine.disk.meetings.get(self.number)
        if meeting is None:
            return 0.0
        now = self.machine.now
        if self._met is None:
            self._met = gang.met_at(meeting, now)
            if meeting.boot_id != now.boot_id:
                self._stamped_at = -inf
        return self._met.age_at(now) or 0.0

    def _stamp(self) -> None:
        ran, met = self._running_seconds(), self._met
        if met and self.machine.true_seconds - self._stamped_at >= gang.STAMP_SECONDS:
            self._stamped_at = self.machine.true_seconds
            stamped = Meeting(gang.DEFAULT_PORT, met.boot_id, met.seconds, ran)
            self.machine.disk.meetings[self.number] = stamped

    def _look_at_peers(self) -> list[str]:
        lost = []
        for host, record in self.job.records(self.number).items():
            if host == self.host or record.phase is Phase.ENDED:
                continue
            match peer_watchdog.decide(self._see(host)):
                case peer_watchdog.Action.START:
                    self._starts.setdefault(host, []).append(self.machine.true_seconds)
                    self.machine.start(Supervisor(self.job, host))
                case peer_watchdog.Action.LOST:
                    lost.append(host)
                case peer_watchdog.Action.LEAVE:
                    pass
        return lost

    def _see(self, host: str) -> peer_watchdog.Seen:
        now = self.machine.true_seconds
        words = self.job.words.get(host)
        if words is None or words.is_alive or host in self.job.host_locks:
            self._seen[host] = now
            return peer_watchdog.Seen(supervisor_lives=True)
        starts = self._starts.get(host, [])
        recent = [moment for moment in starts if now - moment < peer_watchdog.WINDOW_SECONDS]
        return peer_watchdog.Seen(
            script_lives=self.job.script_lives(host),
            gone_seconds=now - self._seen.setdefault(host, now),
            starts=len(recent),
            since_start_seconds=now - recent[-1] if recent else inf,
        )

    # What it writes

    def _move(self, to: Secondary) -> None:
        if self.is_lead:
            self.machine.journal.try_move(to)

    def _announce(self, phase: Phase) -> None:
        self.record.phase = phase
        self.machine.pause()
        self.machine.disk.records[self.host, self.number] = replace(self.record)
        self.machine.pause()


class Submitter(Process):
    """`trackside run` on this machine, once its folder has been claimed: starts the supervisors."""

    def __init__(self, job: Job) -> None:
        super().__init__(job.machine)
        self.job = job

    def tick(self) -> None:
        self.job.folder_lock = self
        for host in self.job.request.hosts:
            self.job.start_supervisor(host, PlacedHost(nonce=f"nonce of {host}"))
        self.job.forget(self)
        self.leave()


class Server(Process):
    """Begins a job that waits, and reconciles: `waiting.begin`, `Reconciler.reconcile`."""

    def __init__(self, job: Job) -> None:
        super().__init__(job.machine)
        self.job = job

    def tick(self) -> None:
        state = self.machine.journal.read().state
        if not state.is_queued and not self._work_left():
            return
        if self.job.folder_lock is not None:
            return
        self.job.folder_lock = self
        if self.machine.journal.read().state.is_queued:
            self._begin()
        else:
            self._reconcile()
        self.job.forget(self)

    def _begin(self) -> None:
        history = self.machine.journal.try_move(Secondary.STARTING, only_from=Secondary.PENDING)
        if history.state.secondary is Secondary.STARTING:
            for host in self.job.request.hosts:
                self.job.start_supervisor(host, PlacedHost(nonce=f"nonce of {host}"))

    def _work_left(self) -> bool:
        history = self.machine.journal.read()
        if history.state.is_final:
            return self.machine.disk.has_ending_note and not self.job.host_locks
        return bool(reconcile.decide(history.state, self._observe(history.attempt)))

    def _reconcile(self) -> None:
        history = self.machine.journal.read()
        seen = self._observe(history.attempt)
        if history.state.is_final:
            lead = seen[0]
            if isinstance(lead.poll, Exited) and lead.revivals < reconcile.MAX_REVIVALS:
                self._apply(reconcile.Revive(lead))
            return
        for action in reconcile.decide(history.state, seen):
            self._apply(action)

    def _apply(self, action: reconcile.Action) -> None:
        match action:
            case reconcile.GiveUp(reason=reason):
                self.machine.disk.has_ending_note = True
                self.machine.journal.try_move(Secondary.FAILED, reason=reason)
                for script in self.machine.disk.scripts.values():
                    script.end(-9)
                self.machine.pause()
                self.machine.disk.has_ending_note = False
            case reconcile.Start(seen=seen):
                self._launch(seen, revivals=0)
            case reconcile.Revive(seen=seen):
                self._launch(seen, revivals=seen.revivals + 1)

    def _launch(self, seen: SeenHost, *, revivals: int) -> None:
        placed = seen.placed or PlacedHost(nonce=f"nonce of {seen.host}")
        revived = self.machine.now if revivals else None
        self.job.start_supervisor(seen.host, replace(placed, revivals=revivals, revived=revived))

    def _observe(self, attempt: int) -> list[SeenHost]:
        return [self._observe_host(host, attempt) for host in self.job.request.hosts]

    def _observe_host(self, host: str, attempt: int) -> SeenHost:
        job = self.job
        placed = self.machine.disk.placed.get(host)
        revivals, since = (
            reconcile.recent_revivals(placed, self.machine.now) if placed else (0, inf)
        )
        record = self.machine.disk.records.get((host, attempt))
        return SeenHost(
            host=host,
            is_lead=host == job.lead,
            attempt=attempt,
            poll=self._poll(host),
            placed=placed,
            revivals=revivals,
            seconds_since_revival=since,
            script_lives=job.script_lives(host),
            has_ended=record is not None and record.phase is Phase.ENDED,
        )

    def _poll(self, host: str) -> Poll | None:
        words = self.job.words.get(host)
        handle = self.job.handles.get(host) if host in self.machine.disk.handles else None
        if any(each is not None and each.is_alive for each in (words, handle)):
            return Running()
        return Exited(None) if words or handle else None


class Stopper(Process):
    """Somebody asks the job to stop, as `Jobs.stop` does, once it is that far or has ended."""

    def __init__(self, job: Job, at: Secondary | Phase | None = None) -> None:
        super().__init__(job.machine)
        self.job = job
        self._at = at

    def _is_time(self) -> bool:
        history = self.machine.journal.read()
        if isinstance(self._at, Phase):
            records = self.job.records(history.attempt).values()
            return all(record.phase is self._at for record in records)
        return self._at in (None, history.state.secondary)

    def tick(self) -> None:
        journal = self.machine.journal
        if not self._is_time() and not journal.read().state.is_final:
            return
        if journal.read().state.is_queued:
            journal.try_move(Secondary.STOPPED, only_from=Secondary.PENDING)
        state = journal.read().state
        if not state.is_final:
            state = journal.try_move(Secondary.STOPPING).state
        require(
            state.is_final or state.status is Status.STOPPING,
            f"a stop is lost: whoever asked was told that the job is {state.secondary}",
        )
        self.job.num_stops += 1
        self.leave()
