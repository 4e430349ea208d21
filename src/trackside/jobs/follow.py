"""Where a job stands, looked at cheaply and often, and its log as it comes."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from trackside.errors import DatabaseUnreachable, JobNotFound, StoreUnreachable
from trackside.files import disk_space
from trackside.jobs.logs import LogLine, LogReader
from trackside.jobs.rule_updates import Findings, RuleUpdates
from trackside.records.journal import History, Journal
from trackside.records.rule_status import Evaluation

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.05
FAR_SECONDS = 1.0
"""Between looks at a job of another home: each asks a database and a store."""
RECONCILE_SECONDS = 1.0

Look = Callable[[], History]


class Watch:
    """Reads the journal again only when it has changed, and reconciles the job once a second."""

    def __init__(self, journal: Path, reconcile: Callable[[], None]) -> None:
        self._journal = Journal(journal)
        self._reconcile = reconcile
        self._reconciled_at = -RECONCILE_SECONDS
        self._look: tuple[int, int] | None = None
        self._history: History | None = None
        self._is_full = False

    def history(self) -> History:
        now = time.monotonic()
        if now - self._reconciled_at >= RECONCILE_SECONDS:
            self._reconcile()
            self._tell_of_full_disk()
            self._reconciled_at = now
        try:
            status = self._journal.path.stat()
        except FileNotFoundError:
            raise JobNotFound(self._journal.path.parent.name) from None
        look = (status.st_size, status.st_mtime_ns)
        if self._history is None or look != self._look:
            self._look, self._history = look, self._journal.read()
        return self._history

    def _tell_of_full_disk(self) -> None:
        """Once, each time it is: the job's own words about it find no room there."""
        trouble = disk_space.trouble(self._journal.path.parent)
        if trouble and not self._is_full:
            logger.warning("%s The job goes on; what it writes there waits or is lost.", trouble)
        self._is_full = bool(trouble)


class RemoteFollower:
    """Of a job of another home. While nobody can say where it stands, it stands where it stood: the
    job goes on, and whoever waits for it does."""

    def __init__(self, look: Look) -> None:
        """`JobNotFound` when there is none."""
        self._look = look
        self._history = look()

    def history(self) -> History:
        with suppress(DatabaseUnreachable, StoreUnreachable):
            self._history = self._look()
        return self._history


def changes(look: Look, pause: float, timeout_seconds: float | None = None) -> Iterator[History]:
    """The history now and after each change; ends with the job, or when the time is up."""
    deadline = time.monotonic() + (float("inf") if timeout_seconds is None else timeout_seconds)
    told: History | None = None
    while True:
        history = look()
        if history != told:
            told = history
            yield history
        left = deadline - time.monotonic()
        if history.state.is_final or left <= 0:
            return
        time.sleep(min(pause, left))


def follow(
    look: Look, pause: float, reader: LogReader, rules: RuleUpdates | None = None
) -> Iterator[History | LogLine | Findings | Evaluation]:
    """Each change and each line as it comes; the end of the job comes after its last line.

    With `rules`, what they find comes between, and after the end until they have read all of it.
    """
    told: History | None = None
    while True:
        history = look()
        is_final = history.state.is_final
        if history != told and not is_final:
            told = history
            yield history
        yield from reader.lines(history.attempt, whole=is_final)
        if rules is not None:
            yield from rules.new(at_rest=True)
        if is_final:
            yield history
            if rules is not None:
                yield from _last_news(rules)
            return
        time.sleep(pause)


def _last_news(rules: RuleUpdates) -> Iterator[Findings | Evaluation]:
    while not rules.is_over():
        time.sleep(POLL_SECONDS)
        yield from rules.new(at_rest=True)
    yield from rules.new()
