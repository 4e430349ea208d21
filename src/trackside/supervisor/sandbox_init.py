"""The sandbox's init: starts one command, outlives the supervisor, records how the command ended.

`process_sandbox.py` starts it with `python -I -S` and sends the plan through a pipe, by marshal:
json, signal, dataclasses and typing would each add milliseconds to the start of every job.
`sandbox_command.py` has the command's side of the start, `watchdog.py` restarts the supervisor.
"""

import _signal  # type: ignore[import-not-found]  # the C half of `signal`
import os
import select
import sys
import time

from trackside.supervisor.log_pump import PIECE_BYTES, RETRY_SECONDS, LogPump
from trackside.supervisor.sandbox_command import Command, Plan, Refused, describe, prepare
from trackside.supervisor.sandbox_records import record_end, record_start, reserve_end
from trackside.supervisor.watchdog import Watchdog
from trackside.system import process_table
from trackside.system.job_keepers import keeps_job

if sys.platform == "linux":
    from trackside.system.linux_calls import become_subreaper
if not process_table.PRESENT:
    from trackside.system import processes

TICK_SECONDS = 2.0
"""Between checks of the supervisor, …"""
WATCHED_SECONDS = 15.0
"""… and where the kernel reports its death."""
SILENT_SECONDS = 1.0
"""After so long without output, the next output wakes the supervisor, which may pause for long."""
SWEEP_SECONDS = 10.0
_EMPTY_TABLES = 2
"""So often nothing to kill is found: in the first table an orphan's parent may be just gone."""

_BREATH_SECONDS = 0.005
"""Between two reads of output that comes in small pieces."""
_MUCH_BYTES = PIECE_BYTES // 4
"""After so much the pipe is read again at once: its writer may be waiting."""
_SIGKILL = 9
_IGNORED = (1, 2, 3, 15)  # HUP, INT, QUIT, TERM: only the end of the command ends init


def main() -> None:
    """Detach, start the command, report to the starter, and stay until all its processes ended."""
    plan = Plan(0)
    # Held until init ends, for whatever reason: while it is held, no second command is started.
    os.set_inheritable(plan.lock, False)
    if os.fork():
        os._exit(0)
    for number in _IGNORED:
        _signal.signal(number, _signal.SIG_IGN)
    try:
        ooms = _num_oom_kills()
        pump = LogPump(plan.log)
        command = _start(plan, pump)
    except OSError as error:
        _report(f"error\n{describe(error)}")
        return
    _keep(plan, command, pump, ooms)


def _start(plan: Plan, pump: LogPump) -> Command:
    """Prepare the command with the first isolation that works, record it, then release it.

    The record exists before the command's first instruction: a folder without a record has run
    nothing. It needs no fsync: a power cut that loses the record ends the command as well, and an
    intent from an earlier boot is not started again.
    """
    if sys.platform == "linux":
        become_subreaper()
    reserve_end(plan.folder)
    log = pump.open_for_reading()
    refusals: list[str] = []
    for kind in plan.kinds:
        try:
            command = prepare(plan, kind, pump.writable, log)
        except Refused as error:
            refusals.append(f"{kind}: {error.strerror}")
            continue
        os.close(log)
        if kind in plan.notes:
            pump.say(plan.notes[kind] + (f" Tried: {'; '.join(refusals)}." if refusals else ""))
        record_start(plan.folder, plan.mark, command.pid, kind, "; ".join(refusals))
        command.release()
        _report("started")
        return command
    raise OSError(0, "; ".join(refusals))


def _keep(plan: Plan, command: Command, pump: LogPump, ooms: int) -> None:
    """Watch command and supervisor, then sweep, record the end and exit."""
    began, began_at = time.monotonic(), time.time()
    null = os.open("/dev/null", os.O_RDWR)
    for stream in (0, 1):
        os.dup2(null, stream)
    keeper = Watchdog(plan.folder, plan.revive)
    keeper.tick()
    waiter = Waiter(command.child, pump, keeper)
    while (code := waiter.wait()) is None:
        keeper.tick()
    code = command.code(code)
    _sweep(plan.mark, keeper)
    pump.finish()
    oom = code != 0 and (_num_oom_kills() > ooms or _was_killed(plan.groups))
    record_end(plan.folder, code, oom, began_at, time.monotonic() - began)
    keeper.tick(last=True)


class Waiter:
    """Waits for the command, moves its output, and reaps every orphan."""

    def __init__(self, pid: int, pump: LogPump, keeper: Watchdog) -> None:
        self._pid = pid
        self._pump = pump
        self._keeper = keeper
        self._moved_at = time.monotonic()
        self._end: select.poll | None = None
        try:
            descriptor = os.pidfd_open(pid)
        except (OSError, AttributeError):  # macOS, before Linux 5.3, or a Python built for one
            return
        self._end = select.poll()
        self._end.register(descriptor, select.POLLIN)
        self._any = select.poll()
        self._any.register(descriptor, select.POLLIN)
        self._any.register(pump.readable, select.POLLIN)

    def wait(self) -> int | None:
        """The command's exit code, or minus its signal; None when it still runs, and it is time to
        check the supervisor.
        """
        supervisor = None if self._end is None else self._keeper.descriptor
        if supervisor is None:
            return self._wait_until(time.monotonic() + TICK_SECONDS)
        self._any.register(supervisor, select.POLLIN)
        try:
            return self._wait_until(time.monotonic() + WATCHED_SECONDS, supervisor)
        finally:
            self._any.unregister(supervisor)

    def _wait_until(self, deadline: float, supervisor: int | None = None) -> int | None:
        while True:
            is_due = self._rest(deadline, supervisor)
            code = self._reap()
            if code is not None or is_due or time.monotonic() >= deadline:
                return code

    def _rest(self, deadline: float, supervisor: int | None) -> bool:
        """Until something happens; many small writes are moved together. Returns whether the
        supervisor ended.
        """
        if moved := self._pump.step():
            self._note_output()
        if self._end is None:
            time.sleep(0 if moved >= _MUCH_BYTES else _BREATH_SECONDS)
            return False
        if moved >= _MUCH_BYTES or (moved and self._end.poll(_BREATH_SECONDS * 1000)):
            return False
        left = max(0.0, deadline - time.monotonic())
        if self._pump.is_holding:
            left = min(left, RETRY_SECONDS)
        return any(descriptor == supervisor for descriptor, _ in self._any.poll(left * 1000))

    def _note_output(self) -> None:
        now = time.monotonic()
        if now - self._moved_at >= SILENT_SECONDS:
            self._keeper.wake()
        self._moved_at = now

    def _reap(self) -> int | None:
        code = None
        while dead := _next_dead_child():
            if dead[0] == self._pid:
                code = os.waitstatus_to_exitcode(dead[1])
        return code


def _sweep(mark: str, keeper: Watchdog) -> None:
    """Kill everything the command left, but no job that it has submitted. Orphans become our
    children, so nothing can hide."""
    if not process_table.PRESENT:
        processes.sweep(mark, spares_jobs=True)
        return
    deadline = time.monotonic() + SWEEP_SECONDS
    num_empty = 0
    while _has_children() and time.monotonic() < deadline:
        found = process_table.descendants(os.getpid(), without=keeper.child, spares=keeps_job)
        for pid, since in found.items():
            process_table.signal_exactly(pid, since, _SIGKILL)
        num_empty = 0 if found else num_empty + 1
        if num_empty == _EMPTY_TABLES:
            return  # only supervisors and other jobs are left
        time.sleep(0.002)


def _has_children() -> bool:
    """The proof that nothing is left: without a child there is no descendant either."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _next_dead_child() -> tuple[int, int] | None:
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def _num_oom_kills() -> int:
    """Processes killed by the OOM killer in our cgroup; without one, on the whole machine."""
    groups = {}
    for line in process_table.read("/proc/self/cgroup").decode().splitlines():
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


def _was_killed(groups: list[str]) -> bool:
    """Whether the command, in its own groups, exceeded its memory limit."""
    names = ("memory.events", "memory.oom_control")
    return any(sum(_counter(f"{folder}/{name}")) for folder in groups for name in names)


def _counter(path: str) -> list[int]:
    lines = process_table.read(path).splitlines()
    return [int(line.split()[1]) for line in lines if line.startswith(b"oom_kill ")]


def _report(text: str) -> None:
    try:
        os.write(1, text.encode(errors="surrogateescape"))
    except BrokenPipeError:
        return  # the starter has died; the next one finds the record
