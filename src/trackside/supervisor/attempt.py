"""One host's part in one attempt: prepare, start with the others, watch, end, and record it all.

Every step is recorded on disk, so that a supervisor that takes over continues where the last one
died.
"""

import logging
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from trackside.coordination.choose import coordination_of
from trackside.coordination.coordination import Why
from trackside.errors import (
    DiskFull,
    ImageError,
    SandboxError,
    StoreUnreachable,
    TracksideError,
    TransferStopped,
)
from trackside.files import disk_space, durable
from trackside.files.permissions import user_umask
from trackside.records import hosts
from trackside.records.death import Evidence, cause_of
from trackside.records.group import read_group
from trackside.records.hosts import HostRecord, Phase
from trackside.records.job_updates import with_updates
from trackside.records.journal import History
from trackside.records.layout import HostFolder, sandbox_nonce
from trackside.records.spec import JobSpec
from trackside.records.status import Secondary
from trackside.supervisor.attached_sandbox import MESSAGES, AttachedSandbox
from trackside.supervisor.config_files import (
    lay_out,
    write_profiler_config,
)
from trackside.supervisor.context import Context
from trackside.supervisor.evaluator_watchdog import EvaluatorWatchdog
from trackside.supervisor.folder_scan import scan
from trackside.supervisor.gang import Gang
from trackside.supervisor.host_report import LAG_SECONDS, HostReport, capture_problem
from trackside.supervisor.host_requests import fulfil
from trackside.supervisor.inputs import Inputs, Meter
from trackside.supervisor.outcome import (
    are_over,
    failed_peer,
    must_end,
    why_end,
)
from trackside.supervisor.peer_watchdog import PeerWatchdog
from trackside.supervisor.poll_interval import QUICK_SECONDS, TICK_SECONDS, PollInterval
from trackside.supervisor.process_sandbox import ProcessSandbox
from trackside.supervisor.sandbox import (
    Exited,
    Lost,
    Running,
    Sandbox,
    SandboxPlan,
    Termination,
)
from trackside.supervisor.script_start import ScriptLimits, script_environment, toolkit_command
from trackside.supervisor.user_folders import UserFolders, user_folders
from trackside.supervisor.working_folder import take_baseline

if TYPE_CHECKING:
    from trackside.containers.images import Pull
    from trackside.supervisor.container_job import JobContainer
    from trackside.supervisor.machine import MachineSampler
    from trackside.supervisor.syncer import Syncer

logger = logging.getLogger(__name__)

LEAD_SECONDS = 0.2
"""How often the lead checks the other hosts."""
POLL_SECONDS = 30.0
"""How often the sandbox is polled without a sign that its script has ended."""
STORE_SECONDS = 2.0
"""Between two tries of a store that did not respond before the script's start, besides its own
retries."""
OWN_SHARE = 0.01
"""Share of a full disk below which a job's own data did not fill it."""


class Attempt:
    def __init__(self, context: Context, number: int, *, lag_seconds: float = LAG_SECONDS) -> None:
        self.context = context
        self.number = number
        self.folder: HostFolder = context.folder.host(context.host, number)
        self.coordination = coordination_of(
            context.folder, context.spec, context.host, number, context.settings
        )
        self.gang = Gang(self.coordination)
        self.record = hosts.read(self.folder.record) or HostRecord()
        self._report = HostReport(context, self.coordination, self.record, lag_seconds)
        self._container = self._job_container()
        self._sandbox = self._choose_sandbox()
        self._inputs = Inputs(context.spec, context.host, self.folder, context.settings.home)
        nonce = sandbox_nonce(context.nonce, number)
        self._limits = self._container or ScriptLimits(context.spec.options, self.folder, nonce)
        self._another: UserFolders | None = None
        """Set before the start of a script that runs as another user."""
        self.peers = PeerWatchdog(context, self.coordination)
        self.rules = EvaluatorWatchdog(context, is_lead=self.coordination.is_lead)
        self._syncer: Syncer | None = None
        self._journal_name = os.fspath(context.folder.journal)
        self._journal_read: tuple[tuple[int, int], History] | None = None
        self._led_at = self._pulled_at = 0.0
        self._amended_by: History | None = None
        self._has_packages = False
        """The journal as it was when it was last checked for changes of the job."""
        self._is_disk_full = False

    def _job_container(self) -> "JobContainer | None":
        if not self.context.spec.is_container:
            return None
        from trackside.supervisor.apptainer_job import ApptainerJob, program_for  # few jobs need it
        from trackside.supervisor.container_job import JobContainer

        if program := program_for(self.context, self.folder):
            return ApptainerJob(self.context, self.folder, self.number, program)
        return JobContainer(self.context, self.folder, self.number)

    def _choose_sandbox(self) -> Sandbox:
        if self.context.spec.is_attached:
            return AttachedSandbox(self.folder)
        if self._container is not None:
            return self._container.sandbox
        return ProcessSandbox(self.context.settings.isolation)

    def run(self) -> HostRecord:
        """Take this host to `ended`. Errors are in the record; only a disk that takes no record is
        raised, once there is a script: then call this again later.
        """
        if self.record.phase is Phase.ENDED:
            return self.record
        try:
            # A script that runs already is watched to its end, though the job was stopped before.
            if self._adopt() or self._prepare_with_space() or self.context.spec.is_attached:
                self._start()
                self._watch()
        except TransferStopped:
            logger.info("host %s was stopped while it was preparing", self.context.host)
        except (TracksideError, OSError) as error:
            if disk_space.takes_nothing(error) and self._sandbox.poll(self._plan()) is not None:
                raise  # the script runs or its end is recorded: both survive a full disk
            logger.exception("host %s", self.context.host)
            self._fail(error)
        self.kill()
        self._limits.end()
        if why := self.coordination.is_over():
            self.leave(why)
        else:
            self._end()
        return self.record

    def kill(self) -> None:
        """No process of the script survives."""
        self._sandbox.signal(self._plan(), signal.SIGKILL)

    # Preparing

    def _adopt(self) -> bool:
        """Whether an earlier supervisor has started the script; its pipes are restarted."""
        state = self._sandbox.poll(self._plan())
        if isinstance(state, Running):
            self._inputs.resume()
        return state is not None

    def _prepare_with_space(self) -> bool:
        """A disk that others have filled delays the start, and fails it at the deadline."""
        deadline = time.monotonic() + self.context.settings.upload_deadline_seconds
        while True:
            try:
                return self._prepare()
            except (DiskFull, OSError) as error:
                if not self._may_wait_for_space(error) or time.monotonic() > deadline:
                    raise
                self._inputs.close()
                logger.warning("the start waits: %s", error)
                if self.coordination.is_lead:
                    self.context.say(f"Waiting for space on the disk: {error}")
            self._rest(STORE_SECONDS)

    def _may_wait_for_space(self, error: Exception) -> bool:
        """Not when it is the job's own data that does not fit."""
        if not isinstance(error, DiskFull) and not disk_space.is_full(error):
            return False
        space = disk_space.space_of(self.folder.root)
        used = sum(file.size for _, file in scan(self.folder.root, {}))
        return space is not None and used < OWN_SHARE * space.size_bytes

    def _prepare(self) -> bool:
        """Everything before the script. False when the job ended meanwhile."""
        self._move(Secondary.DOWNLOADING)
        self._report.write(Phase.PREPARING)
        self._another = user_folders(self._history(), self.folder, self.context.settings.layout)
        if self._another is not None:
            self._sandbox.check_user(self._another.user)
            if self.context.spec.options.in_place is not None:
                raise SandboxError(
                    f"The script is to run as {self._another.user}, and in a folder of its "
                    "submitter's. Leave --in-place away, or TRACKSIDE_RUN_AS."
                )
        if self._container is not None:
            self.record.image = self._container.decide(self._note_pull)
            self._sandbox = self._choose_sandbox()
        lay_out(self.folder, self.context.spec, self.context.host, self._interface)
        for note in self._provide():
            self._log(note)
        if self._another is not None:
            self._another.make()
        if self._container is not None:
            self._container.make()
        spec = self.context.spec
        if not spec.is_attached:  # which runs in a folder of its own
            take_baseline(
                self.folder.working_folder(spec.options.in_place),
                self.folder.baseline,
                in_place=spec.options.in_place is not None,
            )
        self._report.write(Phase.READY)
        return self._wait_for_all()

    def _note_pull(self, pull: "Pull") -> None:
        """Reports how far an image is; `TransferStopped` ends the pull."""
        now = time.monotonic()
        if now - self._pulled_at < QUICK_SECONDS:
            return
        self._pulled_at = now
        if self.is_set():
            raise TransferStopped("the job is being stopped")
        progress = self.record.progress
        progress.what = f"image {pull.name}"
        progress.num_files = len(pull.layers)
        progress.done_files = sum(layer.is_done for layer in pull.layers.values())
        progress.size_bytes, progress.done_bytes = pull.size_bytes, pull.done_bytes
        self._report.progress()

    def _provide(self) -> list[str]:
        """Provide what the script needs; returns notes for its user.

        A store that does not respond for a while delays the start, and fails it at the deadline.
        """
        meter = Meter(self.record.progress, self._report.progress)
        can_mount = not self.context.spec.inputs or self._sandbox.isolation.can_mount
        deadline = time.monotonic() + self.context.settings.upload_deadline_seconds
        while True:
            try:
                return self._inputs.provide(
                    meter, stop=self, can_mount=can_mount, can_show=self._can_show
                )
            except StoreUnreachable as error:
                self._inputs.close()  # what pipes were fed so far is fed from the beginning
                if time.monotonic() + STORE_SECONDS > deadline:
                    raise
                logger.warning("the start waits: %s", error)
                self._report.waiting_for_store(error)
            self._rest(STORE_SECONDS)

    def _rest(self, seconds: float) -> None:
        """`TransferStopped` as soon as there is nothing left to wait for."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.is_set():
                raise TransferStopped("the job is being stopped")
            time.sleep(QUICK_SECONDS)

    def _can_show(self, folder: Path) -> bool:
        """Whether the script will be able to read this folder of ours in place."""
        if self._container is not None and not self._container.shows_files_of_ours:
            return False
        return self._another is None or self._sandbox.can_map(folder, self._another.user)

    def _wait_for_all(self) -> bool:
        """Hosts start together, when the lead writes so in the journal."""
        while not self.is_set():
            if self.coordination.is_lead and self.gang.all_are(Phase.READY, Phase.RUNNING):
                self.gang.meet()
                self._move(Secondary.TRAINING)
            if self._history().state.secondary is Secondary.TRAINING:
                return True
            time.sleep(QUICK_SECONDS)
        return False

    def _start(self) -> None:
        """Start the script; or, when it runs already, become the supervisor that it knows."""
        self.record.limits = self._limits.begin()
        plan = self._plan()
        self._sandbox.start(plan)
        self._make_durable()
        isolation = self._sandbox.isolation_of(plan)
        if isolation and isolation.kind != self.record.isolation:
            self.record.isolation = isolation.kind
        if self.record.phase is not Phase.UPLOADING:  # an earlier supervisor recorded its end
            self._report.write(Phase.RUNNING)

    def _make_durable(self) -> None:
        """Make durable what was written without a sync before the start."""
        with self._unless_disk_full():
            self.coordination.make_durable()
            if self.folder.baseline.exists():
                durable.make_last(self.folder.baseline)

    # Watching

    def _watch(self) -> None:
        """Until the script is over: sync its folders, sample its machine, follow the journal."""
        # Imported here: the start of the script need not wait for it.
        from trackside.supervisor.host_syncs import make_syncer

        self._syncer = make_syncer(
            self.context.spec,
            self.folder,
            self.context.host,
            self.number,
            self.context.settings,
            self._log_at_end,
            lambda: self._sandbox.root_pid(self._plan()),
        )
        self._syncer.start()
        self.rules.tick()
        sampler = self._sampler()
        with sampler or nullcontext(), self._recorded():
            state, was_requested = self._watch_to_end(sampler)
        from trackside.supervisor.failure_reasons import record_end  # likewise

        record_end(
            self.context, self.folder, self.record, state, self._limits.exceeded, was_requested
        )

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        """Record what the script runs on and reads, while it does."""
        from trackside.supervisor.config_files import keep_machine  # likewise

        with self._unless_disk_full():
            keep_machine(self.folder, self.context.host)
        if not self.context.spec.inputs:
            yield
            return
        from trackside.supervisor.data_lists import DataLists  # likewise

        spec, home, copied = self.context.spec, self.context.settings.home, self._inputs.copied
        with DataLists(spec, self.context.host, self.folder, home, copied):
            yield

    def _sampler(self) -> "MachineSampler | None":
        from trackside.supervisor.machine import make_sampler  # likewise
        from trackside.supervisor.machine_reading import MachineReader

        make_reader = MachineReader if self._container is None else self._container.make_reader
        return make_sampler(
            self.context.spec,
            self.folder,
            self.context.host,
            self._sandbox.root_pid(self._plan()),
            self.gang.running_seconds(),
            make_reader,
        )

    def _watch_to_end(self, sampler: "MachineSampler | None") -> tuple[Exited | Lost, bool]:
        """How the script ended, and whether it was requested to."""
        from trackside.supervisor.logs import LogClock  # likewise

        assert self._syncer is not None
        plan = self._plan()
        clock = LogClock(self.folder.log, self.folder.log_times)
        termination = Termination(self._sandbox, plan, self.context.spec.options.grace_seconds)
        chores_at = time.monotonic()
        interval = PollInterval(chores_at)
        while not isinstance(state := self._sandbox.poll(plan), Exited | Lost):
            until = time.monotonic() + POLL_SECONDS
            while (now := time.monotonic()) < until:
                self._take_requests()  # before the end: a rule may ask for both
                if termination.was_requested or self.is_set():
                    termination.request(now)
                    termination.tick(now)
                    interval.moved(now)
                with self._unless_disk_full():
                    if clock.tick():
                        interval.moved(now)
                        self._syncer.wake()
                is_changed = self._history() is not self._amended_by
                if is_changed or now - chores_at >= interval.chore_pause(now):
                    chores_at = now
                    self._do_chores(sampler)
                if self._wait_for_activity(plan, interval, now):
                    break
        with self._unless_disk_full():
            clock.tick()
            self._take_amendments(sampler)  # a short script may have added rules before its end
        self._take_notice()
        # An earlier supervisor may have requested it.
        return state, termination.was_requested or self.is_set()

    def _wait_for_activity(self, plan: SandboxPlan, interval: PollInterval, now: float) -> bool:
        """Wait until there may be something to do. Whether the script may have ended."""
        wake = self.context.wake
        pause = interval.pause(now, is_woken=wake is not None and self._is_always_woken)
        limit = self.context.spec.stopping.max_runtime_seconds
        if pause > TICK_SECONDS and limit is not None:
            pause = min(pause, max(TICK_SECONDS, limit - self._runtime_seconds()))
        if wake is None:
            return self._sandbox.wait(plan, pause)
        has_ended = self._sandbox.wait(plan, pause, wake.descriptor)
        wake.take()
        return has_ended

    @property
    def _is_always_woken(self) -> bool:
        """Whether nothing must be polled: other hosts, an evaluator, pipes, or the output of a
        script without an init of ours."""
        is_alone = len(self.coordination.hosts) == 1 and not self.context.spec.is_attached
        return is_alone and not self.rules.is_on and not self._inputs.is_fed

    def _take_requests(self) -> None:
        with self._unless_disk_full():
            for request in self.coordination.requests():
                fulfil(request, self.context.spec, self.folder)

    def _do_chores(self, sampler: "MachineSampler | None") -> None:
        self._check_inputs()
        with self._unless_disk_full():
            self._has_packages = self._has_packages or self._keep_packages()
            self._take_amendments(sampler)
            self.rules.tick()
            self._report_syncs()

    def _keep_packages(self) -> bool:
        """The toolkit lists them once the script runs; again at its end, if they changed."""
        from trackside.supervisor.config_files import keep_packages  # likewise

        return keep_packages(self.folder, self.context.host)

    def _take_amendments(self, sampler: "MachineSampler | None") -> None:
        """The profiler may be changed, and rules be added, while the script runs."""
        history = self._history()
        if history is self._amended_by:
            return
        self._amended_by = history
        spec = with_updates(self.context.spec, history).spec
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
        from trackside.supervisor.host_syncs import folders_since  # likewise

        assert self._syncer is not None
        known = [part.name for part in self._syncer.parts]
        for part in folders_since(spec, self.folder, self.context.settings, known):
            self._syncer.add(part)

    @contextmanager
    def _unless_disk_full(self) -> Iterator[None]:
        """A report that cannot be written must not end a script that trains."""
        try:
            yield
        except OSError as error:
            if not self._is_disk_full:
                logger.warning("not recorded: %s", error)
            self._is_disk_full = True
        else:
            self._is_disk_full = False

    def _check_inputs(self) -> None:
        """A pipe whose source failed would block the script for ever."""
        try:
            self._inputs.check()
        except TracksideError as error:
            if not self.record.failure:
                self._fail(error)
                self.coordination.order_end(Why.HOST_FAILED, self.context.host)

    def check_gang(self) -> None:
        """What only the lead checks, in all phases: the other hosts, the time limit."""
        now = time.monotonic()
        if (
            not self.coordination.is_lead
            or now - self._led_at < LEAD_SECONDS
            or self.coordination.ordered_end()
        ):
            return
        self._led_at = now
        is_alone = len(self.coordination.hosts) == 1
        records = {self.context.host: self.record} if is_alone else self.coordination.records()
        order = self._noticed() or why_end(
            records,
            [] if is_alone or failed_peer(records) else self.peers.check(),
            runtime_seconds=self._runtime_seconds(),
            max_runtime_seconds=self.context.spec.stopping.max_runtime_seconds,
        )
        if order is not None:
            self.coordination.order_end(*order)
        elif not are_over(records):
            self.gang.stamp()

    def _noticed(self) -> tuple[Why, str] | None:
        notice = self.context.notice
        if notice is None or notice.why is None:
            return None
        return notice.why, notice.host or self.context.host

    def _take_notice(self) -> None:
        """An engine asks the script itself, too, which may have ended before we looked."""
        noticed = self._noticed()
        if noticed and self.coordination.is_lead and not self.coordination.ordered_end():
            self.coordination.order_end(*noticed)

    def _runtime_seconds(self) -> float:
        """The limit covers all attempts together."""
        return self._history().earlier_seconds + self.gang.running_seconds()

    def _report_syncs(self) -> None:
        assert self._syncer is not None
        self._report.syncs(self._syncer.states(), self._capture_problem(), self._history)

    # Ending

    def _fail(self, error: Exception) -> None:
        self.record.note_end()
        code = error.code if isinstance(error, TracksideError) else ""
        seen = Evidence(error=code, is_disk_full=disk_space.takes_nothing(error))
        self.record.cause = cause_of(seen)
        self.record.failure = f"{_category(error)}: {error}"

    def _end(self) -> None:
        """Upload the rest, free the input's space, and record that this host has ended."""
        self._inputs.close()
        self._report.write(Phase.UPLOADING)
        if self._syncer is not None:
            deadline = time.monotonic() + self.context.settings.upload_deadline_seconds
            code = self.record.exit_code
            error = self._syncer.finish(
                deadline,
                self._report_waiting,
                self.tick_while_uploading,
                was_killed=code is None or code < 0,
            )
            self.record.syncs = self._syncer.states()
            self.record.capture = self._capture_problem()
            if error:
                self.record.unsent = error
        if error := self._upload_part():
            self.record.unsent = error
        self._report.write(Phase.ENDED)
        self.rules.wake()

    def leave(self, why: str) -> None:
        """The job goes on without this host, or has ended: what it has stays where it is, and
        nothing of it is published any more."""
        self._inputs.close()
        message = f"{self.context.host} has left the job: {why}"
        logger.error("%s Its files are kept in %s", message, self.folder.root)
        self._log_at_end(message)

    def _upload_part(self) -> str:
        """What the lead merges, if it is on another machine. Returns why that failed, or ''."""
        if self.coordination.is_lead or read_group(self.context.folder) is None:
            return ""
        from trackside.supervisor.publish import upload_part  # packing: not needed at the start

        deadline = time.monotonic() + self.context.settings.upload_deadline_seconds
        return upload_part(self.context, self.number, deadline, self._report.waiting_for_store)

    def tick_while_uploading(self) -> None:
        """What the lead does while it waits for uploads, its own or other hosts'."""
        if not self.coordination.is_lead:
            return
        with self._unless_disk_full():
            self.check_gang()
            self.rules.tick()
            history = self._history()
            if history.state.secondary is Secondary.UPLOADING:
                return
            is_over = self.gang.all_are(Phase.UPLOADING, Phase.ENDED)
            if is_over and history.has_trained(self.number):
                self._move(Secondary.UPLOADING)

    def _capture_problem(self) -> str:
        hook = self.context.spec.debug_hook
        if hook is None:
            return ""
        return capture_problem(self.folder.script_folder(self.folder.inside(hook.local_path)))

    def _report_waiting(self, error: str) -> None:
        assert self._syncer is not None
        with self._unless_disk_full():
            self.record.syncs = self._syncer.states()
            self._report.write()
        self._report.waiting_for_store(error)

    # The journal and the plan

    def is_set(self) -> bool:
        """Whether the script must end: the job is being stopped, or another host failed."""
        with self._unless_disk_full():
            self.check_gang()
        if self._noticed():
            return True
        if must_end(self._history(), self.number, self.coordination.ordered_end()):
            return True
        return bool(self.coordination.is_over())

    def _history(self) -> History:
        """The journal, read again only when it has changed."""
        stat = os.stat(self._journal_name)
        version = (stat.st_size, stat.st_mtime_ns)
        if self._journal_read is None or self._journal_read[0] != version:
            self._journal_read = (version, self.context.journal.read())
        return self._journal_read[1]

    def _move(self, to: Secondary) -> None:
        if self.coordination.is_lead:
            message = MESSAGES.get(to) if self.context.spec.is_attached else None
            self.context.journal.try_move(to, message=message)

    def _log(self, line: str) -> None:
        """Append a line to the job's log. Only before the start: then the sandbox writes it."""
        with self.folder.log.open("ab") as file:
            file.write(f"[trackside] {line}\n".encode())

    def _log_at_end(self, line: str) -> None:
        """The same once the script is over. A full disk must not fail the job for it."""
        from trackside.supervisor.logs import add_line  # likewise

        with suppress(OSError):
            add_line(self.folder.log, self.folder.log_times, f"[trackside] {line}")

    @property
    def _interface(self) -> str:
        container = self._container
        return self.context.group.interface if container is None else container.interface

    def _plan(self) -> SandboxPlan:
        context = self.context
        another = self._another
        user = None if another is None else another.user
        if self._container is not None:
            hosts_of_job = self._container.addresses
            command = self._container.command
            environment = self._container.environment(self.gang.master_port, user)
            mounts = self._container.mounts | self._inputs.mounts
            read_only = self._container.read_only | self._inputs.read_only
        else:
            hosts_of_job = context.group.addresses
            command = toolkit_command(context.spec, context.settings)
            environment = script_environment(context, self.folder, self.gang.master_port)
            mounts, read_only = dict(self._inputs.mounts), self._inputs.read_only
            if another is not None:
                environment = {**another.environment(environment), **context.spec.environment}
                # A job may name /tmp for its checkpoints.
                mounts = another.mounts(command[0]) | mounts
        return SandboxPlan(
            folder=self.folder.sandbox,
            ml=self.folder.ml,
            mounts=mounts,
            read_only=read_only,
            command=command,
            environment=environment,
            user=user,
            mapped=self._inputs.of_bucket,
            umask=user_umask(),
            log=self.folder.log,
            log_variable="TRACKSIDE_LOG_FD",
            notes=self._sandbox.notes,
            host=context.host,
            addresses=hosts_of_job,
            nonce=sandbox_nonce(context.nonce, self.number),
            groups=self._limits.folders,
            revive=context.supervisor_command,
        )


def _category(error: Exception) -> str:
    """As FailureReason begins."""
    if isinstance(error, SandboxError):
        return "InternalServerError"
    what = "Image pull" if isinstance(error, ImageError) else "Data download"
    return f"ClientError: {what} failed"
