"""From init's fork to the command's first instruction: isolation, gate, exec.

Runs inside the sandbox's init, so it imports nothing slow.
"""

import _signal  # type: ignore[import-not-found]  # the C half of `signal`
import marshal
import os
import sys

from trackside.system import process_table

if sys.platform == "linux":
    from trackside import id_mapped_mount
    from trackside.supervisor import confinement, namespaces
    from trackside.system.linux_calls import die_with


_MOST_DESCRIPTORS = 1 << 16  # of init, which opens a dozen


class Plan:
    """The message that `ProcessSandbox.start` sends, field by field."""

    kinds: list[str]
    """Kinds of isolation, best first."""
    folder: str
    ml: str
    mounts: list[tuple[str, str]]
    read_only: list[str]
    mapped: list[str]
    command: list[str]
    environment: dict[str, str]
    umask: int | None
    log: str
    log_variable: str
    notes: dict[str, str]
    host: str
    hosts: str
    user: tuple[int, int, list[int]] | None
    """User, group and groups of the command; None runs it as ourselves."""
    mark: str
    """The value of TRACKSIDE_NONCE, which also names the source of the first mount."""
    groups: list[str]
    """Folders of control groups."""
    revive: list[str]
    lock: int

    def __init__(self, descriptor: int) -> None:
        self.__dict__.update(marshal.loads(_read_to_end(descriptor)))


class Refused(OSError):
    """This kind of isolation does not work here; the next one may."""


class Command:
    """A process that is ready to turn into the command, held back until `release`."""

    def __init__(self, pid: int, child: int, gate: int, verdict: int) -> None:
        self.pid = pid
        self.child = child
        """Init's own child, which ends with the command: the first of its PID namespace where it
        has one, else the command itself."""
        self._gate = gate
        self._verdict = verdict

    def release(self) -> None:
        os.write(self._gate, b"go")
        os.close(self._gate)

    def code(self, of_child: int) -> int:
        """The command's exit code, given its child's: what the child recorded, if anything.

        The first process of a PID namespace cannot end itself by a signal.
        """
        status = _read_to_end(self._verdict)
        return os.waitstatus_to_exitcode(int(status)) if status else of_child


def prepare(plan: Plan, kind: str, output: int, log: int) -> Command:
    """Fork the command's process, which writes to `output` and may read `log`. Should init die
    before the release, it exits without running anything.
    """
    reply, reply_to = os.pipe()
    gate, opener = os.pipe()
    verdict, judge = os.pipe()
    pid = _fork(plan)
    if pid == 0:
        for ours in (reply, opener, verdict):
            os.close(ours)
        _become_command(plan, kind, (output, log), gate, reply_to, judge)
    for theirs in (reply_to, gate, judge):
        os.close(theirs)
    result, _, text = _read_to_end(reply).decode(errors="surrogateescape").partition("\n")
    os.close(reply)
    if result == "ready":
        return Command(int(text) or pid, pid, opener, verdict)
    os.close(opener)
    os.close(verdict)
    os.waitpid(pid, 0)
    failure = Refused if result == "refused" else OSError
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


def _fork(plan: Plan) -> int:
    if plan.user is None:
        return os.fork()
    ours = confinement.begin_process_space()
    pid = os.fork()
    if pid:
        confinement.end_process_space(ours)
    return pid


def _become_command(
    plan: Plan, kind: str, streams: tuple[int, int], gate: int, reply_to: int, judge: int
) -> None:
    parent = os.getppid()
    output, log = streams
    try:
        reset_signals()
        _join(plan.groups)
        null = os.open("/dev/null", os.O_RDWR)
        _surround(plan, kind)
        pid = 0
        if plan.user is not None:
            os.fchown(output, plan.user[0], plan.user[1])  # its owner can open /dev/stderr
            pid = _follow_first(plan.user, parent, null, judge)
        elif plan.umask is not None:
            os.umask(plan.umask)
        os.setpgid(0, 0)
        if sys.platform == "linux" and plan.user is None:
            die_with(parent)
        for source, target in ((null, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        if plan.log_variable:
            os.set_inheritable(log, True)
            plan.environment[plan.log_variable] = str(log)
    except OSError as error:
        result = "refused" if isinstance(error, Refused) else "error"
        os.write(reply_to, f"{result}\n{describe(error)}".encode(errors="surrogateescape"))
        os._exit(1)
    os.write(reply_to, f"ready\n{pid}".encode())
    os.close(reply_to)
    if os.read(gate, 2) != b"go":
        os._exit(1)
    try:
        os.execvpe(plan.command[0], plan.command, plan.environment)
    except OSError as error:
        os.write(2, f"{plan.command[0]!r} cannot be started: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)  # as a shell would


def _join(groups: list[str]) -> None:
    """This process, and all its descendants."""
    for folder in groups:
        descriptor = os.open(f"{folder}/cgroup.procs", os.O_WRONLY)
        try:
            os.write(descriptor, b"0")
        finally:
            os.close(descriptor)


def _follow_first(user: "confinement.User", parent: int, null: int, judge: int) -> int:
    """Leave a process behind as the first of the PID namespace, and continue in its child as
    `user`.

    The first one reaps, and when it ends the kernel ends the whole namespace. It has the same user,
    but is not accessible to it. Returns our pid outside the namespace.
    """
    child = os.fork()
    if child == 0:
        pid = confinement.see_own_processes()
        confinement.become(user)
        return pid
    confinement.become(user)
    die_with(parent)  # after `become`, which makes the kernel reset it
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.dup2(judge, 3)
    os.closerange(4, _MOST_DESCRIPTORS)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            os.write(3, str(status).encode())
            os._exit(0)


def _surround(plan: Plan, kind: str) -> None:
    """The command starts in its /opt/ml, wherever that is here."""
    if kind == "none":
        plan.environment["SAGEMAKER_BASE_DIR"] = plan.ml
        _link(plan.ml, plan.mounts)
        os.chdir(plan.ml)
        return
    mark = process_table.MOUNT_PREFIX + plan.mark
    try:
        stage = namespaces.isolate(kind, f"{plan.folder}/stage", mark, shares_ipc=not plan.user)
    except OSError as error:
        raise Refused(error.errno, error.strerror) from error
    mounts = [(namespaces.ML, plan.ml), *plan.mounts]
    owner = plan.user[0] if plan.user else None

    def show(target: str, source: int, place: str) -> bool:
        if plan.user is None or target not in plan.mapped:
            return False
        id_mapped_mount.show(source, place, *plan.user[:2])
        return True

    namespaces.arrange(stage, mounts, plan.read_only, plan.host, plan.hosts, owner=owner, show=show)
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
