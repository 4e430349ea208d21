"""The signal that ends a pause of a job's supervisor or evaluator early."""

import os
import signal
from contextlib import suppress
from types import FrameType

from trackside.system.process_table import WAKE_SIGNAL


class WakeUps:
    """Receives the signal through a pipe. For the whole process; created in its main thread.

    Every writer of the job's journal sends it (`host_processes.wake_supervisors`). So does the
    sandbox's init to a supervisor, when a script prints after a pause, and a supervisor to the
    evaluator, when the script has ended. A lost signal only causes a delay.
    """

    def __init__(self) -> None:
        self.descriptor, writable = os.pipe()
        os.set_blocking(self.descriptor, False)
        os.set_blocking(writable, False)
        # A full pipe wakes just as well.
        signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
        signal.signal(WAKE_SIGNAL, _do_nothing)

    def take(self) -> bool:
        """Whether a signal arrived since the last call."""
        with suppress(BlockingIOError):
            return bool(os.read(self.descriptor, 4096))
        return False


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """The byte in the pipe is enough; an ignored signal would leave none."""
