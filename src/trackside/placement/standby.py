"""A supervisor that is ready before its job is: a copy of the process that submits the job.

`trackside run` forks it as soon as it knows that the job will run here. While the command packs the
code and claims the name, the copy imports what a supervisor needs. Then it learns which job it is
for; it leaves when the command ends without one. Each job is spared the start of an interpreter and
every import that both have in common.

Only a process of our own with a single thread may be forked like this: the command line's, never a
notebook's or a server's. Everybody else's supervisors are programs that `local.py` starts; so is
one that is started again.
"""

import fcntl
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from trackside.files.permissions import private_opener
from trackside.settings import replace_environment
from trackside.system import job_keepers

_FIRST_OWN = 3
"""The first descriptor behind the standard streams."""
_MOST_DESCRIPTORS = 1 << 16


class Standby:
    """The copy, seen from the process that made it."""

    def __init__(self, module: str, order: int, reply: int) -> None:
        self._module = module
        self._order = order
        self._reply = reply

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> int | None:
        """Hand the job over; the pid of who has it. None when it is not for this command, or the
        copy has died: then the job is not started. Can be used once."""
        name = [sys.executable, "-P", "-m", self._module]
        fits = list(command[: len(name)]) == name
        order = [command[len(name) :], dict(environment), str(log)] if fits else None
        try:
            pid = os.read(self._reply, 32)
            with open(self._order, "wb") as pipe:
                pipe.write(json.dumps(order).encode())
        except BrokenPipeError:
            return None
        finally:
            os.close(self._reply)
        return int(pid) if pid and fits else None


_ready: Standby | None = None


def prepare(module: str) -> None:
    """Fork what will run `python -P -m MODULE`, where that is safe; else do nothing. What that
    loads is its `program`."""
    global _ready
    if _ready is None and _has_one_thread():
        _ready = _forked(module)


def take() -> Standby | None:
    """The one that was prepared, once."""
    global _ready
    standby, _ready = _ready, None
    return standby


def _has_one_thread() -> bool:
    """Also of those that Python does not know of."""
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:  # not Linux: a fork may break the system's own libraries there
        return False


def _forked(module: str) -> Standby:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # as when a shell has closed it
            stream.flush()
    order, orderer = os.pipe()
    reply, replier = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.fork() == 0:
                _stand_by(module, order, replier)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(order)
    os.close(replier)
    return Standby(module, orderer, reply)


def _stand_by(module: str, order: int, replier: int) -> NoReturn:
    """Nothing of the command's is kept: not its terminal or pipes, not what it does on signals."""
    os.setsid()
    job_keepers.call_standby()
    os.write(replier, str(os.getpid()).encode())
    order = fcntl.fcntl(order, fcntl.F_DUPFD, _FIRST_OWN)  # it may stand where a stream belongs
    null = os.open(os.devnull, os.O_RDWR)
    for source, target in ((null, 0), (null, 1), (null, 2), (order, _FIRST_OWN)):
        os.dup2(source, target)
    os.closerange(_FIRST_OWN + 1, _MOST_DESCRIPTORS)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not sys.flags.safe_path:
        del sys.path[0]  # a file there could stand in for a module of the supervisor's
    code = 1
    try:
        program = import_module(f"{module}.program")
        with open(_FIRST_OWN, "rb") as pipe:
            given = _read(pipe.read())
        if given is not None:
            code = _run(program.main, *given)
    except BaseException:  # noqa: BLE001 what called us is the command, and must not go on here
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _read(order: bytes) -> tuple[list[str], dict[str, str], str] | None:
    """None when there will be no job: the command has ended, perhaps in the middle of the order."""
    try:
        given = json.loads(order)
    except ValueError:
        return None
    return None if given is None else tuple(given)


def _run(
    main: Callable[[list[str]], int], arguments: list[str], environment: dict[str, str], log: str
) -> int:
    with open(log, "ab", opener=private_opener) as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    # Python's own streams may be another program's, or none at all.
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace")
    replace_environment(environment)
    logging.getLogger().handlers.clear()
    code = main(arguments)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    sys.stdout.flush()
    return code
