"""Switches to the user that jobs are to run as, in a job's environment, and checks its access.

`python ... user_probe`, with what to check on standard input, by marshal. Prints a line for the
first problem, separated by tabs: what, about which path, where above it. `user_check.py` starts it
and formats the message.
"""

import marshal
import os
import stat

from trackside.supervisor import confinement, namespaces

KERNEL, CLOSED, OPEN, FAILED = "kernel", "closed", "open", "failed"


class Trial:
    """The message, field by field."""

    user: tuple[int, int, list[int]]
    stage: str
    read: list[str]
    """What the user must be able to read."""
    ours: list[str]
    """What the user must not be able to change or replace."""
    command: list[str]
    """Must succeed."""

    def __init__(self, message: bytes) -> None:
        self.__dict__.update(marshal.loads(message))


def main() -> None:
    with open(0, "rb", closefd=False) as file:
        trial = Trial(file.read())
    try:
        confinement.begin_process_space()
        child = os.fork()
        if child == 0:
            _try(trial)
    except OSError as error:
        _report(KERNEL, error.strerror or "")
        return
    _, status = os.waitpid(child, 0)
    if status:
        _report(FAILED, str(os.waitstatus_to_exitcode(status)))


def _try(trial: Trial) -> None:
    try:
        namespaces.isolate("root", trial.stage, "trackside-trial", shares_ipc=False)
        confinement.see_own_processes()
        confinement.become(trial.user)
    except OSError as error:
        _report(KERNEL, error.strerror or "")
        os._exit(0)
    for path in trial.read:
        if way := _closed_at(path):
            _report(CLOSED, path, way)
            os._exit(0)
    for path in trial.ours:
        if way := _open_at(path):
            _report(OPEN, path, way)
            os._exit(0)
    os.dup2(1, 2)
    try:
        os.execv(trial.command[0], trial.command)
    except OSError as error:
        _report(FAILED, error.strerror or "")
        os._exit(0)


def _closed_at(path: str) -> str:
    """The first folder above that the user cannot enter, or the path itself; '' for none."""
    for place in _way_to(path):
        if not os.access(place, os.X_OK if place != path else os.R_OK):
            return place
    return ""


def _open_at(path: str) -> str:
    """The same, where the user can write; in a sticky folder only to its own files."""
    for place in _way_to(path):
        if not os.access(place, os.W_OK):  # nor when it does not exist
            continue
        if place == path or not os.stat(place).st_mode & stat.S_ISVTX:
            return place
    return ""


def _way_to(path: str) -> list[str]:
    """All folders above it from the top on, then itself."""
    way = [path]
    while way[0] != os.path.dirname(way[0]):
        way.insert(0, os.path.dirname(way[0]))
    return way


def _report(*fields: str) -> None:
    os.write(1, ("\t".join(fields) + "\n").encode(errors="surrogateescape"))
