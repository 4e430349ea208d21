"""Follows a job until it finishes, on this machine or on a server: polls its history, its log and
its rules.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Protocol

from trackside.errors import JobNotFinished, StoreUnreachable
from trackside.jobs.logs import LogLine
from trackside.jobs.rule_updates import Findings
from trackside.records.journal import History
from trackside.records.rule_status import Evaluation

logger = logging.getLogger(__name__)

_SLOWER = 1.25
_RULES_SECONDS = 1.0

ReadHistory = Callable[[], History]
NewLines = Callable[[History], Iterator[LogLine]]


class RuleFeed(Protocol):
    """Each call of `new` continues where the last one stopped."""

    def new(self, *, at_rest: bool = False) -> Iterator[Findings | Evaluation]: ...

    def is_over(self) -> bool:
        """Whether to stop waiting for more, once the job itself has finished."""

    @property
    def is_held_back(self) -> bool:
        """Whether there is something that the next call of `new` may return."""


class PollInterval:
    """`shortest` seconds after each change, then ever longer, up to `longest`."""

    def __init__(self, shortest: float, longest: float) -> None:
        self._shortest, self._longest = shortest, longest
        self._seconds = shortest

    def wait(self, *, has_changed: bool, is_soon: bool = False, most: float = float("inf")) -> None:
        """`is_soon`: something is about to change."""
        longer = min(self._longest, self._seconds * _SLOWER)
        self._seconds = self._shortest if has_changed else longer
        time.sleep(max(0.0, min(self._seconds, most)))

    def close(self) -> None:
        """After the last wait."""


def wait(name: str, history: Iterator[History], timeout_seconds: float | None) -> History:
    """The last of these; `JobNotFinished` unless it is final."""
    *_, last = history
    if not last.state.is_final:
        raise JobNotFinished(
            f"Job {name!r} is still {last.state.secondary} after {timeout_seconds} s. "
            "It continues by itself; wait again, or stop it."
        )
    return last


def changes(
    read: ReadHistory, interval: PollInterval, timeout_seconds: float | None = None
) -> Iterator[History]:
    """The history now and after each change; ends with the job, or after the timeout."""
    deadline = time.monotonic() + (float("inf") if timeout_seconds is None else timeout_seconds)
    last: History | None = None
    with closing(interval):
        while True:
            history = read()
            has_changed = history != last
            if has_changed:
                last = history
                yield history
            left = deadline - time.monotonic()
            if history.state.is_final or left <= 0:
                return
            interval.wait(has_changed=has_changed, most=left)


def follow(
    read: ReadHistory, new_lines: NewLines, interval: PollInterval, rules: RuleFeed | None = None
) -> Iterator[History | LogLine | Findings | Evaluation]:
    """Each change and each line as it comes; the final history comes after the last line. While the
    store that has the log is away, so is the log: it goes on where it stopped.

    With `rules`, their findings come between, and after that until they have read all data.
    """
    with closing(interval):
        yield from _follow(read, new_lines, interval, rules)


def _follow(
    read: ReadHistory, new_lines: NewLines, interval: PollInterval, rules: RuleFeed | None
) -> Iterator[History | LogLine | Findings | Evaluation]:
    last: History | None = None
    is_away = False
    while True:
        history = read()  # before the log: the log of a finished job is complete
        has_changed = history != last
        if has_changed and not history.state.is_final:
            yield history
        last = history
        is_read = True
        try:
            for line in new_lines(history):
                has_changed = True
                yield line
        except StoreUnreachable as error:
            is_read = False
            if not is_away:
                logger.warning("The log goes on when its store is back. %s", error)
        is_away = not is_read
        if rules is not None:
            yield from rules.new(at_rest=True)
        if history.state.is_final and is_read:
            yield history
            if rules is not None:
                yield from _last_updates(rules, interval)
            return
        interval.wait(has_changed=has_changed, is_soon=rules is not None and rules.is_held_back)


def _last_updates(rules: RuleFeed, interval: PollInterval) -> Iterator[Findings | Evaluation]:
    while not rules.is_over():
        interval.wait(has_changed=False, is_soon=True, most=_RULES_SECONDS)
        yield from rules.new(at_rest=True)
    yield from rules.new()
