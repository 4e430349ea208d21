"""The container sandbox: a host's script in a container of a Docker engine on this machine.

`container_init.py`, one small process of this machine per container, runs it; the two communicate
only through the sandbox's folder. The container is found by its label, so a later supervisor needs
neither of the earlier processes.
"""

import marshal
import os
import time
from pathlib import Path
from typing import Any

from trackside.containers.engine_client import Engine, EngineError, EngineUnreachable
from trackside.containers.job_containers import MARK_LABEL
from trackside.errors import ContainerRefused, EngineGone, SandboxError
from trackside.records.death import Gone
from trackside.supervisor.container_init import AWAY, PIPE, REFUSED, read_lost
from trackside.supervisor.container_request import (
    HOST_NAME,
    OF_NETWORK,
    ContainerPlan,
    container_request,
    follows_entrypoint,
    labels,
    own_network,
)
from trackside.supervisor.process_sandbox import (
    RESTARTED,
    check_plan,
    declare_intent,
    run_init,
    start_lock,
)
from trackside.supervisor.sandbox import (
    Isolation,
    Lost,
    Running,
    Sandbox,
    SandboxPlan,
    SandboxState,
)
from trackside.supervisor.sandbox_folder import (
    INTENT,
    LOCK,
    Intent,
    has_started,
    is_held,
    read_end,
    read_intent,
    read_start,
    try_lock,
)
from trackside.supervisor.sandbox_records import write_supervisor
from trackside.supervisor.watchdog import is_due
from trackside.system import process_table, processes
from trackside.system.processes import ProcessEnd
from trackside.system.run_as import JobUser

_SIGKILL = 9
_REASON = "A container of the image {!r}: its own files, processes, host name and network."
_SHORT_SECONDS = 0.2
_PROBLEMS = {AWAY: EngineGone, REFUSED: ContainerRefused}


class ContainerSandbox(Sandbox):
    """Starts at most one container for a folder.

    The starter takes an flock on `lock`, init inherits it and holds it until it ends, as in the
    process sandbox. The engine knows a container that is created and not yet started, and its name
    is unique: so an init may be killed at any line. Init writes `process.json` before the start: a
    record without a container means that the container is lost.
    """

    def __init__(self, container: ContainerPlan) -> None:
        self._container = container
        self._engine = Engine(container.engine)
        self._end: ProcessEnd | None = None
        """Of the init of the plan that is waited for."""
        self._pipe: int | None = None
        """Kept open, so that what is in it outlives an init."""
        self._undelivered: list[int] = []
        """Signals that no engine took."""
        self._num_inits = 0
        self._init_at = 0.0

    def start(self, plan: SandboxPlan) -> None:
        """Returns when the container runs, or raises; then SIGKILL removes what may exist of it, in
        case init or the engine was killed at that moment.

        The caller becomes the supervisor that init watches, as in the process sandbox.
        """
        check_plan(plan if plan.command else _with_command(plan))
        folder = plan.folder
        folder.mkdir(parents=True, exist_ok=True)
        me = processes.myself()
        write_supervisor(str(folder), me.pid, me.started)
        with start_lock(folder) as lock:
            if lock is None or _read_over(plan):
                self._hold(plan)
                return
            intent = declare_intent(plan)
            if intent.boot_id != process_table.boot_id():
                return
            said, _, text = self._spawn(plan, intent, lock).partition("\n")
            if said != "started" and not has_started(folder):
                raise _PROBLEMS.get(said, SandboxError)(text or _silent(plan))

    def poll(self, plan: SandboxPlan) -> SandboxState | None:
        """An init that was killed is restarted here: the container has continued meanwhile."""
        if not (plan.folder / INTENT).exists():
            return None
        if end := _read_over(plan):
            self._let_go()
            return end
        if not has_started(plan.folder):
            return None
        intent = read_intent(plan.folder)
        if intent is not None and intent.boot_id != process_table.boot_id():
            return Lost(RESTARTED, Gone.MACHINE)
        self._deliver_again(plan)
        if is_held(plan.folder):
            return Running()
        # Init records the end before it exits: so check once more after it is gone.
        if end := _read_over(plan):
            return end
        if intent is None:
            return Lost("The sandbox's records are damaged, and its init is gone.", Gone.RECORD)
        self._adopt(plan, intent)
        return Running()

    def wait(self, plan: SandboxPlan, seconds: float, wake: int | None = None) -> bool:
        if self._undelivered:
            seconds = min(seconds, _SHORT_SECONDS)
            self._deliver_again(plan)
        if self._end is None:
            start = read_start(plan.folder)
            if start is None or not processes.is_alive(start.init_identity):
                time.sleep(min(seconds, _SHORT_SECONDS))
                return True
            self._end = ProcessEnd(start.init_identity)
        has_ended = self._end.wait(seconds, wake)
        if has_ended:
            self._end.close()
            self._end = None
        return has_ended

    def signal(self, plan: SandboxPlan, number: int) -> None:
        intent = read_intent(plan.folder)
        if intent is None:
            return
        is_of_this_boot = intent.boot_id == process_table.boot_id()
        is_over = not has_started(plan.folder) or not is_of_this_boot or _read_over(plan)
        if is_over and (number != _SIGKILL or not (plan.folder / PIPE).exists()):
            return
        try:
            self._deliver(plan, intent, number, removes=bool(is_over))
        except EngineUnreachable:
            start = read_start(plan.folder)
            if start is None or not start.command.pid:
                self._undelivered.append(number)
            else:
                # The engine's init, which forwards it; when it ends, the kernel ends all others.
                processes.send_signal(start.command_identity, number)
        except EngineError as error:
            raise SandboxError(f"The container of {plan.host!r}: {error}") from error

    @property
    def isolation(self) -> Isolation:
        return Isolation("container", _REASON.format(self._container.image))

    def isolation_of(self, plan: SandboxPlan) -> Isolation | None:
        """What a started sandbox has got; None before start."""
        return self.isolation if has_started(plan.folder) else None

    def root_pid(self, plan: SandboxPlan) -> int | None:
        """The process that all others of the container descend from, if it is on this machine."""
        start = read_start(plan.folder)
        return start.command.pid or None if start is not None else None

    def check_user(self, user: JobUser) -> None:
        """Any user: the engine gives the container's processes these numbers."""

    def can_map(self, folder: Path, user: JobUser) -> bool:
        """A container shows folders with the owners that they have."""
        return os.stat(folder).st_uid == user.uid

    def _spawn(self, plan: SandboxPlan, intent: Intent, lock: int) -> str:
        """Start an init and return its report."""
        folder = plan.folder.resolve()
        pipe = folder / PIPE
        was_held = self._pipe is not None
        if not pipe.exists():
            os.mkfifo(pipe)
            pipe.chmod(0o666)  # the image decides which user writes to it; the folder is ours alone
        self._hold(plan)
        start = read_start(folder)
        root = start.command if start and processes.is_alive(start.command_identity) else None
        message: dict[str, Any] = {
            "folder": str(folder),
            "log": str(plan.log.resolve()),
            "mark": intent.mark,
            "label": _label(intent),
            "labels": labels(plan, self._container, intent.mark),
            "engine": self._container.engine,
            "request": container_request(plan, self._container, intent.mark, str(pipe)),
            "follows_entrypoint": follows_entrypoint(plan, self._container),
            "network": own_network(self._container),
            "network_lock": self._container.network_lock,
            "host_name": HOST_NAME if self._container.host_address == OF_NETWORK else "",
            "is_internal": self._container.is_internal,
            "adopts": has_started(folder),
            "root": root.pid if root else 0,
            "root_since": root.started if root else None,
            "was_held": was_held,
            "revive": list(plan.revive),
            "lock": lock,
        }
        with (folder / "init.log").open("ab") as errors:
            return run_init(
                "container_init",
                intent.mark,
                message=marshal.dumps(message),
                keep=lock,
                errors=errors,
            )

    def _adopt(self, plan: SandboxPlan, intent: Intent) -> None:
        """Start another init for a container that lost its own, unless another process does."""
        now = time.monotonic()
        if not is_due(self._num_inits, now - self._init_at):
            return
        self._num_inits, self._init_at = self._num_inits + 1, now
        descriptor = os.open(plan.folder / LOCK, os.O_RDWR)
        try:
            if try_lock(descriptor) and not _read_over(plan):
                self._spawn(plan, intent, descriptor)
        finally:
            os.close(descriptor)  # init's copy keeps the lock

    def _deliver(
        self, plan: SandboxPlan, intent: Intent, number: int, *, removes: bool = False
    ) -> None:
        container = self._engine.find(_label(intent))
        if container is not None:
            self._engine.remove(container) if removes else self._engine.kill(container, number)
        if removes:
            if network := own_network(self._container):
                self._engine.remove_network(network)
            (plan.folder / PIPE).unlink(missing_ok=True)

    def _deliver_again(self, plan: SandboxPlan) -> None:
        numbers, self._undelivered = self._undelivered, []
        for number in numbers:
            self.signal(plan, number)

    def _hold(self, plan: SandboxPlan) -> None:
        if self._pipe is None and (plan.folder / PIPE).exists():
            self._pipe = os.open(plan.folder / PIPE, os.O_RDWR | os.O_NONBLOCK)

    def _let_go(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None


def _read_over(plan: SandboxPlan) -> SandboxState | None:
    """How it ended, if that is known."""
    if end := read_end(plan.folder):
        return end
    is_engine, lost = read_lost(str(plan.folder))
    return Lost(lost, Gone.ENGINE if is_engine else Gone.PROCESSES) if lost else None


def _label(intent: Intent) -> str:
    return f"{MARK_LABEL}={intent.mark}"


def _with_command(plan: SandboxPlan) -> SandboxPlan:
    """The plan with the image's own command."""
    from dataclasses import replace

    return replace(plan, command=("train",))


def _silent(plan: SandboxPlan) -> str:
    log = str(plan.folder / "init.log")
    return f"The init of {plan.host!r} ended before it started anything. Its words are in {log!r}."
