"""From init's fork to the command's first instruction: surroundings, gate, exec.

Runs inside the sandbox's init, so it imports nothing slow.
"""

import _signal  # type: ignore[import-not-found]  # the C half of `signal`
import marshal
import os
import sys

from trackside import process_table

if sys.platform == "linux":
    from trackside.supervisor import namespaces


class Plan:
    """The message that `ProcessSandbox.start` sends, field by field."""

    kinds: list[str]
    """Ways to isolate, best first."""
    folder: str
    ml: str
    mounts: list[tuple[str, str]]
    read_only: list[str]
    command: list[str]
    environment: dict[str, str]
    umask: int | None
    log: str
    host: str
    hosts: str
    mark: str
    """The value of TRACKSIDE_NONCE, which also names the source of the first mount."""
    revive: list[str]
    lock: int

    def __init__(self, descriptor: int) -> None:
        self.__dict__.update(marshal.loads(_read_to_end(descriptor)))


class Refused(OSError):
    """This way to isolate does not work here; the next one may."""


class Command:
    """A process that is ready to turn into the command, held back until `release`."""

    def __init__(self, pid: int, gate: int) -> None:
        self.pid = pid
        self._gate = gate

    def release(self) -> None:
        os.write(self._gate, b"go")
        os.close(self._gate)


def prepare(plan: Plan, kind: str, log: int) -> Command:
    """Fork the command's process. Should init die before the release, it ends without a trace."""
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
    failure = Refused if said == "refused" else OSError
    raise failure(0, text or "init's child ended while it was being prepared")


def reset_signals() -> None:
    """As for a process that a shell starts: nothing ignored, nothing blocked."""
    for number in range(1, 32):
        try:
            _signal.signal(number, _signal.SIG_DFL)
        except OSError:  # KILL and STOP
            continue
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])


def describe(error: OSError) -> str:
    where = "" if error.filename is None else f" ({os.fsdecode(error.filename)!r})"
    return f"{error.strerror}{where}"


def _become_command(plan: Plan, kind: str, log: int, gate: int, answer: int) -> None:
    parent = os.getppid()
    try:
        os.setpgid(0, 0)
        if plan.umask is not None:
            os.umask(plan.umask)
        reset_signals()
        null = os.open("/dev/null", os.O_RDONLY)
        _surround(plan, kind)
        if sys.platform == "linux":
            namespaces.die_with(parent)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
    except OSError as error:
        said = "refused" if isinstance(error, Refused) else "error"
        os.write(answer, f"{said}\n{describe(error)}".encode(errors="surrogateescape"))
        os._exit(1)
    os.write(answer, b"ready")
    os.close(answer)
    if os.read(gate, 2) != b"go":
        os._exit(1)
    try:
        os.execvpe(plan.command[0], plan.command, plan.environment)
    except OSError as error:
        os.write(2, f"{plan.command[0]!r} cannot be started: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)  # as a shell would


def _surround(plan: Plan, kind: str) -> None:
    """The command begins in its /opt/ml, whatever that is called here."""
    if kind == "none":
        plan.environment["SAGEMAKER_BASE_DIR"] = plan.ml
        _link(plan.ml, plan.mounts)
        os.chdir(plan.ml)
        return
    stage = f"{plan.folder}/stage"
    try:
        namespaces.isolate(kind, stage, process_table.MOUNT_PREFIX + plan.mark)
    except OSError as error:
        raise Refused(error.errno, error.strerror) from error
    mounts = [(namespaces.ML, plan.ml), *plan.mounts]
    namespaces.arrange(stage, mounts, plan.read_only, plan.host, plan.hosts)
    os.chdir(namespaces.ML)


def _link(ml: str, mounts: list[tuple[str, str]]) -> None:
    """Without namespaces a mount below /opt/ml becomes a link in the folder behind it."""
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


def _read_to_end(descriptor: int) -> bytes:
    pieces = iter(lambda: os.read(descriptor, 1 << 16), b"")
    return b"".join(pieces)
