"""A job at a server, looked at again and again: where it stands, and its log as it comes."""

import time
from collections.abc import Callable, Iterator

from trackside.jobs.logs import LogLine
from trackside.jobs.rule_updates import Findings
from trackside.records.journal import History
from trackside.records.rule_status import Evaluation
from trackside.remote.job_log import JobLog
from trackside.remote.rule_updates import PublishedUpdates

_QUICK_SECONDS = 0.2
_SLOW_SECONDS = 2.0
_SLOWER = 1.25

Look = Callable[[], History]


class Pace:
    """Looks often while there is news, and ever more rarely while there is none."""

    def __init__(self) -> None:
        self._seconds = _QUICK_SECONDS

    def wait(self, *, had_news: bool, most: float = _SLOW_SECONDS) -> None:
        self._seconds = _QUICK_SECONDS if had_news else min(_SLOW_SECONDS, self._seconds * _SLOWER)
        time.sleep(max(0.0, min(self._seconds, most)))


def changes(look: Look, timeout_seconds: float | None = None) -> Iterator[History]:
    """The history now and after each change; ends with the job, or when the time is up."""
    deadline = time.monotonic() + (float("inf") if timeout_seconds is None else timeout_seconds)
    pace = Pace()
    told: History | None = None
    while True:
        history = look()
        is_new = history != told
        if is_new:
            told = history
            yield history
        left = deadline - time.monotonic()
        if history.state.is_final or left <= 0:
            return
        pace.wait(had_news=is_new, most=left)


def follow(
    look: Look, log: JobLog, rules: PublishedUpdates | None = None
) -> Iterator[History | LogLine | Findings | Evaluation]:
    """Each change and each line as it comes; the end of the job comes after its last line.

    With `rules`, what they find comes between, and after the end until they have read all of it.
    """
    pace = Pace()
    told: History | None = None
    while True:
        history = look()  # before the log: that of a job that has ended is whole
        had_news = history != told
        if had_news and not history.state.is_final:
            yield history
        told = history
        for line in log.lines(whole=history.state.is_final):
            had_news = True
            yield line
        if rules is not None:
            yield from rules.new()
        if history.state.is_final:
            yield history
            if rules is not None:
                yield from _last_news(rules)
            return
        pace.wait(had_news=had_news)


def _last_news(rules: PublishedUpdates) -> Iterator[Findings | Evaluation]:
    pace = Pace()
    while not rules.is_over():
        pace.wait(had_news=False, most=1.0)
        yield from rules.new()
