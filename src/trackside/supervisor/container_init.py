"""The container sandbox's init: a process of this machine, next to one container.

It creates and starts the container, moves its output to the log, restarts the supervisor, and
records how the container ended. If it is killed, the container continues, and blocks when its pipe
is full, until `container_sandbox.py` has started another init. Imports nothing slow, like
`sandbox_init.py`.
"""

import _signal  # type: ignore[import-not-found]  # the C half of `signal`
import fcntl
import marshal
import os
import select
import socket
import time
from datetime import datetime

from trackside.containers.engine_client import (
    Engine,
    EngineError,
    EngineRefused,
    EngineUnreachable,
)
from trackside.supervisor.log_pump import PIECE_BYTES, RETRY_SECONDS, LogPump
from trackside.supervisor.sandbox_records import record_end, record_start, replace, reserve_end
from trackside.supervisor.watchdog import Watchdog
from trackside.system import process_table

TYPE_CHECKING = False  # importing typing takes milliseconds
if TYPE_CHECKING:
    from typing import Any

KIND = "container"
PIPE, LOST = "output", "lost"
AWAY, REFUSED = "away", "refused"
"""What init reports in place of `started`: no engine responds, or it does not want to."""
_OF_ENGINE = "engine: "
"""Names in the sandbox's folder. The pipe is removed last: without it nothing is left to do."""
TICK_SECONDS = 2.0
"""Between checks of the supervisor, …"""
WATCHED_SECONDS = 15.0
"""… and where the kernel reports its death."""
SILENT_SECONDS = 1.0
"""After so long without output, the next output wakes the supervisor, which may pause for long."""
ENGINE_SECONDS = 0.5
"""Between two tries to reach an engine that does not respond."""
GONE_SECONDS = 60.0
"""After so long without an engine, a container whose first process is gone is given up."""

_BREATH_SECONDS = 0.005
_MUCH_BYTES = PIECE_BYTES // 4
_NUM_STARTS = 5
_IGNORED = (1, 2, 3, 15)  # HUP, INT, QUIT, TERM: only the end of the container ends init
_OVER = ("exited", "dead")
_MOST_SIGNAL = 31
_NOT_FOUND = 127
_MISSED = (
    "Up to 64 kB of output may be missing here: supervisor and init were both killed, and the "
    "container ended before either was back."
)


class Plan:
    """The message that `ContainerSandbox` sends, field by field."""

    folder: str
    log: str
    mark: str
    label: str
    """Label by which the container is found."""
    labels: dict[str, str]
    engine: str
    request: "dict[str, Any]"
    """The body of the create request."""
    follows_entrypoint: bool
    network: str
    network_lock: str
    host_name: str
    """Resolves to the network's gateway; empty: to nothing."""
    is_internal: bool
    adopts: bool
    """An earlier init has created the container."""
    root: int
    """The container's first process, or 0 if unknown."""
    root_since: int | None
    was_held: bool
    """Some process has kept the pipe open since then: no output is lost."""
    revive: list[str]
    lock: int

    def __init__(self, descriptor: int) -> None:
        with open(descriptor, "rb", closefd=False) as message:
            self.__dict__.update(marshal.loads(message.read()))

    @property
    def pipe(self) -> str:
        return f"{self.folder}/{PIPE}"


class PipePump(LogPump):
    """A log pump whose pipe has a name, and outlives this process in others that have it open."""

    def __init__(self, log: str, pipe: str) -> None:
        super().__init__(log)
        for descriptor in (self.readable, self.writable):
            os.close(descriptor)
        self.readable = self.writable = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)


class Gone(Exception):
    """The container no longer exists; the message says why."""


class EngineAway(Gone):
    """Its engine does not respond, so that its end is unknown."""


def main() -> None:
    """Detach, start the container, report to the starter, and stay until nothing of it is left."""
    plan = Plan(0)
    # Held until init ends, for whatever reason: while it is held, no second init is started.
    os.set_inheritable(plan.lock, False)
    if os.fork():
        os._exit(0)
    for number in _IGNORED:
        _signal.signal(number, _signal.SIG_IGN)
    engine = Engine(plan.engine)
    try:
        reserve_end(plan.folder)
        pump = PipePump(plan.log, plan.pipe)
        if plan.adopts:
            record_start(plan.folder, plan.mark, plan.root, KIND, "")
        else:
            _bring_up(plan, engine)
    except (EngineError, OSError) as error:
        _report(f"{_kind_of(error)}\n{error}")
        return
    _report("started")
    _leave_streams()
    try:
        _keep(plan, engine, pump)
    except Gone as gone:
        pump.finish()
        of_engine = _OF_ENGINE if isinstance(gone, EngineAway) else ""
        replace(f"{plan.folder}/{LOST}", f"{of_engine}{gone}")
        _clean_up(plan, engine)


def _kind_of(error: "EngineError | OSError") -> str:
    if isinstance(error, EngineUnreachable):
        return AWAY
    return REFUSED if isinstance(error, EngineRefused) else "error"


def _bring_up(plan: Plan, engine: Engine) -> str:
    """The container, started only once however often this is called; if it raises, none is left."""
    container = engine.find(plan.label) or _create(plan, engine)
    # From here on there is a container, which may run: without a record, nothing has run.
    record_start(plan.folder, plan.mark, 0, KIND, "")
    try:
        _start(plan, engine, container)
    except EngineRefused:
        os.unlink(f"{plan.folder}/process.json")
        engine.remove(container)
        if plan.network:
            engine.remove_network(plan.network)
        raise
    return container


def _create(plan: Plan, engine: Engine) -> str:
    image = engine.image(plan.request["Image"])
    if plan.follows_entrypoint:
        own = image["Config"].get("Entrypoint") or []
        plan.request["Cmd"] = [*own, *plan.request["Cmd"]]
    query = {"name": f"trackside-{plan.mark}"}
    _make_network(plan, engine)  # Podman wants it now, Docker at the start
    if plan.host_name and (gateway := engine.gateway(plan.network)):
        plan.request["HostConfig"]["ExtraHosts"].append(f"{plan.host_name}:{gateway}")
    try:
        return str(engine.call("POST", "/containers/create", query, plan.request)["Id"])
    except EngineRefused:
        if plan.network:
            engine.remove_network(plan.network)
        raise


def _start(plan: Plan, engine: Engine, container: str) -> None:
    """One that was started before is left as it is, whether or not it still runs."""
    for attempt in range(_NUM_STARTS):
        state = (engine.inspect(container) or {}).get("State", {})
        if state.get("Status") != "created":
            break
        try:
            _make_network(plan, engine)
            engine.call("POST", f"/containers/{container}/start")
        except EngineRefused as error:
            # Another host of the job has ended meanwhile, and removed their network.
            if not (plan.network and error.status == 404 and attempt < _NUM_STARTS - 1):
                raise
    _record_root(plan, container, engine)


def _make_network(plan: Plan, engine: Engine) -> None:
    """Several hosts do this at the same time: the first creates it, the others find it."""
    if not plan.network:
        return
    lock = os.open(plan.network_lock or os.devnull, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        engine.make_network(plan.network, plan.labels, is_internal=plan.is_internal)
    finally:
        os.close(lock)


def _record_root(plan: Plan, container: str, engine: Engine) -> None:
    """The container's first process, if it is on this machine; an engine may be on another."""
    inspected = engine.inspect(container) or {"State": {}}
    pid = int(inspected["State"].get("Pid", 0))
    group = process_table.read(f"/proc/{pid}/cgroup") if pid else b""
    plan.root = pid if container.encode() in group else 0
    plan.root_since = process_table.started(plan.root)
    record_start(plan.folder, plan.mark, plan.root, KIND, "")


def _keep(plan: Plan, engine: Engine, pump: PipePump) -> None:
    """Watch container and supervisor, then record the end, remove the container and exit."""
    watchdog = Watchdog(plan.folder, plan.revive)
    watchdog.tick()
    waiter = Waiter(plan, engine, pump, watchdog)
    inspected = waiter.wait()
    while pump.step():
        pass
    if waiter.may_have_missed:
        pump.say(_MISSED)
    if inspected["State"]["ExitCode"] == _NOT_FOUND:
        _explain_shell(plan, engine, pump, inspected["Id"])
    pump.finish()
    state = inspected["State"]
    code = exit_code(int(state["ExitCode"]))
    began, ended = _seconds(state["StartedAt"]), _seconds(state["FinishedAt"])
    oom = code != 0 and bool(state["OOMKilled"])
    record_end(plan.folder, code, oom, began, max(0.0, ended - began))
    watchdog.tick(last=True)
    _clean_up(plan, engine)


class Waiter:
    """Waits for the container's end, and meanwhile moves its output and reaps restarted
    supervisors.
    """

    def __init__(self, plan: Plan, engine: Engine, pump: PipePump, watchdog: Watchdog) -> None:
        self._plan = plan
        self._engine = engine
        self._pump = pump
        self._watchdog = watchdog
        self._container = ""
        self._wait_socket: socket.socket | None = None
        """Ends when the container does, or the engine."""
        self._check_at = self._tick_at = 0.0
        self.may_have_missed = plan.adopts and not plan.was_held
        """It had ended before anybody opened its pipe again."""
        self._answered_at = time.monotonic()
        self._moved_at = time.monotonic()

    def wait(self) -> "Any":
        """The container as described by the engine, when it has ended; `Gone` if it no longer
        exists.
        """
        while True:
            if time.monotonic() >= self._tick_at:
                self._tick()
            if self._may_have_ended() and (inspected := self._check_container()) is not None:
                return inspected
            self._rest()

    def _tick(self) -> None:
        self._watchdog.tick()
        _reap()
        is_notified = self._watchdog.descriptor is not None
        self._tick_at = time.monotonic() + (WATCHED_SECONDS if is_notified else TICK_SECONDS)

    def _may_have_ended(self) -> bool:
        if self._wait_socket is None:
            return time.monotonic() >= self._check_at
        try:
            while self._wait_socket.recv(PIECE_BYTES):
                pass  # the response; after it the connection is closed
        except BlockingIOError:
            return False
        except OSError:
            pass
        self._wait_socket.close()
        self._wait_socket = None
        return True

    def _check_container(self) -> "Any":
        """The container if it has ended; else None, and the wait request is sent again."""
        try:
            inspected = self._inspect()
            self._answered_at = time.monotonic()
            if inspected["State"]["Status"] in _OVER:
                return inspected
            self.may_have_missed = False
            if not self._plan.root:  # the previous init was killed at that moment
                _start(self._plan, self._engine, self._container)
            self._wait_socket = self._engine.send("POST", f"/containers/{self._container}/wait")
            self._wait_socket.setblocking(False)
        except EngineError as error:
            self._check_at = time.monotonic() + ENGINE_SECONDS
            self._give_up(error)
        return None

    def _inspect(self) -> "Any":
        self._container = self._container or self._engine.find(self._plan.label) or ""
        inspected = self._engine.inspect(self._container) if self._container else None
        if inspected is None:
            raise Gone("The container was removed while the script ran.")
        return inspected

    def _give_up(self, error: EngineError) -> None:
        """Give up a container whose engine does not respond and whose first process has ended."""
        if time.monotonic() - self._answered_at < GONE_SECONDS or not self._plan.root:
            return
        if process_table.started(self._plan.root) != self._plan.root_since:
            raise EngineAway(f"The script has ended, and how is not known. {error}")

    def _rest(self) -> None:
        """Until something happens; many small writes are moved together."""
        if moved := self._pump.step():
            self._note_output()
            time.sleep(0 if moved >= _MUCH_BYTES else _BREATH_SECONDS)
            return
        wait_socket = None if self._wait_socket is None else self._wait_socket.fileno()
        found = select.poll()
        for descriptor in (self._pump.readable, wait_socket, self._watchdog.descriptor):
            if descriptor is not None:
                found.register(descriptor, select.POLLIN)
        ready = found.poll(self._longest_seconds() * 1000)
        if any(descriptor == self._watchdog.descriptor for descriptor, _ in ready):
            self._tick_at = 0.0

    def _longest_seconds(self) -> float:
        if self._pump.is_holding:
            return RETRY_SECONDS
        if self._wait_socket is None:
            return max(0.0, min(self._check_at, self._tick_at) - time.monotonic())
        return max(0.0, self._tick_at - time.monotonic())

    def _note_output(self) -> None:
        now = time.monotonic()
        if now - self._moved_at >= SILENT_SECONDS:
            self._watchdog.wake()
        self._moved_at = now


def exit_code(of_container: int) -> int:
    """Engines report a signal as 128 plus its number, as shells do."""
    number = of_container - 128
    return -number if 0 < number <= _MOST_SIGNAL else of_container


def _explain_shell(plan: Plan, engine: Engine, pump: PipePump, container: str) -> None:
    """Without it, the log would be empty."""
    try:
        has_shell = engine.has_file(container, "/bin/sh")
    except EngineError:
        return
    if not has_shell:
        pump.say(
            f"The image {plan.request['Image']!r} has no /bin/sh, by which its output reaches this "
            "log. Add a shell to the image."
        )


def _clean_up(plan: Plan, engine: Engine) -> None:
    """Container, network and pipe. If the engine does not come back, `ContainerSandbox.signal`
    removes them: it finds the pipe.
    """
    deadline = time.monotonic() + GONE_SECONDS
    while True:
        try:
            if container := engine.find(plan.label):
                engine.remove(container)
            if plan.network:
                engine.remove_network(plan.network)
            break
        except EngineUnreachable:
            if not os.path.exists(plan.pipe) or time.monotonic() > deadline:
                return
            time.sleep(ENGINE_SECONDS)
        except EngineRefused:
            break
    try:
        os.unlink(plan.pipe)
    except OSError:
        return


def _seconds(text: str) -> float:
    """Parses a time as Go writes it, with nine digits or fewer."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{fraction or 0}")


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _leave_streams() -> None:
    null = os.open("/dev/null", os.O_RDWR)
    for stream in (0, 1):
        os.dup2(null, stream)
    os.close(null)


def _report(text: str) -> None:
    try:
        os.write(1, text.encode(errors="surrogateescape"))
    except BrokenPipeError:
        return  # the starter has died; the next one finds the record


def read_lost(folder: str) -> "tuple[bool, str]":
    """Why the container no longer exists, empty while it may; and whether that is its engine."""
    text = process_table.read(f"{folder}/{LOST}").decode(errors="replace")
    return text.startswith(_OF_ENGINE), text.removeprefix(_OF_ENGINE)
