"""A custom rule's resource limits per process, and the messages about them.

`guard.py` watches the total over all of its processes.
"""

import errno
import os
import resource
from contextlib import suppress

from trackside.system import process_table

RESERVE_BYTES = 64 << 20
"""Beyond the memory limit, so that the rule can still report that it was hit."""
FILE_BYTES = 256 << 20
"""The size of one file, its log included."""
_OTHERS = 10_000
"""Processes of the same user that may start meanwhile, where all of a user's count together."""


def set_limits(memory_bytes: int, num_processes: int | None) -> None:
    """Set hard limits for this process and its children; they cannot be raised again.

    Memory means private, writable memory: an allocation beyond the limit fails at once. It does not
    mean address space, of which `import torch` alone maps gigabytes. `num_processes` counts all of
    the user's.
    """
    _limit(resource.RLIMIT_DATA, memory_bytes, memory_bytes + RESERVE_BYTES)
    dump_no_core()
    _limit(resource.RLIMIT_FSIZE, FILE_BYTES)
    if num_processes is not None:
        _limit(resource.RLIMIT_NPROC, num_processes)


def use_reserve() -> None:
    """Raise the limit by the reserve, so that a rule that ran out of memory can report it."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def memory_message(memory_bytes: int) -> str:
    return (
        f"ClientError: the rule used more than {memory_bytes / (1 << 30):g} GB of memory. Let it "
        "keep less, or raise TRACKSIDE_RULE_MEMORY_GB."
    )


def processes_message(num_processes: int) -> str:
    return (
        f"ClientError: the rule had more than {num_processes} processes and threads at a time. "
        "Let it start fewer, or raise TRACKSIDE_RULE_PROCESSES."
    )


def is_refused_process(error: BaseException) -> bool:
    """Whether the error means that the system refused to start a process or a thread."""
    if isinstance(error, OSError):
        return error.errno == errno.EAGAIN and error.filename is None
    return isinstance(error, RuntimeError) and "can't start new thread" in str(error)


def backstop(num_processes: int) -> int | None:
    """A limit on the user's processes that stops a fork bomb but affects no other process; None
    where they cannot be counted.
    """
    if not process_table.PRESENT:
        return None
    found = 0
    for pid in process_table.pids():
        with suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid == os.getuid():
                found += len(os.listdir(f"/proc/{pid}/task"))
    return found + num_processes + _OTHERS


def dump_no_core() -> None:
    _limit(resource.RLIMIT_CORE, 0)


def _limit(what: int, soft: int, hard: int | None = None) -> None:
    """Never above the limit in effect."""
    _, most = resource.getrlimit(what)
    hard = soft if hard is None else hard
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    with suppress(ValueError, OSError):  # macOS does not support all of them
        resource.setrlimit(what, (soft, hard))
