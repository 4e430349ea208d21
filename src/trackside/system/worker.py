"""A background thread that calls a function repeatedly: its interval, back-off after errors,
wake-up and end. Its owner defines the call.
"""

import logging
import time
from collections.abc import Callable
from threading import Event, Thread
from types import TracebackType
from typing import NamedTuple

from trackside.errors import TracksideError

logger = logging.getLogger(__name__)

FIRST_RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 30.0


class Pause(NamedTuple):
    """Until the next call of `tick`: `seconds`, of which `wake` cannot cut `least` short."""

    seconds: float | None
    """None: until `wake` or `close`."""
    least: float = 0.0


class Worker:
    """Owns one daemon thread from `start` to `close`, or while its block is open.

    An `Exception` of `tick` is logged once until a call succeeds again, and the call is retried
    with exponential back-off. Anything else ends the thread, and `close` raises it.
    """

    def __init__(
        self,
        name: str,
        tick: Callable[[], Pause | float | None],
        *,
        interval: float | None,
        delay: float = 0.0,
        retry_seconds: tuple[float, float] = (FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS),
        at_end: Callable[[], object] | None = None,
        problem: str = "",
    ) -> None:
        """`tick` may return the pause until its next call, instead of `interval` (None: until
        `wake`). The first call is after `delay`. `at_end` is called in the thread by `close`, and
        retried while `close` allows. `problem` begins the log message of an error."""
        self.name = name
        self._tick = tick
        self._interval = Pause(interval)
        self._delay = delay
        self._retry_seconds = retry_seconds
        self._at_end = at_end
        self._problem = problem or f"{name} failed, and retries"
        self._num_failures = 0
        self._error: BaseException | None = None
        self._deadline = 0.0
        self._wake = Event()
        self._closing = Event()
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> "Worker":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_closing(self) -> bool:
        """For a `tick` that takes long: whether it should return early."""
        return self._closing.is_set()

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Call `tick` soon. A back-off after an error is not cut short."""
        self._wake.set()

    def request_stop(self, *, retry_for: float = 0.0) -> None:
        """Have the thread end, after `at_end`, which is retried for so many seconds while it
        raises. Returns at once.
        """
        self._deadline = time.monotonic() + retry_for
        self._closing.set()
        self._wake.set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end; whether it was reached. Raises what ended the thread or `at_end`."""
        if self._thread.ident is None:
            return True  # it was never started
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        error, self._error = self._error, None
        if error is not None:
            raise error
        return True

    def close(self, timeout: float | None = None, *, retry_for: float = 0.0) -> bool:
        """End the thread and wait for it; False, and logged, if it is busy after the timeout."""
        self.request_stop(retry_for=retry_for)
        has_ended = self.join(timeout)
        if not has_ended:
            logger.warning("%s is still busy after %s s", self.name, timeout)
        return has_ended

    def _run(self) -> None:
        try:
            pause = Pause(self._delay, self._delay)
            while not self._rest(pause):
                pause = self._call()
            self._finish()
        except BaseException as error:  # noqa: BLE001 - raised where the thread is joined
            self._error = error

    def _rest(self, pause: Pause) -> bool:
        """Whether the thread is to end."""
        if not self._closing.wait(pause.least):
            left = None if pause.seconds is None else max(0.0, pause.seconds - pause.least)
            self._wake.wait(left)
        self._wake.clear()
        return self._closing.is_set()

    def _call(self) -> Pause:
        try:
            returned = self._tick()
        except Exception as error:  # noqa: BLE001 - logged, and retried
            seconds = self._back_off()
            self._log(error)
            return Pause(seconds, seconds)
        self._num_failures = 0
        if returned is None:
            return self._interval
        return returned if isinstance(returned, Pause) else Pause(returned)

    def _finish(self) -> None:
        self._num_failures = 0
        while self._at_end is not None:
            try:
                self._at_end()
                return
            except Exception as error:
                pause = self._back_off()
                if time.monotonic() + pause > self._deadline:
                    raise
                self._log(error)
                time.sleep(pause)

    def _back_off(self) -> float:
        first, longest = self._retry_seconds
        self._num_failures += 1
        return min(first * 2.0 ** min(self._num_failures - 1, 30), longest)

    def _log(self, error: Exception) -> None:
        if self._num_failures == 1:
            is_known = isinstance(error, TracksideError | OSError)
            logger.warning("%s: %s", self._problem, error, exc_info=not is_known)
