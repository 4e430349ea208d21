"""The sandbox seam: the environment in which the supervisor runs a host's script.

`process_sandbox.py` gives a plain process its own /opt/ml; a container is the other implementation.
A sandbox outlives its supervisor: the next one finds it by the folder alone.
"""

import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import ClassVar

from trackside.quick_dataclass import dataclass
from trackside.records.death import Gone
from trackside.system.run_as import JobUser


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPlan:
    """Everything a sandbox needs to know. JSON-safe except for the paths."""

    folder: Path
    """The sandbox's own records go here; one folder per host and attempt."""
    ml: Path
    """The folder that the script sees as /opt/ml."""
    mounts: Mapping[str, Path] = field(default_factory=dict)
    """Further paths the script sees, each with the folder behind it: a local channel,
    a checkpoint or TensorBoard folder outside /opt/ml. Read-write unless listed in `read_only`."""
    read_only: frozenset[str] = frozenset()
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """The whole environment of the command; nothing else leaks in."""
    umask: int | None = None
    """Of the command; None: that of the process which starts it."""
    log: Path
    """Standard output and error are appended here, as they come, by the sandbox alone."""
    log_variable: str = ""
    """The variable that has the descriptor from which the command can read its own log, if any."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """A line for the log before the command's first, by the isolation that the sandbox has got."""
    host: str = "algo-1"
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Host name to IP address for every host of the job."""
    user: JobUser | None = None
    """The user of the command; None: the caller's. It owns `ml` and what it may write to."""
    mapped: frozenset[str] = frozenset()
    """Mounts with files of ours that are shown as owned by the user."""
    nonce: str = ""
    """Marks every process of this sandbox, so that it can be recognised and swept."""
    groups: Sequence[str] = ()
    """Folders of the control groups that the command is to be in."""
    revive: Sequence[str] = ()
    """The command that starts this host's supervisor again, should it die while the script runs."""


@dataclass(frozen=True, slots=True)
class Running:
    pass


@dataclass(frozen=True, slots=True)
class Exited:
    code: int
    """The command's exit code; a signal is its negative number."""
    out_of_memory: bool = False
    """The kernel's memory limit killed a process of this sandbox (read from the cgroup)."""
    seconds: float | None = field(default=None, compare=False)
    """How long the command ran, where that was recorded."""


@dataclass(frozen=True, slots=True)
class Lost:
    """No process and no exit record: the machine went down, or everything was killed."""

    reason: str
    gone: Gone = Gone.PROCESSES
    is_of_script: bool = False
    """The script ended by itself, and no more is known; the sandbox is not at fault."""


SandboxState = Running | Exited | Lost

NO_ISOLATION = "none"


@dataclass(frozen=True, slots=True)
class Isolation:
    """How a sandbox separates the script from the machine."""

    kind: str
    """A word for records and tests; each sandbox has its own."""
    reason: str
    """One sentence for the log."""

    @property
    def can_mount(self) -> bool:
        """Whether the script sees folders under other paths than their own."""
        return self.kind != NO_ISOLATION


class Sandbox(ABC):
    """One host's script and all processes it starts. Every call returns promptly."""

    notes: ClassVar[Mapping[str, str]] = {}
    """What its users should know of an isolation, for `SandboxPlan.notes`."""

    @abstractmethod
    def start(self, plan: SandboxPlan) -> None:
        """Start the command, unless this sandbox has started before.

        The last caller is the supervisor that `revive` restarts: one that takes over calls this
        too.
        """

    @abstractmethod
    def poll(self, plan: SandboxPlan) -> SandboxState | None:
        """None before start. Read from disk, so any process may call it."""

    @abstractmethod
    def wait(self, plan: SandboxPlan, seconds: float, wake: int | None = None) -> bool:
        """Wait for so long, or until a started command may have ended: then returns True; call
        `poll`.

        Returns early when the descriptor `wake` can be read.
        """

    @abstractmethod
    def signal(self, plan: SandboxPlan, number: int) -> None:
        """Signal the whole process group; SIGKILL reaches every process, wherever it moved to.

        A sandbox that is already gone counts as success.
        """

    @property
    @abstractmethod
    def isolation(self) -> Isolation:
        """What `start` will give. The first call may try it, in some 15 ms."""

    @abstractmethod
    def isolation_of(self, plan: SandboxPlan) -> Isolation | None:
        """What a started sandbox has got; None before start."""

    @abstractmethod
    def root_pid(self, plan: SandboxPlan) -> int | None:
        """The process of this machine that all others of a started sandbox descend from."""

    @abstractmethod
    def check_user(self, user: JobUser) -> None:
        """`SandboxError` where scripts cannot run as this user, with the way out."""

    @abstractmethod
    def can_map(self, folder: Path, user: JobUser) -> bool:
        """Whether the script can be shown this folder of ours as the user's own."""


class Termination:
    """Ends a script as in the contract: SIGTERM, the grace period, then SIGKILL. Times are
    monotonic.
    """

    def __init__(self, sandbox: Sandbox, plan: SandboxPlan, grace_seconds: float) -> None:
        self._sandbox = sandbox
        self._plan = plan
        self._grace_seconds = grace_seconds
        self._requested_at: float | None = None
        self._is_killed = False

    @property
    def was_requested(self) -> bool:
        return self._requested_at is not None

    def request(self, now: float) -> None:
        """Only the first call has an effect."""
        if self._requested_at is None:
            self._requested_at = now
            self._sandbox.signal(self._plan, signal.SIGTERM)

    def tick(self, now: float) -> None:
        if self._requested_at is None or self._is_killed:
            return
        if now - self._requested_at >= self._grace_seconds:
            self._is_killed = True
            self._sandbox.signal(self._plan, signal.SIGKILL)
