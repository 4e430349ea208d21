"""The process sandbox: a plain process with its own /opt/ml, host name and /etc/hosts.

`sandbox_init.py`, one small process per sandbox, runs the command; the two communicate only through
the sandbox's folder: `intent.json`, `process.json`, `exit.json`, `supervisor` and `lock`.
"""

import functools
import marshal
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, cast, get_args

from trackside.errors import SandboxError
from trackside.files.durable import write_record
from trackside.records.death import Gone
from trackside.supervisor.sandbox import (
    Isolation,
    Lost,
    Running,
    Sandbox,
    SandboxPlan,
    SandboxState,
)
from trackside.supervisor.sandbox_folder import (
    EXIT,
    INTENT,
    LOCK,
    Intent,
    Started,
    has_started,
    is_held,
    live_supervisor,
    read_end,
    read_intent,
    read_start,
    try_lock,
)
from trackside.supervisor.sandbox_records import write_supervisor
from trackside.system import process_table, processes
from trackside.system.job_keepers import keeps_job
from trackside.system.processes import Identity, ProcessEnd
from trackside.system.run_as import JobUser

Kind = Literal["root", "user", "none"]
AUTO = "auto"

_SIGKILL = 9
_NONCE = re.compile(r"[A-Za-z0-9._-]{8,128}")
_START_SECONDS = 60.0  # another process may be starting it, on a machine under heavy load
_PACKAGE = Path(__file__).resolve().parent.parent
_INIT_LOG = "init.log"
_KERNEL_FOLDERS = ("/proc", "/sys", "/dev")
RESTARTED = "The machine was restarted while the script ran, or just before."

REASONS: dict[Kind, str] = {
    "root": "Namespaces made as root: a private /opt/ml, host name and /etc/hosts.",
    "user": "A user namespace: a private /opt/ml, host name and /etc/hosts.",
    "none": "No namespaces: the job's folder is in SAGEMAKER_BASE_DIR, there is no /opt/ml.",
}

# Stubs of our packages, so that init imports its two modules without the packages' own imports.
_BOOTSTRAP = """\
import sys
root = sys.argv.pop(1)
for name, path in ("trackside", root), ("trackside.supervisor", root + "/supervisor"):
    sys.modules[name] = type(sys)(name)
    sys.modules[name].__path__ = [path]
__import__(sys.argv.pop(1), fromlist=["main"]).main()
"""


@functools.cache
def available() -> Isolation:
    """The best isolation available to this process, determined by a trial in a child process."""
    kinds = [kind for kind in _ways() if kind != "none"]
    tried: list[str] = []
    if kinds:
        tried = run_init("namespaces", tempfile.gettempdir(), *kinds).splitlines()
    works = [kind for kind in kinds if kind in tried]
    refusals = "; ".join(line for line in tried if ": " in line)
    return _isolation(works[0] if works else "none", refusals)


def can_map(folder: Path, user: JobUser) -> bool:
    """Whether a sandbox can mount this folder as owned by the user: kernel and disk decide."""
    with tempfile.TemporaryDirectory() as stage:
        place = str(folder.resolve())
        return run_init("owner_mapping", stage, place, str(user.uid), str(user.gid)) == "yes"


class ProcessSandbox(Sandbox):
    """Starts the command under its own init, which outlives the caller of `start`.

    Two commands never run for one folder. The starter takes an flock on `lock`, init inherits it
    and holds it until it ends; the kernel releases it however init ends. Init writes `process.json`
    before the command's first instruction. So a holder of the lock that finds no `process.json`
    knows that nothing has run and nothing will; if it exists, nothing is ever started. Only a power
    cut could undo a record, so an intent from an earlier boot is never started either.
    """

    notes = {"none": REASONS["none"]}

    def __init__(self, isolation: str = AUTO) -> None:
        """`isolation` requires one kind; "auto" uses the best that works."""
        if isolation not in (AUTO, *get_args(Kind)):
            known = ", ".join(map(repr, (AUTO, *get_args(Kind))))
            raise SandboxError(f"Unknown isolation {isolation!r}. Known: {known}.")
        self._kinds = _ways() if isolation == AUTO else [cast(Kind, isolation)]
        self._end: ProcessEnd | None = None
        """Of the init of the plan that is waited for."""

    def start(self, plan: SandboxPlan) -> None:
        """Returns when the command is starting, or raises with nothing left behind.

        The caller becomes the supervisor that init watches: a supervisor that takes over calls this
        again, and is then the one restarted with `plan.revive`.
        """
        check_plan(plan)
        folder = plan.folder
        (folder / "stage").mkdir(parents=True, exist_ok=True)
        me = processes.myself()
        write_supervisor(str(folder), me.pid, me.started)
        with start_lock(folder) as lock:
            if lock is None or has_started(folder):
                return
            intent = declare_intent(plan)
            if intent.boot_id != process_table.boot_id():
                return
            kinds = self.kinds_for(plan.user)
            result, _, text = _spawn(plan, kinds, intent.mark, lock).partition("\n")
        if result != "started":
            raise SandboxError(_explain(plan, text))

    def poll(self, plan: SandboxPlan) -> SandboxState | None:
        folder = plan.folder
        if not (folder / INTENT).exists():
            return None
        if end := read_end(folder):
            return end
        intent, start = read_intent(folder), read_start(folder)
        if start is None:
            is_running = has_started(folder) and is_held(folder)  # its record is damaged
        else:
            is_running = processes.is_alive(start.init_identity)
        if is_running:
            return Running()
        # Init writes the end before it exits: so check once more after it is gone.
        return read_end(folder) or _what_became(folder, intent, start)

    def wait(self, plan: SandboxPlan, seconds: float, wake: int | None = None) -> bool:
        if self._end is None:
            start = read_start(plan.folder)
            if start is None:
                time.sleep(seconds)
                return True
            self._end = ProcessEnd(start.init_identity)
        has_ended = self._end.wait(seconds, wake)
        if has_ended:
            self._end.close()
            self._end = None
        return has_ended

    def signal(self, plan: SandboxPlan, number: int) -> None:
        start = read_start(plan.folder)
        if start is None or read_end(plan.folder):
            return
        processes.send_signal(start.command_identity, number, group=True)
        if number == _SIGKILL:
            _kill_below(start.init_identity, spare=live_supervisor(plan.folder))
            processes.sweep(start.mark, spares_jobs=True)

    def kinds_for(self, user: JobUser | None) -> list[Kind]:
        """Kinds of isolation for a command as this user, best first; `SandboxError` without any."""
        if user is None:
            return self._kinds
        if "root" in self._kinds:
            return ["root"]
        if sys.platform != "linux" or os.geteuid() != 0:
            why, way_out = "only root on Linux can do that", "Start the server as root"
        else:
            why = f"the isolation {self._kinds[0]!r} cannot do that"
            way_out = "Unset TRACKSIDE_ISOLATION"
        raise SandboxError(
            f"Scripts are to run as user {user}, and {why}. {way_out}, or leave --run-as "
            "(TRACKSIDE_RUN_AS) away."
        )

    def check_user(self, user: JobUser) -> None:
        self.kinds_for(user)

    def can_map(self, folder: Path, user: JobUser) -> bool:
        return can_map(folder, user)

    @property
    def isolation(self) -> Isolation:
        """What `start` will use. The first call costs a trial of some 15 ms."""
        return available() if len(self._kinds) > 1 else _isolation(self._kinds[0], "")

    def isolation_of(self, plan: SandboxPlan) -> Isolation | None:
        """The isolation of a started sandbox; None before the start."""
        start = read_start(plan.folder)
        if start is None or start.isolation not in REASONS:
            return None
        return _isolation(start.isolation, start.refusals)

    def root_pid(self, plan: SandboxPlan) -> int | None:
        """The process that all others of a started sandbox descend from."""
        start = read_start(plan.folder)
        return None if start is None else start.init.pid


def check_plan(plan: SandboxPlan) -> None:
    if not _NONCE.fullmatch(plan.nonce):
        raise SandboxError(
            f"The nonce {plan.nonce!r} cannot mark processes: use 8 to 128 of A-Z a-z 0-9 . _ -"
        )
    if not plan.command:
        raise SandboxError("The sandbox has no command to start.")
    for target, source in {"/opt/ml": plan.ml, **plan.mounts}.items():
        if not target.startswith("/"):
            raise SandboxError(f"The mount target {target!r} is relative. Give it from / on.")
        if not source.is_dir() and not source.is_file():  # a channel may be a single file
            raise SandboxError(f"There is no folder {str(source)!r} to show as {target!r}.")
        if plan.user is not None and _is_of_kernel(target):
            raise SandboxError(
                f"{target!r} is the kernel's and can be no folder of a job that runs as "
                f"{plan.user}. Choose another path."
            )


def _is_of_kernel(target: str) -> bool:
    place = os.path.realpath(target)
    return any(place == path or place.startswith(path + "/") for path in _KERNEL_FOLDERS)


def _what_became(folder: Path, intent: Intent | None, start: Started | None) -> Lost | None:
    """The state of a sandbox without an init; None if there never was one."""
    known = intent or start
    if known is not None and known.boot_id != process_table.boot_id():
        return Lost(RESTARTED, Gone.MACHINE)
    if not has_started(folder):
        return None
    if known is not None:
        processes.sweep(known.mark, spares_jobs=True)
    if (folder / EXIT).exists():
        return Lost("The script has ended, but the record of how is damaged.", Gone.RECORD)
    if start is None:
        return Lost("The sandbox's records are damaged, and its init is gone.", Gone.RECORD)
    return Lost(f"The sandbox's init (pid {start.init.pid}) was killed, and the script with it.")


@contextmanager
def start_lock(folder: Path) -> Iterator[int | None]:
    """The right to start, as a locked descriptor; None when it was started already."""
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not try_lock(descriptor):
            if has_started(folder):
                yield None
                return
            if time.monotonic() > deadline:
                raise SandboxError(f"Somebody else has been starting {str(folder)!r} for too long.")
            time.sleep(0.005)
        yield descriptor
    finally:
        os.close(descriptor)  # init's copy, if there is one, keeps the lock


def declare_intent(plan: SandboxPlan) -> Intent:
    """Write down, for good, what is about to be started; or read what was written before."""
    intent = read_intent(plan.folder)
    if intent is None:
        # Two jobs of one name, in two homes on one machine, must not sweep each other's processes.
        mark = f"{plan.nonce}.{os.urandom(4).hex()}"
        intent = Intent(plan.nonce, mark, process_table.boot_id(), time.time())
        write_record(plan.folder / INTENT, intent)
    if intent.nonce != plan.nonce:
        raise SandboxError(
            f"The folder {str(plan.folder)!r} belongs to the sandbox {intent.nonce!r}, "
            f"not to {plan.nonce!r}. Give each attempt a folder of its own."
        )
    return intent


def _spawn(plan: SandboxPlan, kinds: list[Kind], mark: str, lock: int) -> str:
    message = {
        "kinds": kinds,
        "folder": str(plan.folder.resolve()),
        "ml": str(plan.ml.resolve()),
        "mounts": [(target, str(source.resolve())) for target, source in plan.mounts.items()],
        "read_only": list(plan.read_only),
        "mapped": list(plan.mapped) if plan.user else [],
        "command": list(plan.command),
        "environment": {**plan.environment, processes.NONCE_VARIABLE: mark},
        "umask": plan.umask,
        "log": str(plan.log.resolve()),
        "log_variable": plan.log_variable,
        "notes": dict(plan.notes),
        "host": plan.host,
        "hosts": "".join(f"{address}\t{name}\n" for name, address in plan.addresses.items()),
        "user": plan.user and plan.user.numbers,
        "mark": mark,
        "groups": list(plan.groups),
        "revive": list(plan.revive),
        "lock": lock,
    }
    with (plan.folder / _INIT_LOG).open("ab") as errors:
        return run_init(
            "sandbox_init", mark, message=marshal.dumps(message), keep=lock, errors=errors
        )


def run_init(
    module: str,
    *arguments: str,
    message: bytes = b"",
    keep: int | None = None,
    errors: Any = subprocess.DEVNULL,
) -> str:
    """Run a module of ours in a bare interpreter and return its output. It may leave a daemon."""
    bare = ["-I", "-S"] if process_table.PRESENT else ["-I"]  # elsewhere psutil is needed
    process = subprocess.Popen(
        [sys.executable, *bare, "-c", _BOOTSTRAP, str(_PACKAGE), f"trackside.supervisor.{module}"]
        + list(arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        pass_fds=() if keep is None else (keep,),
        start_new_session=True,
    )
    output, _ = process.communicate(message)
    return output.decode(errors="replace")


def _explain(plan: SandboxPlan, text: str) -> str:
    if text:
        return f"The surroundings of {plan.host!r} cannot be made: {text}."
    log = str(plan.folder / _INIT_LOG)
    return f"The init of {plan.host!r} ended before it started anything. Its output is in {log!r}."


def _ways() -> list[Kind]:
    if sys.platform != "linux":
        return ["none"]
    return ["root", "user", "none"] if os.geteuid() == 0 else ["user", "none"]


def _isolation(kind: Kind, refusals: str) -> Isolation:
    tried = f" Tried: {refusals}." if refusals else ""
    return Isolation(kind, REASONS[kind] + tried)


def _kill_below(init: Identity, *, spare: int) -> None:
    """Init's descendants, found by their parents: includes those that dropped every mark.

    A restarted supervisor is one of them, and is spared; so are jobs that the script has submitted.
    """
    if not process_table.PRESENT or not processes.is_alive(init):
        return
    found = process_table.descendants(init.pid, without=spare, spares=keeps_job)
    for pid, since in found.items():
        processes.send_signal(Identity(pid, since, init.boot_id), _SIGKILL)
