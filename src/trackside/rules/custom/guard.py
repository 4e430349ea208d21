"""`python -m trackside.rules.custom.guard PLAN`: isolates one custom rule and enforces its limits.

Runs outside the isolation, where the rule cannot reach it. It watches what all processes of the
rule use together, ends all of them when a limit is hit or the rule or the evaluator has ended, and
cleans up. It exits as the rule did, or with one of the codes in `confinement.py`.
"""

import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from trackside.rules.custom import isolation, limits, resource_usage
from trackside.rules.custom.confinement import MEMORY, NOT_STARTED, PROCESSES, Plan
from trackside.system import linux_calls as linux
from trackside.system import process_table
from trackside.system.control_group import ControlGroup, make

LOOK_SECONDS = 0.25
_SWEEP_SECONDS = 10.0
_OWN_PROCESSES = 2
"""In namespaces: init, and briefly the process before it."""


def main(arguments: list[str]) -> int:
    guard = Guard(Plan.from_text(arguments[0]))
    try:
        code = guard.run()
    finally:
        guard.end()
    if code < 0:  # end by the same signal, without a core dump
        with suppress(OSError):  # KILL needs no permission
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


class Guard:
    """Call `run`, then `end` in any case."""

    def __init__(self, plan: Plan) -> None:
        limits.dump_no_core()
        self._plan = plan
        self._parent = os.getppid()
        self._woken, wake = os.pipe()
        for end in (self._woken, wake):
            os.set_blocking(end, False)
        self._is_asked = False
        signal.signal(signal.SIGTERM, self._ask)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake)
        if sys.platform == "linux":
            linux.become_subreaper()
            linux.die_with(self._parent, signal.SIGTERM)
        self._group = ControlGroup()
        self._main = 0
        """Of a box its init, else the rule."""
        self._kind = ""
        self._code: int | None = None
        self._said = b""

    def run(self) -> int:
        """The rule's exit code, or minus its signal; or one of the guard's own codes."""
        plan = self._plan
        refusals = []
        if sys.platform == "linux":
            most = plan.memory_bytes + limits.RESERVE_BYTES
            self._group = make(plan.group, most, plan.num_processes + _OWN_PROCESSES)
        for kind in plan.kinds:
            refused = self._start(kind)
            if not refused:
                break
            if hit := self._hit_limit() or (MEMORY if refused.startswith("MemoryError") else 0):
                return hit
            if self._is_asked:
                return 1
            refusals.append(f"{kind}: {refused}")
        else:
            why = "; ".join(refusals) or "this system has no namespaces and no other user for it"
            _say(f"this rule was not started, for it cannot be confined ({why})")
            return NOT_STARTED
        _say(self._description(refusals))
        os.close(self._plan.line)
        os.closerange(0, 2)
        return self._watch()

    def end(self) -> None:
        """End every process of the rule and remove its files."""
        deadline = time.monotonic() + _SWEEP_SECONDS
        while self._has_children() and time.monotonic() < deadline:
            for pid, since in _below().items():
                process_table.signal_exactly(pid, since, signal.SIGKILL)
            time.sleep(0.002)
        self._group.remove()
        if self._kind == "uid":
            _remove_files_of(self._plan.user)
        shutil.rmtree(self._plan.work_folder, ignore_errors=True)

    def _start(self, kind: str) -> str:
        """Start the rule. Returns why that failed, or "" when the rule is about to run."""
        if kind not in isolation.BOXES:
            with suppress(FileExistsError):  # ended by us, for the previous kind
                os.mkdir(self._plan.work_folder, 0o700)
        pipe = isolation.Pipe()
        program = partial(_program, self._plan.line)
        self._main, self._said = isolation.start(kind, self._plan, self._group, pipe, program), b""
        os.close(pipe.writer)
        self._pipe = pipe.reader
        while True:
            word, _, text = self._next_line().partition(" ")
            if word == isolation.INIT:
                self._main = int(text)
            elif word == isolation.READY:
                self._kind = kind
                return ""
            else:
                break
        self._await_end()
        os.close(self._pipe)
        return text if word == isolation.REFUSED else f"it ended before it began {text}".strip()

    def _description(self, refusals: list[str]) -> str:
        """Which isolation is in effect: logged once, in the rule's log."""
        walls = {
            "root": "as a user of its own, without network, with nothing to see but Python",
            "user": "in a user namespace, without network, with nothing to see but Python",
            "uid": "as a user of its own, but with the network and the machine's files",
            "none": "with the network and all files of its user: no namespaces, no other user",
        }[self._kind]
        by = {True: "the kernel", False: "a check four times a second"}
        memory, processes = by[bool(self._group.memory)], by[bool(self._group.pids)]
        why = f" ({'; '.join(refusals)})" if refusals else ""
        how = "unconfined" if self._kind == "none" else "confined"
        return (
            f"this rule runs {how} ({self._kind}): {walls}{why}; memory limited by {memory}, "
            f"processes by {processes}"
        )

    def _watch(self) -> int:
        while not self._is_asked and os.getppid() == self._parent:
            self._reap()
            hit = self._hit_limit()
            if hit:
                return hit
            if self._code is not None:
                return self._code
            self._wait(LOOK_SECONDS)
        return 1

    def _hit_limit(self) -> int:
        group, plan = self._group, self._plan
        if group.memory and group.num_killed:
            return MEMORY
        if group.pids and group.num_refused:
            return PROCESSES
        if self._code is not None or group.memory and group.pids:
            return 0
        pids = resource_usage.tree_of(self._main)
        if not group.memory:
            used = resource_usage.memory_of(pids)
            if self._kind in isolation.BOXES:
                used += resource_usage.space_of(f"/proc/{self._main}/root/tmp")
            if used > plan.memory_bytes + limits.RESERVE_BYTES:
                return MEMORY
        is_boxed = self._kind in isolation.BOXES  # then init is one of them
        if not group.pids and resource_usage.tasks_of(pids) > plan.num_processes + is_boxed:
            return PROCESSES
        return 0

    def _reap(self) -> None:
        for pid, status in isolation.reaped():
            if pid == self._main:
                self._code = os.waitstatus_to_exitcode(status)
        if self._code is None or self._kind not in isolation.BOXES:
            return
        while line := self._next_line():
            word, _, text = line.partition(" ")
            if word == isolation.ENDED:
                self._code = int(text)

    def _next_line(self) -> str:
        """The isolated process's next message; "" at the end, or if the guard should end."""
        while b"\n" not in self._said and not self._is_asked:
            ready, _, _ = select.select([self._pipe, self._woken], [], [])
            self._drain()
            if self._pipe in ready:
                data = os.read(self._pipe, 4096)
                if not data:
                    return ""
                self._said += data
        line, _, self._said = self._said.partition(b"\n")
        return line.decode()

    def _wait(self, seconds: float) -> None:
        select.select([self._woken], [], [], seconds)
        self._drain()

    def _drain(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._woken, 4096)

    def _await_end(self) -> None:
        while self._has_children() and not self._is_asked:
            self._wait(LOOK_SECONDS)

    def _has_children(self) -> bool:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return False
        return True

    def _ask(self, *_: object) -> None:
        self._is_asked = True


def _program(line: int) -> Callable[[], int]:
    from trackside.rules.custom import process  # imported in isolation: proof that it works

    return partial(process.main, line)


def _below() -> dict[int, int]:
    if process_table.PRESENT:
        return process_table.descendants(os.getpid())
    pids = resource_usage.tree_of(os.getpid())[1:]
    found = {pid: process_table.started(pid) for pid in pids}
    return {pid: since for pid, since in found.items() if since is not None}


def _remove_files_of(user: int) -> None:
    """Remove files of a user that no other process has, from world-writable folders."""
    for folder in ("/dev/shm", "/tmp", "/var/tmp"):
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid != user:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        shutil.rmtree(entry.path, ignore_errors=True)
                    else:
                        os.unlink(entry.path)


def _say(text: str) -> None:
    os.write(2, f"trackside: {text}.\n".encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
