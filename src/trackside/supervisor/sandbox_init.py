"""The sandbox's init: starts one command, outlives the supervisor, records how the command ended.

`process_sandbox.py` starts it with `python -I -S` and sends the plan through a pipe, by marshal:
json, signal, dataclasses and typing would each add milliseconds to the start of every job.
"""

import _signal  # type: ignore[import-not-found]  # the C half of `signal`
import marshal
import os
import select
import sys
import time

from trackside import procfs

if procfs.PRESENT:
    from trackside.procfs import started
else:
    from trackside import processes
    from trackside.processes import started
if sys.platform == "linux":
    from trackside.supervisor import namespaces

TICK_SECONDS = 1.0
SWEEP_SECONDS = 10.0
REVIVE_PAUSES_SECONDS = (0, 2, 10, 60, 300)
"""How long after the last revival the next may follow; after as many, the supervisor stays dead."""
SOUND_AFTER_SECONDS = 600.0
"""A supervisor that lived as long has earned the pauses from the beginning."""

_SIGKILL = 9
_IGNORED = (1, 2, 3, 15)  # HUP, INT, QUIT, TERM: only the end of the command ends init
_ALL_SIGNALS = range(1, 32)


class Plan:
    """The message from `ProcessSandbox.start`, field by field."""

    kinds: list[str]
    """Ways to isolate, best first."""
    folder: str
    ml: str
    mounts: list[tuple[str, str]]
    read_only: list[str]
    command: list[str]
    environment: dict[str, str]
    log: str
    host: str
    hosts: str
    nonce: str
    mark: str
    revive: list[str]
    lock: int

    def __init__(self, message: bytes) -> None:
        self.__dict__.update(marshal.loads(message))


def main() -> None:
    """Detach, start the command, tell the starter, and stay until nothing of it is left."""
    plan = Plan(_read_to_end(0))
    # Held until init ends, whatever ends it: as long as it is held, nobody starts a second command.
    os.set_inheritable(plan.lock, False)
    if os.fork():
        os._exit(0)
    for number in _IGNORED:
        _signal.signal(number, _signal.SIG_IGN)
    try:
        ooms = _num_oom_kills()
        command = _start(plan)
    except OSError as error:
        _tell(f"error\n{_describe(error)}")
        return
    _keep(plan, command, ooms)


class Refused(OSError):
    """This way to isolate does not work here; the next one may."""


class Command:
    """The started command, held back until `release`."""

    def __init__(self, pid: int, gate: int) -> None:
        self.pid = pid
        self._gate = gate

    def release(self) -> None:
        os.write(self._gate, b"go")
        os.close(self._gate)


def _start(plan: Plan) -> Command:
    """Prepare the command in the first way that works, record it, then let it go.

    The record is there before the first instruction of the command: a folder without a record has
    run nothing. It needs no fsync: a power cut that takes the record takes the command as well,
    and an intent from an earlier boot is not started again.
    """
    if sys.platform == "linux":
        namespaces.become_subreaper()
    log = os.open(plan.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    refusals: list[str] = []
    for kind in plan.kinds:
        try:
            command = _prepare(plan, kind, log)
        except Refused as error:
            refusals.append(f"{kind}: {error.strerror}")
            continue
        os.close(log)
        _record_start(plan, command.pid, kind, "; ".join(refusals))
        command.release()
        _tell("started")
        return command
    raise OSError(0, "; ".join(refusals))


def _prepare(plan: Plan, kind: str, log: int) -> Command:
    reply, answer = os.pipe()
    gate, opener = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(opener)
        _become_command(plan, kind, log, gate, answer)
    os.close(answer)
    os.close(gate)
    said, _, text = _read_to_end(reply).decode(errors="surrogateescape").partition("\n")
    os.close(reply)
    if said == "ready":
        return Command(pid, opener)
    os.close(opener)
    os.waitpid(pid, 0)
    number, _, message = text.partition("\n")
    failure = Refused if said == "refused" else OSError
    raise failure(int(number or 0), message or "init's child ended while it was being prepared")


def _become_command(plan: Plan, kind: str, log: int, gate: int, answer: int) -> None:
    """In the child: make the surroundings, wait for the gate, turn into the command."""
    parent = os.getppid()
    environment = plan.environment
    try:
        os.setpgid(0, 0)
        _reset_signals()
        null = os.open("/dev/null", os.O_RDONLY)
        if kind == "none":
            environment["SAGEMAKER_BASE_DIR"] = plan.ml
            _link(plan.ml, plan.mounts)
            os.chdir(plan.ml)
        else:
            _isolate(plan, kind)
            os.chdir(namespaces.ML)
        if sys.platform == "linux":
            namespaces.die_with(parent)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
    except OSError as error:
        said = "refused" if isinstance(error, Refused) else "error"
        os.write(answer, f"{said}\n{error.errno}\n{_describe(error)}".encode())
        os._exit(1)
    os.write(answer, b"ready")
    os.close(answer)
    if os.read(gate, 2) != b"go":
        os._exit(1)
    try:
        os.execvpe(plan.command[0], plan.command, environment)
    except OSError as error:
        os.write(2, f"{plan.command[0]!r} cannot be started: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)  # as a shell would


def _isolate(plan: Plan, kind: str) -> None:
    stage = f"{plan.folder}/stage"
    try:
        namespaces.isolate(kind, stage, plan.mark)
    except OSError as error:
        raise Refused(error.errno, error.strerror) from error
    mounts = [(namespaces.ML, plan.ml), *plan.mounts]
    namespaces.arrange(stage, mounts, plan.read_only, plan.host, plan.hosts)


def _link(ml: str, mounts: list[tuple[str, str]]) -> None:
    """Without namespaces: a mount below /opt/ml becomes a link in the folder behind it."""
    for target, source in sorted(mounts):
        if os.path.realpath(target) == os.path.realpath(source):
            continue
        if not target.startswith("/opt/ml/"):
            raise OSError(0, "only paths below /opt/ml can be shown without namespaces", target)
        link = ml + target.removeprefix("/opt/ml")
        if os.path.islink(link):
            os.unlink(link)
        elif os.path.isdir(link):
            os.rmdir(link)
        os.makedirs(os.path.dirname(link), exist_ok=True)
        os.symlink(source, link)


def _reset_signals() -> None:
    for number in _ALL_SIGNALS:
        try:
            _signal.signal(number, _signal.SIG_DFL)
        except OSError:  # KILL and STOP
            continue
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])


def _keep(plan: Plan, command: Command, ooms: int) -> None:
    """Watch command and supervisor, then sweep, record the end and leave."""
    began, began_at = time.monotonic(), time.time()
    null = os.open("/dev/null", os.O_RDWR)
    for stream in (0, 1):
        os.dup2(null, stream)
    keeper = Keeper(plan.folder, plan.revive)
    waiter = Waiter(command.pid)
    while (code := waiter.wait(TICK_SECONDS)) is None:
        keeper.tick()
    _sweep(plan.nonce, keeper)
    oom = code != 0 and _num_oom_kills() > ooms
    _record_end(plan.folder, code, oom, began_at, time.monotonic() - began)
    keeper.tick(last=True)


class Waiter:
    """Waits for the command and reaps every orphan that comes our way."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._poll: select.poll | None = None
        try:
            descriptor = os.pidfd_open(pid)
        except (OSError, AttributeError):  # macOS, before Linux 5.3, or a Python built for one
            return
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def wait(self, seconds: float) -> int | None:
        """The command's exit code, or minus its signal; None when it still runs after as long."""
        if self._poll is not None:
            self._poll.poll(seconds * 1000)
            return self._reap()
        deadline = time.monotonic() + seconds
        while (code := self._reap()) is None and time.monotonic() < deadline:
            time.sleep(0.02)
        return code

    def _reap(self) -> int | None:
        code = None
        for pid, status in iter(_next_dead_child, None):
            if pid == self._pid:
                code = os.waitstatus_to_exitcode(status)
        return code


class Keeper:
    """Starts the supervisor again when it dies. Who that is stands in the file `supervisor`."""

    def __init__(self, folder: str, command: list[str]) -> None:
        self._folder = folder
        self._command = command
        self._num_revivals = 0
        self._last = -SOUND_AFTER_SECONDS
        self._child: tuple[int, int | None] = (0, None)

    @property
    def child(self) -> int:
        """The pid of a live supervisor that is our child because it was started here; or 0."""
        pid, since = self._child
        return pid if since is not None and started(pid) == since else 0

    def tick(self, *, last: bool = False) -> None:
        now = time.monotonic()
        if not self._command or self._is_alive():
            if now - self._last > SOUND_AFTER_SECONDS:
                self._num_revivals = 0
            return
        if self._num_revivals >= len(REVIVE_PAUSES_SECONDS):
            return
        if last or now - self._last >= REVIVE_PAUSES_SECONDS[self._num_revivals]:
            self._num_revivals += 1
            self._last = now
            self._revive()

    def _is_alive(self) -> bool:
        pid, _, since = procfs.read(f"{self._folder}/supervisor").decode().partition(" ")
        return not since or started(int(pid)) == int(since)  # empty: none has come forward yet

    def _revive(self) -> None:
        log = os.open(f"{self._folder}/init.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        pid = os.fork()
        if pid == 0:
            os.setsid()
            _reset_signals()
            for stream in (1, 2):
                os.dup2(log, stream)
            try:
                os.execvp(self._command[0], self._command)
            except OSError as error:
                os.write(2, f"{self._command[0]!r}: {error.strerror}\n".encode())
                os._exit(127)
        os.close(log)
        self._child = (pid, started(pid))
        _replace(f"{self._folder}/supervisor", f"{pid} {self._child[1] or 0}")


def _sweep(nonce: str, keeper: Keeper) -> None:
    """Kill all that the command left. Orphans come to us, so nothing can hide from this."""
    if not procfs.PRESENT:
        processes.sweep(nonce)
        return
    deadline = time.monotonic() + SWEEP_SECONDS
    while found := procfs.descendants(os.getpid(), without=keeper.child):
        for pid, since in found.items():
            procfs.signal_exactly(pid, since, _SIGKILL)
        if time.monotonic() > deadline:
            return  # stuck in the kernel; it dies when it comes out
        time.sleep(0.002)
        for _ in iter(_next_dead_child, None):
            pass


def _next_dead_child() -> tuple[int, int] | None:
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def _num_oom_kills() -> int:
    """Processes killed for want of memory in our cgroup; without one, on the whole machine."""
    groups = {}
    for line in procfs.read("/proc/self/cgroup").decode().splitlines():
        _, names, path = line.split(":", 2)
        groups[names] = path
    for name, path in (
        ("memory", "/sys/fs/cgroup/memory{}/memory.oom_control"),
        ("", "/sys/fs/cgroup{}/memory.events"),
    ):
        for place in (groups.get(name, "/"), ""):  # a container may see its own group as the root
            if count := _counter(path.format(place.rstrip("/"))):
                return count[0]
    return next(iter(_counter("/proc/vmstat")), 0)


def _counter(path: str) -> list[int]:
    lines = procfs.read(path).splitlines()
    return [int(line.split()[1]) for line in lines if line.startswith(b"oom_kill ")]


def _record_start(plan: Plan, pid: int, kind: str, refusals: str) -> None:
    me = os.getpid()
    refusals = refusals.replace("\\", "/").replace('"', "'")
    _replace(
        f"{plan.folder}/process.json",
        f'{{"nonce": "{plan.nonce}", "boot_id": "{procfs.boot_id()}",'
        f' "init": {{"pid": {me}, "started": {started(me) or 0}}},'
        f' "command": {{"pid": {pid}, "started": {started(pid) or 0}}},'
        f' "isolation": "{kind}", "refusals": "{refusals}", "started_at": {time.time():.3f}}}\n',
    )


def _record_end(folder: str, code: int, oom: bool, began_at: float, seconds: float) -> None:
    text = (
        f'{{"code": {code}, "out_of_memory": {"true" if oom else "false"},'
        f' "started_at": {began_at:.3f}, "ended_at": {time.time():.3f},'
        f' "seconds": {seconds:.3f}}}\n'
    )
    while True:
        try:
            return _replace(f"{folder}/exit.json", text, durable=True)
        except FileNotFoundError:
            return  # the job's folder was removed; nobody will ask
        except OSError:
            time.sleep(1)  # a full disk: what the command did must not be lost for that


def _replace(path: str, text: str, *, durable: bool = False) -> None:
    descriptor = os.open(f"{path}.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.write(descriptor, text.encode(errors="surrogateescape"))
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(f"{path}.tmp", path)
    if durable:
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


def _read_to_end(descriptor: int) -> bytes:
    pieces = iter(lambda: os.read(descriptor, 1 << 16), b"")
    return b"".join(pieces)


def _tell(text: str) -> None:
    try:
        os.write(1, text.encode(errors="surrogateescape"))
    except BrokenPipeError:
        return  # the starter has died; who comes next finds the record


def _describe(error: OSError) -> str:
    where = "" if error.filename is None else f" ({os.fsdecode(error.filename)!r})"
    return f"{error.strerror}{where}"
