"""Lets others cut a supervisor's rest short: by a signal, which comes out of a pipe here.

Whoever writes to the job's journal sends it (`host_processes.wake_supervisors`), and the sandbox's
init when a script prints after a silence. A signal that is lost costs a delay and nothing else.
"""

import os
import signal
from contextlib import suppress
from types import FrameType

from trackside.system.process_table import WAKE_SIGNAL


class WakeUps:
    """Of the whole process; made in its main thread."""

    def __init__(self) -> None:
        self.descriptor, writable = os.pipe()
        os.set_blocking(self.descriptor, False)
        os.set_blocking(writable, False)
        # A full pipe is as good as one byte.
        signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
        signal.signal(WAKE_SIGNAL, _do_nothing)

    def take(self) -> bool:
        """Whether there was one since the last call."""
        with suppress(BlockingIOError):
            return bool(os.read(self.descriptor, 4096))
        return False


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """The byte in the pipe is enough; an ignored signal would leave none."""
