"""The sandbox of a script that Trackside did not start: the process that called `trackside.init`.

The process is watched, but never started, changed or killed. Its run ends when the process records
that in the host's folder (`caller`), or when it is gone.
"""

import signal
import time
from pathlib import Path

from trackside.errors import SandboxError
from trackside.records import attached_process
from trackside.records.attached_process import AttachedProcessEnd
from trackside.records.layout import HostFolder
from trackside.records.status import Secondary
from trackside.supervisor.sandbox import (
    NO_ISOLATION,
    Exited,
    Isolation,
    Lost,
    Running,
    Sandbox,
    SandboxPlan,
    SandboxState,
)
from trackside.system import processes
from trackside.system.processes import ProcessEnd
from trackside.system.run_as import JobUser

MESSAGES = {
    Secondary.DOWNLOADING: "Attaching to a script that runs already",
    Secondary.UPLOADING: "Uploading the last of its curves and its log",
}
"""Statuses named after what other jobs do in them."""
_REASON = "No sandbox: the script was not started by Trackside."


class AttachedSandbox(Sandbox):
    def __init__(self, folder: HostFolder) -> None:
        self._folder = folder
        self._adopted = folder.sandbox / "adopted"
        self._caller = attached_process.read_caller(folder)
        self._end: ProcessEnd | None = None

    def start(self, plan: SandboxPlan) -> None:
        """It is running already: from here on it is watched."""
        self._adopted.parent.mkdir(parents=True, exist_ok=True)
        self._adopted.touch()

    def poll(self, plan: SandboxPlan) -> SandboxState | None:
        if not self._adopted.exists():
            return None
        if end := self._read_end():
            return end
        if self._caller is None:
            return Lost("It is not recorded which process called trackside.init.")
        if processes.is_alive(self._caller.process):
            return Running()
        # It writes the end before it exits: so check once more after it is gone.
        return self._read_end() or self._read_status() or _lost(self._caller)

    def wait(self, plan: SandboxPlan, seconds: float, wake: int | None = None) -> bool:
        """A run may end although its process continues: the supervisor is woken then."""
        if self._caller is None:
            time.sleep(seconds)
            return True
        if self._end is None:
            self._end = ProcessEnd(self._caller.process)
        has_ended = self._end.wait(seconds, wake) or self._folder.caller_end.exists()
        if has_ended:
            self._end.close()
            self._end = None
        return has_ended

    def signal(self, plan: SandboxPlan, number: int) -> None:
        """Any signal requests the process to stop, as Ctrl-C does. It is never killed: SIGKILL ends
        its run, and the process continues.
        """
        if self._caller is None or self._read_end():
            return
        if number != signal.SIGKILL:
            processes.send_signal(self._caller.process, self._caller.stop_signal)
        elif processes.is_alive(self._caller.process):
            attached_process.write_end(self._folder, AttachedProcessEnd(code=0, let_go=True))

    # What a supervisor needs of any sandbox it has chosen.

    @property
    def isolation(self) -> Isolation:
        return Isolation(NO_ISOLATION, _REASON)

    def isolation_of(self, plan: SandboxPlan) -> Isolation | None:
        return None

    def root_pid(self, plan: SandboxPlan) -> int | None:
        return None if self._caller is None else self._caller.process.pid

    def check_user(self, user: JobUser) -> None:
        raise SandboxError(f"The script runs already, and cannot become user {user}.")

    def can_map(self, folder: Path, user: JobUser) -> bool:
        return False

    def _read_end(self) -> Exited | None:
        end = attached_process.read_end(self._folder)
        return None if end is None else Exited(end.code, seconds=end.seconds)

    def _read_status(self) -> Exited | None:
        status = attached_process.read_status(self._folder)
        return None if status is None else Exited(status)


def _lost(who: attached_process.AttachedProcess) -> Lost:
    return Lost(
        f"The process that called trackside.init (pid {who.process.pid} on {who.machine}) is gone "
        "and did not say how its run ended: it was killed, by hand, by a time limit or for lack "
        "of memory, or it left by os._exit or a crash of native code",
        is_of_script=True,
    )
