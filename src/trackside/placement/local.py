"""Supervisors, and other programs, as processes of this machine that outlive their starter."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO, ClassVar

from trackside.files.permissions import private_opener
from trackside.placement.placement import Exited, Group, Handle, Placement, Poll, Running
from trackside.placement.standby import take
from trackside.records.group import loopback_addresses, loopback_interface
from trackside.records.placed import LOCAL
from trackside.system import process_table, processes
from trackside.system.processes import Identity

# Both print the pid and then become the command; stdout is the way back, stderr is the log.
_BY_SHELL = 'echo $$ && exec "$@" >&2'
_BY_PYTHON = """\
import os, sys
if os.fork():
    os._exit(0)
os.setsid()
os.write(1, b"%d\\n" % os.getpid())
os.dup2(2, 1)
os.environ.pop(sys.argv[1], None)
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(f"{sys.argv[2]!r} cannot be started: {error.strerror}")
"""
_SET_BY_SHELLS = ("PWD", "OLDPWD", "SHLVL", "_")
_END_SECONDS = 5.0
_PAUSE_SECONDS = 0.005


class LocalPlacement(Placement):
    """Starts supervisors without a parent of ours, each in a session of its own.

    So no zombie stays in a notebook or a server, a stop button that kills a tree of processes does
    not find the supervisor, and a closed terminal does not reach it. The price is that no process
    learns its exit code; what became of the job is in the job's folder.
    """

    name: ClassVar[str] = LOCAL
    shares_files: ClassVar[bool] = True

    def start(self, group: Group) -> Handle:
        started: dict[str, Identity] = {}
        try:
            for host in group.hosts:
                command = [*group.command, *host.arguments]
                environment = {**group.environment, **host.environment}
                started[host.name] = start_detached(command, environment, host.log, ready=True)
        except BaseException:
            _end(started.values())
            raise
        return {"job": group.job, "hosts": {name: asdict(each) for name, each in started.items()}}

    def poll(self, handle: Handle) -> dict[str, Poll]:
        return {
            host: Running() if processes.is_alive(identity) else Exited(None)
            for host, identity in _identities(handle).items()
        }

    def addresses(self, handle: Handle) -> dict[str, str]:
        return loopback_addresses(str(handle.get("job", "")), [*_identities(handle)])

    def interface(self, handle: Handle) -> str:
        return loopback_interface()

    def offers(self) -> list[str]:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
        return [f"this machine: {os.cpu_count()} cores, {memory:.0f} GB"]

    def stop(self, handle: Handle, *, host: str | None = None, force: bool = False) -> None:
        for name, identity in _identities(handle).items():
            if host in (None, name):
                processes.send_signal(identity, signal.SIGKILL if force else signal.SIGTERM)


def start_detached(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path | None,
    *,
    ready: bool = False,
) -> Identity:
    """Start a program with exactly this environment; it outlives the caller.

    `ready`: one that stands by for this program may take the place of a new process.
    """
    with open(log or os.devnull, "ab", opener=private_opener) as output:
        standby = take() if ready else None
        pid = standby.start(command, environment, Path(output.name)) if standby else None
        if pid is None:
            pid = _launch(command, environment, output)
    # One that has ended already keeps a start of 0, which no process has.
    return processes.identify(pid) or Identity(pid, 0, process_table.boot_id())


def _end(identities: Iterable[Identity]) -> None:
    """Kill these and wait until they are gone. A supervisor that was just started has no script:
    it waits for the others first."""
    killed = list(identities)
    for identity in killed:
        processes.send_signal(identity, signal.SIGKILL)
    deadline = time.monotonic() + _END_SECONDS
    while any(map(processes.is_alive, killed)) and time.monotonic() < deadline:
        time.sleep(_PAUSE_SECONDS)


def _launch(command: Sequence[str], environment: Mapping[str, str], output: BinaryIO) -> int:
    launcher = subprocess.run(
        _launch_command(command, environment),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=output,
        start_new_session=True,
        check=True,
    )
    return int(launcher.stdout)


def _launch_command(command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """What forks once more and leaves: 2 ms by setsid, which does so as a group's leader.

    Forking twice in this process would do, but is not safe beside threads, and a bare interpreter
    takes 10 ms; it is used where there is no setsid, or `env` would misread the command.
    """
    setsid, env = shutil.which("setsid"), shutil.which("env")
    if setsid is None or env is None or "=" in command[0]:
        added = "" if "LC_CTYPE" in environment else "LC_CTYPE"  # by the interpreter, see PEP 538
        return [sys.executable, "-I", "-S", "-c", _BY_PYTHON, added, *command]
    restore: list[str] = []
    for name in _SET_BY_SHELLS:
        if name not in environment:
            restore += ["-u", name]
    restore += [f"{name}={environment[name]}" for name in _SET_BY_SHELLS if name in environment]
    return [setsid, "/bin/sh", "-c", _BY_SHELL, "sh", env, *restore, *command]


def _identities(handle: Handle) -> dict[str, Identity]:
    """By host; empty for a handle of another placement."""
    hosts = handle.get("hosts")
    if not isinstance(hosts, Mapping):
        return {}
    found = {}
    for host, record in hosts.items():
        with suppress(KeyError, TypeError, ValueError):
            found[host] = Identity.from_record(record)
    return found
