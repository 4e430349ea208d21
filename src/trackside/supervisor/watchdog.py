"""Keeps a supervisor alive while the script runs: notices its death and restarts it.

Runs inside the sandbox's init, so it imports nothing slow.
"""

# The C half of `signal`; the other half imports enum, which takes milliseconds.
import _signal  # type: ignore[import-not-found]
import os
import time

from trackside.supervisor.sandbox_command import reset_signals
from trackside.supervisor.sandbox_records import write_supervisor
from trackside.system import process_table
from trackside.system.process_table import started

REVIVE_PAUSES_SECONDS = (0, 1, 2, 5, 15, 60)
"""Pauses before each restart; the last one for all further ones."""
STABLE_AFTER_SECONDS = 600.0
"""A supervisor that lived this long starts again with the first pause."""


def is_due(num_revivals: int, seconds_since_last: float) -> bool:
    """Whether the next restart is due. Pure."""
    last = len(REVIVE_PAUSES_SECONDS) - 1
    return seconds_since_last >= REVIVE_PAUSES_SECONDS[min(num_revivals, last)]


class Watchdog:
    """Watches the process named in the folder's file `supervisor`: its pid and its start.

    A supervisor that takes over writes that file (in `ProcessSandbox.start`). A pid with its start
    is watched, not a lock or a pipe: those are inherited by every child that the supervisor forks,
    and would outlive it.
    """

    def __init__(self, folder: str, command: list[str]) -> None:
        self._folder = folder
        self._command = command
        self._num_revivals = 0
        self._last = -STABLE_AFTER_SECONDS
        self._child: tuple[int, int | None] = (0, None)
        self._watched: tuple[int, int] | None = None
        self.descriptor: int | None = None
        """Can be read when the supervisor has died: then `tick` is due. None: poll instead."""

    @property
    def child(self) -> int:
        """The pid of a live supervisor that was started here, and so is our child; or 0."""
        pid, since = self._child
        return pid if since is not None and started(pid) == since else 0

    def tick(self, *, last: bool = False) -> None:
        """Check once. `last` ignores the pause: there will be no other check."""
        if not self._command:
            return
        now = time.monotonic()
        if self._is_alive():
            if now - self._last > STABLE_AFTER_SECONDS:
                self._num_revivals = 0
            return
        if last or is_due(self._num_revivals, now - self._last):
            self._num_revivals += 1
            self._last = now
            try:
                self._revive()
            except OSError:
                return  # no disk space or no process available; the script must not suffer

    def _is_alive(self) -> bool:
        record = process_table.read(f"{self._folder}/supervisor").split()
        if not record:
            # The folder was removed. The descriptor of a supervisor that is gone, too, can be read
            # at any time: nobody would ever wait again.
            self._unwatch()
            return True
        try:
            pid, since = map(int, record)
        except ValueError:
            return False  # damaged; the supervisor that is started now writes it again
        self._watch(pid, since)
        if started(pid) == since:
            return True
        self._unwatch()
        return False

    def _watch(self, pid: int, since: int) -> None:
        if self._watched == (pid, since):
            return
        self._unwatch()
        try:
            self.descriptor = os.pidfd_open(pid)
        except (OSError, AttributeError):  # gone, macOS, or before Linux 5.3
            return
        self._watched = (pid, since)

    def _unwatch(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
        self.descriptor = self._watched = None

    def wake(self) -> None:
        """Have the supervisor check the log."""
        if self.descriptor is not None:
            try:
                _signal.pidfd_send_signal(self.descriptor, process_table.WAKE_SIGNAL)
            except OSError:
                return  # it has died, or may not be signalled; it polls by itself

    def _revive(self) -> None:
        log = os.open(f"{self._folder}/init.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                reset_signals()
                for stream in (1, 2):
                    os.dup2(log, stream)
                os.execvp(self._command[0], self._command)
            except OSError as error:
                os.write(2, f"{self._command[0]!r}: {error.strerror}\n".encode())
            finally:
                os._exit(127)
        os.close(log)
        self._child = (pid, started(pid))
        write_supervisor(self._folder, pid, self._child[1] or 0)
