"""A process that is suspended while it keeps the lock of a journal."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HOLDS = """
import fcntl, sys
with open(sys.argv[1], "rb") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("locked", flush=True)
    sys.stdin.read()
"""


@contextmanager
def suspended_writer(journal: Path) -> Iterator[int]:
    """Its pid. At the end it goes on, and gives the lock back."""
    command = [sys.executable, "-c", _HOLDS, str(journal)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        process.send_signal(signal.SIGSTOP)
        try:
            yield process.pid
        finally:
            process.send_signal(signal.SIGCONT)
            process.communicate()
