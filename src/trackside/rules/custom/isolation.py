"""Isolates a custom rule: everything from the guard's fork to the rule's first line.

With namespaces, three processes follow each other: one that leaves the machine's namespaces, an
init that sets up the new ones and stays, and the rule. They report to the guard through one pipe,
one line per message; `guard.py` reads it. `isolated_root.py` builds the file system. Rights dropped
here cannot be regained.
"""

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

from trackside import settings
from trackside.quick_dataclass import dataclass
from trackside.rules.custom import limits
from trackside.rules.custom.confinement import SCRATCH, Plan
from trackside.rules.custom.isolated_root import populate
from trackside.system import linux_calls as linux
from trackside.system.control_group import ControlGroup

BOXES = ("root", "user")
"""Kinds with namespaces, and therefore an init."""
INIT, READY, REFUSED, ENDED = "init", "ready", "refused", "ended"
"""First word of each message to the guard."""

_NOBODY = 65534
_SOME = 64
"""More descriptors than the guard opens; more processes than it takes to start the rule."""
_COUNTS_BY_NAMESPACE = (5, 14)
"""The first kernel that counts a user's processes separately in each user namespace."""


Program = Callable[[], Callable[[], int]]
"""Loads the code to run isolated; its return value is called once everything is ready."""


class Pipe:
    """Messages from the isolated processes to the guard. Writes are short, hence atomic."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()

    def send(self, word: str, text: object = "") -> None:
        with suppress(BrokenPipeError):
            os.write(self.writer, f"{word} {text}\n".encode(errors="backslashreplace"))


@dataclass(frozen=True, slots=True)
class Start:
    """State passed along the processes that lead to the rule."""

    kind: str
    plan: Plan
    group: ControlGroup
    pipe: Pipe
    program: Program
    life: int
    """Reaches end of file when the guard ends; nothing is written to it."""


def start(kind: str, plan: Plan, group: ControlGroup, pipe: Pipe, program: Program) -> int:
    """Start a process that becomes the rule, or leads to it; returns its pid."""
    life, held = os.pipe()
    pid = os.fork()
    if pid:
        os.close(life)
        return pid  # `held` stays open as long as the guard lives
    try:
        signal.set_wakeup_fd(-1)
        _keep_only(plan.line, pipe.writer, life)
        _become(Start(kind, plan, group, pipe, program, life))
    except Exception as error:  # noqa: BLE001 whatever it is, the guard tries the next kind
        pipe.send(REFUSED, _described(error))
    finally:
        os._exit(1)


def _keep_only(*kept: int) -> None:
    for descriptor in range(3, max(kept) + _SOME):
        if descriptor not in kept:
            with suppress(OSError):
                os.close(descriptor)


def _described(error: Exception) -> str:
    if not isinstance(error, OSError) or not error.strerror:
        return " ".join(f"{type(error).__name__}: {error}".split())
    return error.strerror + (f" ({error.filename})" if error.filename else "")


def _become(start: Start) -> None:
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()  # no signal to its group reaches the guard
    start.group.join()
    with suppress(OSError):  # killed before other processes if the machine runs out of memory
        linux.write("/proc/self/oom_score_adj", "1000")
    if start.kind in BOXES:
        _leave(start)
    else:
        _stay(start)


def _stay(start: Start) -> None:
    """Used where namespaces are not available."""
    plan = start.plan
    os.close(start.life)
    if start.kind == "uid":
        limits.set_limits(plan.memory_bytes, _num_processes(start))
        linux.limit_capabilities(0)
        _change_user(plan.user, plan.work_folder)
    else:
        limits.set_limits(plan.memory_bytes, limits.backstop(plan.num_processes))
        os.chown(plan.work_folder, os.geteuid(), os.getegid())
    if sys.platform == "linux":
        linux.give_up_privileges()
        linux.set_dumpable(True)
    _be_rule(start, plan.work_folder)


def _leave(start: Start) -> None:
    """Enter new namespaces; the next child is the first process in them."""
    plan = start.plan
    spaces = linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWNET | linux.CLONE_NEWIPC
    if start.kind == "user":
        if os.geteuid() == 0:
            _change_user(plan.user)
            linux.set_dumpable(True)  # otherwise its files in /proc belong to root
        user, group = os.geteuid(), os.getegid()
        linux.unshare(spaces | linux.CLONE_NEWUSER)
        linux.map_ids(user, group)
    else:
        linux.unshare(spaces)
    pid = os.fork()
    if pid:
        start.pipe.send(INIT, pid)
        os._exit(0)
    os.setsid()
    if start.kind == "user":
        # The limit of this namespace, not of the machine: no further namespaces inside.
        with suppress(OSError):  # a container may mount it read-only
            linux.write("/proc/sys/user/max_user_namespaces", "0")
    populate(plan, plan.user if start.kind == "root" else None)
    is_exact = start.kind == "root" or _counts_by_namespace()
    limits.set_limits(plan.memory_bytes, _num_processes(start) if is_exact else None)
    if start.kind == "root":
        linux.limit_capabilities(0)
        _change_user(plan.user)
    linux.give_up_privileges()
    linux.set_dumpable(False)  # the rule has the same user, and must not touch init
    _be_init(start)


def _num_processes(start: Start) -> int:
    """A few more than allowed, so that the guard sees the excess and can report it."""
    return start.plan.num_processes + (_SOME if start.group.pids else 2)


def _counts_by_namespace() -> bool:
    major, minor = os.uname().release.split(".")[:2]
    number = int("".join(filter(str.isdigit, minor)) or 0)
    return (int(major), number) >= _COUNTS_BY_NAMESPACE


def _change_user(user: int, work_folder: str | None = None) -> None:
    """Permanent; the scratch folder is handed over."""
    for each in (user, _NOBODY):  # a container maps only a few ids
        with suppress(OSError):
            if work_folder is not None:
                os.chown(work_folder, each, each)
            os.setgroups([])
            os.setresgid(each, each, each)
            os.setresuid(each, each, each)
            return
    raise OSError(0, "no other user is available")


def _be_init(start: Start) -> None:
    """Stay until the rule or the guard has ended; every process in the namespace ends with init."""
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    rule = os.fork()
    if rule == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for end in (woken, wake, start.life):
            os.close(end)
        os.setsid()
        linux.set_dumpable(True)
        _be_rule(start, SCRATCH[0])
        return
    for stream in (0, 1, start.plan.line):
        os.close(stream)  # so that the evaluator notices when the rule closes them
    while True:
        ready, _, _ = select.select([woken, start.life], [], [])
        if start.life in ready:
            os._exit(1)
        with suppress(BlockingIOError):
            os.read(woken, 4096)
        for pid, status in reaped():
            if pid == rule:
                start.pipe.send(ENDED, os.waitstatus_to_exitcode(status))
                os._exit(0)


def reaped() -> Iterator[tuple[int, int]]:
    """Children that have ended, each with its wait status."""
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            yield found


def _be_rule(start: Start, work_folder: str) -> None:
    os.chdir(work_folder)
    settings.work_in(work_folder)
    rule = start.program()
    start.pipe.send(READY)
    os.close(start.pipe.writer)
    code = 1
    try:
        code = rule()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    except BaseException:  # noqa: BLE001 the user's code: reported as Python would
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
