"""Recognizes the processes that keep a job going: supervisors, inits of sandboxes, evaluators of
rules.

A script may submit jobs. Their processes descend from its own sandbox and are often in its mount
namespace, but they are not among what the script has left behind: whoever kills that spares them
and everything below them. Runs inside a sandbox's init, so it imports nothing slow.
"""

import os
import time

from trackside.system import process_table

STANDBY = b"trackside-host"
"""The name (`comm`) of a supervisor that was forked, whose command line is its maker's."""
_PROGRAMS = (b"trackside.supervisor", b"trackside.rules")
_INIT = b"trackside.supervisor.sandbox_init"

_TRIES = 5
_PAUSE_SECONDS = 0.001


def keeps_job(pid: int) -> bool:
    """Whether this process keeps a job going, and is of our own user: a script that runs as another
    one cannot hide behind these names. Without /proc False."""
    return _is_ours(pid) and (_is_program(_command_line(pid)) or _name(pid) == STANDBY)


def keepers_among(carriers: set[int]) -> set[int]:
    """Of these processes, which carry a sandbox's mark, those that keep another job going, and
    those below one of them. The sandbox's own supervisor and init never carry its mark."""
    parents = process_table.parents()
    known: dict[int, bool] = {}

    def is_spared(pid: int) -> bool:
        if pid not in known:
            known[pid] = False  # ends a circle, which pids that are reused may form
            above = parents[pid][0] if pid in parents else 0
            known[pid] = (pid in carriers and keeps_job(pid)) or (above > 1 and is_spared(above))
        return known[pid]

    return set(filter(is_spared, carriers))


def call_standby() -> None:
    """Name this process as a supervisor that was forked."""
    with open("/proc/self/comm", "wb", buffering=0) as file:
        file.write(STANDBY)


def _is_ours(pid: int) -> bool:
    ours = b"%d" % os.geteuid()
    for line in process_table.read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"Uid:"):
            return set(line.split()[1:]) == {ours}  # real, effective, saved and of files
    return False


def _is_program(words: list[bytes]) -> bool:
    """Also what is about to become one: the shell that starts a supervisor names it."""
    pairs = zip(words, words[1:], strict=False)
    return _INIT in words or any(
        option == b"-m" and module in _PROGRAMS for option, module in pairs
    )


def _command_line(pid: int) -> list[bytes]:
    """Empty for a moment while the process becomes another program: then it is read again."""
    for _ in range(_TRIES):
        text = process_table.read(f"/proc/{pid}/cmdline")
        if text or process_table.started(pid) is None:
            break
        time.sleep(_PAUSE_SECONDS)
    return text.split(b"\0")


def _name(pid: int) -> bytes:
    return process_table.read(f"/proc/{pid}/comm").rstrip(b"\n")
