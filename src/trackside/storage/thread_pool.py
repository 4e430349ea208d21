"""Threads that process tasks: until none is left, one fails, or the caller stops.

As many as useful: with a nearby store they only block each other, with a remote one they all wait.
"""

import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Protocol, Self

from trackside.errors import TransferStopped

Task = Callable[[], None]

_LOOK_SECONDS = 0.05
_PATIENCE_SECONDS = 2.0
_FIRST_THREADS = 4
_IDLE_CORES = 0.6
"""While the process uses less CPU than this, its threads wait, and more of them help."""


class StopFlag(Protocol):
    """A `threading.Event`, or anything like it."""

    def is_set(self) -> bool: ...


def check(stop: StopFlag | None) -> None:
    """`TransferStopped` when the caller wants to stop."""
    if stop is not None and stop.is_set():
        raise TransferStopped("The transfer was stopped before all files were through.")


class ThreadPool:
    """Owns threads. Tasks are created one by one, as threads become free; the `with` block waits.

    Starts with a few threads, and doubles them while the processor is idle.

    Leaving the block on a failure or a stop starts nothing new. A task that hangs in the network
    is waited for two seconds and then abandoned: `is_gone` is whether all have finished.
    """

    def __init__(self, tasks: Iterator[Task], most_threads: int) -> None:
        self._tasks = tasks
        self._most_threads = most_threads
        self._taking = threading.Lock()
        self._failure: BaseException | None = None
        self._is_ending = False
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._start(_FIRST_THREADS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_ending = True
        deadline = time.monotonic() + _PATIENCE_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    @property
    def is_ending(self) -> bool:
        """For a task to check before it finishes a file."""
        return self._is_ending

    @property
    def is_gone(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def wait(self, stop: StopFlag | None) -> None:
        """Until everything is done; raises what a task raised, or `TransferStopped`."""
        used = time.process_time()
        for thread in self._threads:  # grows on the way
            while thread.is_alive() and self._failure is None:
                check(stop)
                thread.join(_LOOK_SECONDS)
                before, used = used, time.process_time()
                if used - before < _IDLE_CORES * _LOOK_SECONDS:
                    self._start(len(self._threads))
        if self._failure is not None:
            raise self._failure

    def _start(self, num_threads: int) -> None:
        for number in range(len(self._threads), self._most_threads)[:num_threads]:
            name = f"trackside-transfer-{number}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        try:
            while not self._is_ending:
                with self._taking:
                    task = next(self._tasks, None)
                if task is None:
                    return
                task()
        except BaseException as failure:  # noqa: BLE001 raised again by wait()
            if self._failure is None:
                self._failure = failure
            self._is_ending = True
