"""One host's part in one attempt: prepare, start with the others, watch, end, and record it all.

Every step leaves its mark on disk, so a supervisor that takes over goes on where the last one died.
"""

import logging
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from trackside import damage, durable, hosts
from trackside.amended import amended
from trackside.errors import SandboxError, TracksideError, TransferStopped
from trackside.hosts import HostRecord, Phase
from trackside.journal import History
from trackside.layout import HostFolder, sandbox_nonce
from trackside.spec import JobSpec
from trackside.status import Secondary, Status
from trackside.supervisor.config_files import failure_file, lay_out, write_profiler_config
from trackside.supervisor.context import Context
from trackside.supervisor.gang import Gang, Why, addresses, interface_name
from trackside.supervisor.inputs import Inputs, Meter
from trackside.supervisor.lag import LAG_SECONDS, LAGGING, lag_message
from trackside.supervisor.logs import LogClock
from trackside.supervisor.outcome import algorithm_error
from trackside.supervisor.process_sandbox import ProcessSandbox
from trackside.supervisor.rule_watch import RuleWatch
from trackside.supervisor.sandbox import Exited, Lost, Running, SandboxPlan
from trackside.supervisor.script_start import script_environment, toolkit_command

if TYPE_CHECKING:
    from trackside.supervisor.machine import MachineSampler
    from trackside.supervisor.sync import Syncer

logger = logging.getLogger(__name__)

QUICK_SECONDS, TICK_SECONDS = 0.02, 0.1
LEAD_SECONDS = 0.2
"""How often the lead looks at the other hosts."""
TAIL_BYTES = 8192
_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT}
"""Signals that, when we did not send them, mean that the machine or a person ended the script."""


class Attempt:
    def __init__(self, context: Context, number: int, *, lag_seconds: float = LAG_SECONDS) -> None:
        self.context = context
        self._lag_seconds = lag_seconds
        self.number = number
        self.folder: HostFolder = context.folder.host(context.host, number)
        self.gang = Gang(context.folder, context.spec, context.host, number)
        self.record = hosts.read(self.folder.record) or HostRecord()
        self._sandbox = ProcessSandbox(context.settings.isolation)
        self._inputs = Inputs(context.spec, context.host, self.folder, context.settings.home)
        self.rules = RuleWatch(context, is_lead=self.gang.is_lead)
        self._syncer: Syncer | None = None
        self._journal_look: tuple[tuple[int, int], History] | None = None
        self._led_at = 0.0
        self._is_mute = False

    def run(self) -> HostRecord:
        """Bring this host to `ended`. What goes wrong is in the record, never raised."""
        if self.record.phase is Phase.ENDED:
            return self.record
        try:
            if self._adopt() or self._prepare():
                self._start()
                self._watch()
        except TransferStopped:
            logger.info("host %s was told to end while it was preparing", self.context.host)
        except (TracksideError, OSError) as error:
            logger.exception("host %s", self.context.host)
            self._fail(error)
        self.kill()
        self._end()
        return self.record

    def kill(self) -> None:
        """Nothing of the script lives on."""
        self._sandbox.signal(self._plan(), signal.SIGKILL)

    # Preparing

    def _adopt(self) -> bool:
        """Whether an earlier supervisor has started the script; what died with it is made good."""
        state = self._sandbox.poll(self._plan())
        if isinstance(state, Running):
            self._inputs.resume(Meter(self.record.progress, self._reannounce), stop=self)
        return state is not None

    def _prepare(self) -> bool:
        """Everything before the script. False when the job ended meanwhile."""
        self._move(Secondary.DOWNLOADING)
        self._announce(Phase.PREPARING)
        lay_out(self.folder, self.context.spec, self.context.host, interface_name())
        meter = Meter(self.record.progress, self._announce_progress)
        can_mount = not self.context.spec.inputs or self._sandbox.isolation.kind != "none"
        notes = self._inputs.provide(meter, stop=self, can_mount=can_mount)
        for note in notes:
            self._tell(note)
        self._announce(Phase.READY)
        if self.gang.is_lead:
            self.gang.meet()
        return self._wait_for_all()

    def _wait_for_all(self) -> bool:
        """Hosts start together: the lead says when, by the journal."""
        while not self.is_set():
            if self.gang.is_lead and self.gang.all_are(Phase.READY, Phase.RUNNING):
                self._move(Secondary.TRAINING)
            if self._history().state.secondary is Secondary.TRAINING:
                return True
            time.sleep(QUICK_SECONDS)
        return False

    def _start(self) -> None:
        """Start the script; or, when it runs already, become the supervisor that it knows."""
        plan = self._plan()
        self._sandbox.start(plan)
        isolation = self._sandbox.isolation_of(plan)
        if isolation and isolation.kind != self.record.isolation:
            self.record.isolation = isolation.kind
            if isolation.kind == "none":
                self._tell(isolation.reason)
        self._announce(Phase.RUNNING)

    # Watching

    def _watch(self) -> None:
        """Until the script is over: its folders, its machine, its log's times, its orders."""
        # Here, with the script on its way: it need not wait for what is only needed now.
        from trackside.supervisor.sync import make_syncer

        self._syncer = make_syncer(
            self.context.spec, self.folder, self.context.host, self.number, self.context.settings
        )
        self._syncer.start()
        self.rules.tick()
        sampler = self._sampler()
        with sampler or nullcontext():
            state, was_asked = self._see_out(sampler)
        self._record_exit(state, was_asked)

    def _sampler(self) -> "MachineSampler | None":
        from trackside.supervisor.machine import make_sampler  # likewise

        pid = self._sandbox.root_pid(self._plan())
        seconds = self.gang.running_seconds()
        return make_sampler(self.context.spec, self.folder, self.context.host, pid, seconds)

    def _see_out(self, sampler: "MachineSampler | None") -> tuple[Exited | Lost, bool]:
        """How the script ended, and whether it was asked to."""
        clock = LogClock(self.folder.log, self.folder.log_times)
        began = announced = time.monotonic()
        asked: float | None = None
        killed = False
        while not isinstance(state := self._sandbox.poll(self._plan()), Exited | Lost):
            now = time.monotonic()
            if asked is None and self.is_set():
                asked = now
                self._sandbox.signal(self._plan(), signal.SIGTERM)
            if asked is not None and not killed:
                killed = now - asked >= self.context.spec.options.grace_seconds
                if killed:
                    self._sandbox.signal(self._plan(), signal.SIGKILL)
            with self._unless_disk_full():
                clock.tick()
            if now - announced >= 1.0:
                announced = now
                self._check_inputs()
                with self._unless_disk_full():
                    self._take_amendments(sampler)
                    self.rules.tick()
                    self._announce_syncs()
            time.sleep(QUICK_SECONDS if now - began < 2.0 else TICK_SECONDS)
        with self._unless_disk_full():
            clock.tick()
        # An earlier supervisor may have been the one who asked.
        return state, asked is not None or self.is_set()

    def _take_amendments(self, sampler: "MachineSampler | None") -> None:
        """The profiler may be changed, and rules be added, while the script runs."""
        spec = amended(self.context.spec, self._history()).spec
        if spec == self.context.spec:
            return
        self.context = replace(self.context, spec=spec)
        self.rules.follow(spec)
        if spec.profiler is not None:
            write_profiler_config(self.folder, spec.profiler)
        if sampler is not None:
            sampler.retune(spec.profiler)
        self._sync_more(spec)

    def _sync_more(self, spec: JobSpec) -> None:
        from trackside.supervisor.sync import folders_since  # likewise

        assert self._syncer is not None
        known = [part.name for part in self._syncer.parts]
        for part in folders_since(spec, self.folder, self.context.settings, known):
            self._syncer.add(part)

    @contextmanager
    def _unless_disk_full(self) -> Iterator[None]:
        """What is only told to others must not end a script that trains."""
        try:
            yield
        except OSError as error:
            if not self._is_mute:
                logger.warning("not recorded: %s", error)
            self._is_mute = True
        else:
            self._is_mute = False

    def _check_inputs(self) -> None:
        """A pipe whose source failed would keep the script waiting for ever."""
        try:
            self._inputs.check()
        except TracksideError as error:
            if not self.record.failure:
                self._fail(error)
                self.gang.end(Why.HOST_FAILED, self.context.host)

    def lead_on(self) -> None:
        """What only the lead watches, whatever else it does: the other hosts, the time limit."""
        now = time.monotonic()
        if not self.gang.is_lead or now - self._led_at < LEAD_SECONDS or self.gang.ordered_end():
            return
        self._led_at = now
        if len(self.gang.hosts) > 1:
            for host, record in self.gang.records().items():
                if record.phase is Phase.ENDED and record.went_wrong:
                    return self.gang.end(Why.HOST_FAILED, host)
            if lost := self.gang.lost_hosts():
                return self.gang.end(Why.HOST_LOST, lost[0])
        if self._runtime_seconds() > self.context.spec.stopping.max_runtime_seconds:
            self.gang.end(Why.MAX_RUNTIME, self.context.host)

    def _runtime_seconds(self) -> float:
        """The limit covers all attempts together."""
        earlier = sum(
            (transition.end or transition.start) - transition.start
            for transition in self._history().transitions
            if transition.secondary is Secondary.TRAINING and transition.attempt < self.number
        )
        return earlier + self.gang.running_seconds()

    def _announce_syncs(self) -> None:
        assert self._syncer is not None
        self.record.syncs = self._syncer.states()
        self.record.capture = self._capture_problem()
        self._announce(self.record.phase)
        if not self.gang.is_lead:
            return
        said = self._history().message
        lag, why = lag_message(self.gang.records(), after_seconds=self._lag_seconds)
        if lag and not said.startswith(lag):
            self.context.say(lag + why)
        elif not lag and said.startswith(LAGGING):
            self.context.say("Training in progress. Sync has caught up.")

    # Ending

    def _record_exit(self, state: Exited | Lost, was_asked: bool) -> None:
        record = self.record
        record.ended_at = time.time()
        if isinstance(state, Lost):
            record.lost = f"the script and its sandbox are gone: {state.reason}"
            return
        code = record.exit_code = self._script_code(state.code)
        if code == 0 and state.code == 0:
            return
        if was_asked:
            return  # it was told to end: how it did is no failure of its own
        record.tail = self._log_tail()
        if state.out_of_memory:
            text = "OutOfMemory: the kernel killed a process of the script. " + self._failure_text()
            record.failure = algorithm_error(text, code)
            return
        record.failure = algorithm_error(self._failure_text(), code or state.code)
        ended_by = -code if code < 0 else code - 128 if code > 128 else 0
        if ended_by in _OUTSIDE:
            record.lost = f"the script was ended by {signal.Signals(ended_by).name} from outside"

    def _script_code(self, code: int) -> int:
        """The script's own code; the toolkit's, which stands for it, when the script never ran."""
        script = damage.read_object(self.folder.exit_record) or {}
        number, own = script.get("signal"), script.get("exit_code")
        if isinstance(number, int) and 0 < number < 128:
            return -number
        return own if isinstance(own, int) and abs(own) < 1 << 31 else code

    def _failure_text(self) -> str:
        try:
            with failure_file(self.folder).open("rb") as file:
                text = file.read(4096).decode(errors="replace")
        except OSError:
            text = ""
        if text or shutil.disk_usage(self.folder.root).free > durable.BALLAST_BYTES:
            return text
        # The script could not even write its traceback.
        home = self.context.settings.home
        return (
            f"No space left on device: the disk of {str(home)!r} is full. Free some space, or set "
            "TRACKSIDE_HOME to a folder on a larger disk"
        )

    def _log_tail(self) -> str:
        try:
            with self.folder.log.open("rb") as file:
                file.seek(max(0, file.seek(0, 2) - TAIL_BYTES))
                lines = file.read().decode(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-20:])

    def _fail(self, error: Exception) -> None:
        self.record.ended_at = time.time()
        ours = isinstance(error, SandboxError)
        category = "InternalServerError" if ours else "ClientError: Data download failed"
        self.record.failure = f"{category}: {error}"

    def _end(self) -> None:
        """Send the rest, give the input's space back, and say that this host is done."""
        self._inputs.close()
        if self._syncer is not None:
            deadline = time.monotonic() + self.context.settings.upload_deadline_seconds
            error = self._syncer.finish(deadline, self._announce_waiting)
            self.record.syncs = self._syncer.states()
            self.record.capture = self._capture_problem()
            if error:
                self.record.unsent = error
        self._announce(Phase.ENDED)

    def _capture_problem(self) -> str:
        """The first thing the hook reported; it reports each kind once and goes on."""
        hook = self.context.spec.debug_hook
        marker = hook and self.folder.inside(hook.local_path) / "capture-errors.json"
        problems = damage.read_object(marker) if marker else None  # the script can write there
        match problems:
            case {"errors": [{"where": where, "message": message, "count": count}, *_]}:
                return f"{where}: {message} ({count} times)"
        return ""

    def _announce_waiting(self, error: str) -> None:
        assert self._syncer is not None
        with self._unless_disk_full():
            self.record.syncs = self._syncer.states()
            self._reannounce()
        if self.gang.is_lead:
            self.context.say(f"Waiting for the object store: {error}")

    # What the others see, and what we see of them

    def is_set(self) -> bool:
        """Whether the script must end: the job is being stopped, or another host failed."""
        with self._unless_disk_full():
            self.lead_on()
        history = self._history()
        over = history.state.status is not Status.IN_PROGRESS or history.attempt != self.number
        return over or self.gang.ordered_end() is not None

    def _history(self) -> History:
        """The journal, read again only when it has changed."""
        stat = self.context.folder.journal.stat()
        look = (stat.st_size, stat.st_mtime_ns)
        if self._journal_look is None or self._journal_look[0] != look:
            self._journal_look = (look, self.context.journal.read())
        return self._journal_look[1]

    def _move(self, to: Secondary) -> None:
        if self.gang.is_lead:
            self.context.journal.try_move(to)

    def _announce(self, phase: Phase) -> None:
        self.record.phase = phase
        self.gang.announce(self.record)

    def _reannounce(self) -> None:
        self.gang.announce(self.record)

    def _announce_progress(self) -> None:
        self._reannounce()
        progress = self.record.progress
        if self.gang.is_lead and progress.num_files:
            self.context.say(
                f"{progress.what}: {progress.done_files} of {progress.num_files} files"
            )

    def _tell(self, line: str) -> None:
        """Into the job's log, where people look."""
        with self.folder.log.open("ab") as file:
            file.write(f"[trackside] {line}\n".encode())

    def _plan(self) -> SandboxPlan:
        context = self.context
        hosts_of_job = addresses(context.spec.name, context.spec.hosts)
        return SandboxPlan(
            folder=self.folder.sandbox,
            ml=self.folder.ml,
            mounts=self._inputs.mounts,
            read_only=self._inputs.read_only,
            command=toolkit_command(context.spec, context.settings),
            environment=script_environment(context, self.folder, self.gang.master_port),
            log=self.folder.log,
            host=context.host,
            addresses=hosts_of_job,
            nonce=sandbox_nonce(context.nonce, self.number),
            revive=context.supervisor_command,
        )
