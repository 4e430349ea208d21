"""The walls around a custom rule: from the guard's fork to the rule's first line.

In namespaces three processes follow each other: one that leaves the machine's namespaces, an init
that populates the new ones and stays, and the rule. Their messages to the guard go through one
pipe, a line each; `guard.py` reads it. `isolated_root.py` has what there is to see. What is
given up here cannot be had again.
"""

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from trackside import settings
from trackside.rules.custom import limits
from trackside.rules.custom.confinement import SCRATCH, Plan
from trackside.rules.custom.isolated_root import populate
from trackside.system import linux_calls as linux
from trackside.system.control_group import ControlGroup

BOXES = ("root", "user")
"""The kinds that have namespaces, and so an init."""
INIT, READY, REFUSED, ENDED = "init", "ready", "refused", "ended"
"""First words of messages to the guard."""

_NOBODY = 65534
_SOME = 64
"""More descriptors than the guard opens; more processes than are on the way to the rule."""
_COUNTS_BY_NAMESPACE = (5, 14)
"""The kernel from which on a user's processes are counted in each user namespace apart."""


Program = Callable[[], Callable[[], int]]
"""Loads what is to run in the box; what it returns is called when all is ready."""


class Pipe:
    """Where the guard hears from the box. Writes are short, and so none is torn."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()

    def send(self, word: str, text: object = "") -> None:
        with suppress(BrokenPipeError):
            os.write(self.writer, f"{word} {text}\n".encode(errors="backslashreplace"))


@dataclass(frozen=True, slots=True)
class Start:
    """What the processes on the way to the rule hand to each other."""

    kind: str
    plan: Plan
    group: ControlGroup
    pipe: Pipe
    program: Program
    life: int
    """Ends when the guard does; nothing writes to it."""


def start(kind: str, plan: Plan, group: ControlGroup, pipe: Pipe, program: Program) -> int:
    """The pid of a new process that becomes the rule, or leads to it."""
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
    with suppress(OSError):  # before anybody else's process, should the machine run out of memory
        linux.write("/proc/self/oom_score_adj", "1000")
    if start.kind in BOXES:
        _leave(start)
    else:
        _stay(start)


def _stay(start: Start) -> None:
    """Where there are no namespaces to be had."""
    plan = start.plan
    os.close(start.life)
    if start.kind == "uid":
        limits.set_limits(plan.memory_bytes, _num_processes(start))
        linux.limit_capabilities(0)
        _change_user(plan.user, plan.desk)
    else:
        limits.set_limits(plan.memory_bytes, limits.backstop(plan.num_processes))
        os.chown(plan.desk, os.geteuid(), os.getegid())
    if sys.platform == "linux":
        linux.give_up_privileges()
        linux.set_dumpable(True)
    _be_rule(start, plan.desk)


def _leave(start: Start) -> None:
    """Into new namespaces, of which the process after this one is the first inhabitant."""
    plan = start.plan
    spaces = linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWNET | linux.CLONE_NEWIPC
    if start.kind == "user":
        if os.geteuid() == 0:
            _change_user(plan.user)
            linux.set_dumpable(True)  # its files in /proc are root's otherwise
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
        # Of this namespace, not of the machine: nothing in here makes another one.
        with suppress(OSError):  # a container may show it read-only
            linux.write("/proc/sys/user/max_user_namespaces", "0")
    populate(plan, plan.user if start.kind == "root" else None)
    is_exact = start.kind == "root" or _counts_by_namespace()
    limits.set_limits(plan.memory_bytes, _num_processes(start) if is_exact else None)
    if start.kind == "root":
        linux.limit_capabilities(0)
        _change_user(plan.user)
    linux.give_up_privileges()
    linux.set_dumpable(False)  # the rule has the same user, and no business in init
    _be_init(start)


def _num_processes(start: Start) -> int:
    """A few more than are allowed: the guard is to see that there are too many, and say so."""
    return start.plan.num_processes + (_SOME if start.group.pids else 2)


def _counts_by_namespace() -> bool:
    major, minor = os.uname().release.split(".")[:2]
    number = int("".join(filter(str.isdigit, minor)) or 0)
    return (int(major), number) >= _COUNTS_BY_NAMESPACE


def _change_user(user: int, desk: str | None = None) -> None:
    """For good; the desk comes along."""
    for each in (user, _NOBODY):  # a container knows few numbers
        with suppress(OSError):
            if desk is not None:
                os.chown(desk, each, each)
            os.setgroups([])
            os.setresgid(each, each, each)
            os.setresuid(each, each, each)
            return
    raise OSError(0, "no other user can be had")


def _be_init(start: Start) -> None:
    """Stay until the rule or the guard has ended; all that is in here ends with us."""
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
        os.close(stream)  # the evaluator is to see when the rule lets go of them
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


def _be_rule(start: Start, desk: str) -> None:
    os.chdir(desk)
    settings.work_in(desk)
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
