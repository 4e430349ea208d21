"""Supervisors as processes of this machine that outlive the process that started them."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO, ClassVar

from trackside.files.permissions import private_opener
from trackside.placement.placement import Exited, Handle, Placement, Poll, Running, Unknown
from trackside.placement.standby import take
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


class LocalPlacement(Placement):
    """Starts supervisors without a parent of ours, each in a session of its own.

    So no zombie stays in a notebook or a server, a stop button that kills a tree of processes does
    not find the supervisor, and a closed terminal does not reach it. The price is that no process
    learns its exit code; what became of the job is in the job's folder.
    """

    name: ClassVar[str] = "local"

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], *, nonce: str, log: Path
    ) -> Handle:
        with open(log, "ab", opener=private_opener) as output:
            standby = take()
            pid = standby.start(command, environment, log) if standby else None
            if pid is None:
                pid = _launch(command, environment, output)
        # One that has ended already keeps a start of 0, which no process has.
        identity = processes.identify(pid) or Identity(pid, 0, process_table.boot_id())
        return {**asdict(identity), "nonce": nonce}

    def poll(self, handle: Handle) -> Poll:
        identity = _identity(handle)
        if identity is None:
            return Unknown(f"The handle {handle!r} is not that of a local process.")
        return Running() if processes.is_alive(identity) else Exited(None)

    def stop(self, handle: Handle, *, force: bool = False) -> None:
        identity = _identity(handle)
        if identity is not None:
            processes.send_signal(identity, signal.SIGKILL if force else signal.SIGTERM)


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


def _identity(handle: Handle) -> Identity | None:
    try:
        return Identity.from_record(handle)
    except (KeyError, TypeError, ValueError):
        return None
