"""Runs actions that may fail or take long: directly, or in a thread with retries.

`action_log` records each action before and after; nothing here fails its caller.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Thread

from trackside.rules.action.action_errors import Passing, Refused
from trackside.rules.action.action_log import ActionKey, ActionLog

logger = logging.getLogger(__name__)

PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each retry."""

Settled = Callable[[ActionKey, str], None]
"""Called with an action and its error; empty on success."""


def _ignore(key: ActionKey, problem: str) -> None:
    pass


@dataclass(slots=True)
class _QueuedAction:
    key: ActionKey
    act: Callable[[], str]
    due: float = 0.0
    """Monotonic."""
    tries: int = 0


class RetryQueue:
    """Owns one thread, from the first action to `close`."""

    def __init__(self, log: ActionLog, settled: Settled = _ignore) -> None:
        self._log = log
        self._settled = settled
        self._queue: list[_QueuedAction] = []
        self._closing = False
        self._wake = Condition()
        self._thread: Thread | None = None

    def send(self, key: ActionKey, act: Callable[[], str]) -> None:
        """Run in the thread; `act` returns the result, or raises `Passing` to be retried."""
        with self._wake:
            self._queue.append(_QueuedAction(key, act))
            self._wake.notify()
        if self._thread is None:
            self._thread = Thread(target=self._run, name="trackside-actions", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Return when everything was done or given up, which takes minutes at most."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while (action := self._next()) is not None:
            if not self.do(action.key, action.act, tries=action.tries):
                action.due = time.monotonic() + PAUSES_SECONDS[action.tries]
                action.tries += 1
                with self._wake:
                    self._queue.append(action)

    def _next(self) -> _QueuedAction | None:
        """The first that is due. None when all are done and none will follow."""
        with self._wake:
            while True:
                now = time.monotonic()
                first = min(self._queue, key=lambda action: action.due, default=None)
                if first is None and self._closing:
                    return None
                if first is not None and first.due <= now:
                    self._queue.remove(first)
                    return first
                self._wake.wait(None if first is None else first.due - now)

    def do(
        self, key: ActionKey, act: Callable[[], str], *, tries: int = len(PAUSES_SECONDS)
    ) -> bool:
        """Run directly; returns whether it is settled."""
        try:
            self.settle(key, details=act())
        except Passing as error:
            if tries < len(PAUSES_SECONDS):
                logger.info("action %s of %s is retried: %s", key[1], key[0][1], error)
                return False
            self.settle(key, problem=f"given up after {tries + 1} tries: {error}")
        except Refused as error:
            self.settle(key, problem=str(error))
        except Exception as error:  # an error in an action never fails its rule, nor this thread
            logger.exception("action %s of %s", key[1], key[0][1])
            self.settle(key, problem=repr(error))
        return True

    def settle(self, key: ActionKey, *, problem: str = "", details: str = "") -> None:
        logger.info("action %s of %s: %s", key[1], key[0][1], problem or details)
        try:
            self._log.settle(key, problem, details)
        except OSError as error:
            logger.warning("how it went is not recorded: %s", error)
        self._settled(key, problem)
