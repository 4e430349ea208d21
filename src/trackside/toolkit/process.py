"""Runs one command in its own process group: streams, stop signals, and no process left running.

The command's output is passed on byte for byte; the end of its standard error is saved for the
failure text.
"""

from __future__ import annotations

import os
import select
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import NamedTuple

from trackside.errors import StoppedEarly
from trackside.toolkit import log
from trackside.toolkit.machine import processes

TAIL_BYTES = 256 * 1024
LEFTOVER_GRACE_SECONDS = 5.0

_STOPPING = (signal.SIGTERM, signal.SIGINT)
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126  # as a shell reports them


class Ended(NamedTuple):
    code: int
    """Exit code; a signal is its negative number."""
    output: str
    """The end of its standard error."""


class StopSignals:
    """SIGTERM and SIGINT go to the running group; before any script they end the job.

    Process 1 of a container would ignore them without a handler.
    """

    def __init__(self) -> None:
        self.received = 0
        self._deliver: Callable[[int], None] | None = None

    def install(self) -> None:
        for number in _STOPPING:
            signal.signal(number, self._arrived)

    def deliver_by(self, deliver: Callable[[int], None] | None) -> None:
        """The process that gets signals from now on; None: there is none yet, and the job ends."""
        self._deliver = deliver

    def only_remember(self) -> None:
        self._deliver = lambda _number: None

    def forward_to_own_group(self) -> None:
        """For code that runs inside this process and starts processes of its own."""
        self._deliver = self._signal_own_group

    def start_group(
        self, spawn: Callable[[], int], deliver: Callable[[int], None] | None = None
    ) -> int:
        """Start the group's leader; no signal is lost between its start and our knowing it."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
        try:
            group = spawn()
            self._deliver = deliver or partial(signal_group, group)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return group

    @property
    def name(self) -> str:
        return signal.Signals(self.received).name

    def _arrived(self, number: int, _frame: FrameType | None) -> None:
        self.received = number
        if self._deliver is None:
            raise StoppedEarly(self.name)
        self._deliver(number)

    def _signal_own_group(self, number: int) -> None:
        signal.signal(number, signal.SIG_IGN)
        signal_group(os.getpgrp(), number)
        signal.signal(number, self._arrived)


def run(
    command: list[str],
    variables: Mapping[str, str],
    signals: StopSignals,
    *,
    deliver: Callable[[int], None] | None = None,
    started: Callable[[], None] | None = None,
) -> Ended:
    """Run it in the current folder to its end, and to the end of its process group.

    Processes it leaves running are terminated, as at a container's end. After a stop signal they
    are waited for instead: its sender also sets the limit. `deliver` passes stop signals on if the
    whole group would be wrong. `started` is for what its start need not wait for.
    """
    with _open_tail() as tail, _child_events() as events:
        try:
            group = signals.start_group(lambda: _spawn(command, variables, tail), deliver)
        except OSError as refused:
            return _refusal(command, refused)
        try:
            tail.started()
            if started is not None:
                started()
            code = _wait_for_leader(group, events, tail)
            _wait_for_group(group, signals, tail)
        finally:
            signals.deliver_by(None)
        return Ended(code, tail.text())


def signal_group(group: int, number: int) -> None:
    """Signal all of them; a group that is gone counts as success."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


class _Tail(ABC):
    """The end of the standard error of one command."""

    descriptor: int
    """What the command gets as its standard error."""
    source: int | None
    """What has to be pumped while it runs."""

    @abstractmethod
    def started(self) -> None: ...

    @abstractmethod
    def pump(self) -> None: ...

    @abstractmethod
    def text(self) -> str: ...

    @abstractmethod
    def close(self) -> None: ...


class _FileTail(_Tail):
    """The log can be read: the command writes there itself, and we read it afterwards."""

    descriptor = 2
    source = None

    def __init__(self, file: int) -> None:
        self._file = file
        log.settle()
        self._start = os.fstat(file).st_size

    def started(self) -> None:
        pass

    def pump(self) -> None:
        pass

    def text(self) -> str:
        log.settle()
        size = os.fstat(self._file).st_size
        start = max(self._start, size - TAIL_BYTES)
        return os.pread(self._file, max(0, size - start), start).decode(errors="replace")

    def close(self) -> None:
        os.close(self._file)


class _PipeTail(_Tail):
    """Standard error is a pipe or a terminal: output is passed on as it arrives."""

    def __init__(self) -> None:
        self._readable, self.descriptor = os.pipe()
        self.source = self._readable
        os.set_blocking(self._readable, False)
        self._kept = bytearray()

    def started(self) -> None:
        os.close(self.descriptor)
        self.descriptor = -1

    def pump(self) -> None:
        with suppress(BlockingIOError):
            while piece := os.read(self._readable, 65536):
                log.write_all(2, piece)
                self._kept += piece
                del self._kept[:-TAIL_BYTES]

    def text(self) -> str:
        self.pump()
        return self._kept.decode(errors="replace")

    def close(self) -> None:
        os.close(self._readable)
        if self.descriptor >= 0:
            os.close(self.descriptor)


@contextmanager
def _open_tail() -> Iterator[_Tail]:
    file = log.open_for_reading()
    tail = _PipeTail() if file is None else _FileTail(file)
    try:
        yield tail
    finally:
        tail.close()


@contextmanager
def _child_events() -> Iterator[int]:
    """A descriptor that becomes readable whenever a child ends or a signal arrives."""
    readable, written = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(written, False)
    old_handler = signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    old_wakeup = signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    try:
        yield readable
    finally:
        signal.set_wakeup_fd(old_wakeup)
        signal.signal(signal.SIGCHLD, old_handler)
        os.close(readable)
        os.close(written)


def _spawn(command: list[str], variables: Mapping[str, str], tail: _Tail) -> int:
    actions: list[tuple[object, ...]] = [(os.POSIX_SPAWN_DUP2, tail.descriptor, 2)]
    if os.isatty(0):
        # A background group that reads the terminal would be stopped by it for ever.
        actions.append((os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0))
    return os.posix_spawn(
        command[0],
        command,
        variables,
        file_actions=actions,
        setpgroup=0,
        setsigmask=(),
        setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # Python itself ignores these two
    )


def _wait_for_leader(leader: int, events: int, tail: _Tail) -> int:
    poller = select.poll()
    poller.register(events, select.POLLIN)
    if tail.source is not None:
        poller.register(tail.source, select.POLLIN)
    while (code := _reap(leader)) is None:
        for descriptor, happened in poller.poll():
            if descriptor == events:
                os.read(events, 4096)
            elif happened & select.POLLIN:
                tail.pump()
            else:  # closed by all writers
                poller.unregister(descriptor)
    return code


def _reap(leader: int) -> int | None:
    """Collect every child that ended, orphans too when we are process 1; the leader's code."""
    code = None
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == leader:
                code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    return code


def _wait_for_group(group: int, signals: StopSignals, tail: _Tail) -> None:
    deadline = None
    is_asked = False
    while _is_alive(group):
        now = time.monotonic()
        if signals.received:
            deadline = None
        elif not is_asked:
            log.warning("The script ended and left processes running; they are stopped now.")
            signal_group(group, signal.SIGTERM)
            is_asked, deadline = True, now + LEFTOVER_GRACE_SECONDS
        elif deadline is not None and now >= deadline:
            signal_group(group, signal.SIGKILL)
        time.sleep(0.01)
        tail.pump()
        _reap(group)


def _is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # members exist, under another user; macOS: or are all zombies
        pass
    # Zombies count for the kernel; those never collected would be waited for for ever.
    members = [process for process in processes() if process.group == group]
    return any(process.state not in "ZX" for process in members) if members else True


def _refusal(command: list[str], refused: OSError) -> Ended:
    """What a shell would return: 127 when something is missing, 126 otherwise."""
    code = _NOT_FOUND if isinstance(refused, FileNotFoundError) else _NOT_EXECUTABLE
    return Ended(code, f"{command[0]}: {os.strerror(refused.errno or 0)}")
