"""Threads that share out tasks: until none is left, one fails, or the caller wants to stop."""

import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Protocol, Self

from trackside.errors import TransferStopped

Task = Callable[[], None]

_LOOK_SECONDS = 0.05
_PATIENCE_SECONDS = 2.0


class StopFlag(Protocol):
    """A `threading.Event`, or anything like it."""

    def is_set(self) -> bool: ...


class Crew:
    """Owns threads. Tasks are made one by one, as threads come free; the `with` block waits.

    Leaving the block on a failure or a stop begins nothing new. A task that hangs in the network
    is waited for two seconds and then left behind: `is_gone` tells whether all have ended.
    """

    def __init__(self, tasks: Iterator[Task], num_threads: int) -> None:
        self._tasks = tasks
        self._taking = threading.Lock()
        self._failure: BaseException | None = None
        self._is_ending = False
        self._threads = [
            threading.Thread(target=self._work, name=f"trackside-transfer-{n}", daemon=True)
            for n in range(num_threads)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
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
        """A task that is about to leave something behind asks this first."""
        return self._is_ending

    @property
    def is_gone(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def wait(self, stop: StopFlag | None) -> None:
        """Until all is done; raises what a task raised, or `TransferStopped`."""
        for thread in self._threads:
            while thread.is_alive() and self._failure is None:
                if stop is not None and stop.is_set():
                    raise TransferStopped("The transfer was stopped before all files were through.")
                thread.join(_LOOK_SECONDS)
        if self._failure is not None:
            raise self._failure

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
