"""Follows the jobs of this machine, or of another home with the same database, and reads logs."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from trackside.coordination.host_files import log_of
from trackside.errors import DatabaseUnreachable, JobNotFound, StoreUnreachable
from trackside.files import disk_space
from trackside.jobs import follow
from trackside.jobs.change_interval import ChangeInterval
from trackside.jobs.follow import PollInterval, ReadHistory
from trackside.jobs.local_reader import LocalReader
from trackside.jobs.log_offsets import LogOffsets
from trackside.jobs.log_prefilter import MayHold
from trackside.jobs.logs import LogLine, LogPosition, LogReader, SeenLogs
from trackside.jobs.records import Record
from trackside.jobs.rule_updates import Findings, RuleUpdates
from trackside.records.journal import History, Journal
from trackside.records.layout import JobFolder
from trackside.records.rule_status import Evaluation

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.05
LONGEST_SECONDS = 0.25
"""Where changes of the journal and of the log are reported: until what else is new is seen."""
FAR_SECONDS = 1.0
"""For a job of another home or other machines: each poll queries a database or a store."""
RECONCILE_SECONDS = 1.0


class LocalFollower(LocalReader):
    """`JobFollower` of this machine, and parts of logs for a server."""

    def wait(self, name: str, *, timeout_seconds: float | None = None) -> History:
        changes = self.changes(name, timeout_seconds=timeout_seconds)
        return follow.wait(name, changes, timeout_seconds)

    def changes(self, name: str, *, timeout_seconds: float | None = None) -> Iterator[History]:
        return follow.changes(*self._polling(name), timeout_seconds)

    def logs(
        self,
        name: str,
        *,
        host: str | None = None,
        after: SeenLogs | None = None,
        follow: bool = False,
    ) -> Iterator[LogLine]:
        if not follow:
            return super().logs(name, host=host, after=after)
        items = self.follow(name, host=host, after=after)
        return (item for item in items if isinstance(item, LogLine))

    def settled_lines(
        self,
        record: Record,
        host: str,
        after: LogPosition | None = None,
        may_hold: MayHold | None = None,
    ) -> Iterator[LogLine]:
        """One host's log up to where no later read will return another line or another time.

        With `may_hold`, an empty line replaces lines that do not contain what is searched for.
        """
        positions = {} if after is None else {host: after}
        reader = LogReader(record, self._home, host, positions, settled=True, may_hold=may_hold)
        return reader.lines(record.history.attempt, whole=record.history.state.is_final)

    def log_places(self, record: Record, host: str) -> LogOffsets:
        """Where to start reading one host's log other than at its beginning."""
        return LogOffsets(record, self._home, host)

    def follow(
        self, name: str, *, host: str | None = None, after: SeenLogs | None = None
    ) -> Iterator[History | LogLine]:
        items = self._follow(name, LogReader(self._record(name), self._home, host, after))
        return (item for item in items if isinstance(item, History | LogLine))

    def follow_all(self, name: str) -> Iterator[History | LogLine | Findings | Evaluation]:
        record = self._record(name)
        rules = RuleUpdates(record, self._home)
        return self._follow(name, LogReader(record, self._home), rules)

    def _follow(
        self, name: str, reader: LogReader, rules: RuleUpdates | None = None
    ) -> Iterator[History | LogLine | Findings | Evaluation]:
        def new_lines(history: History) -> Iterator[LogLine]:
            return reader.lines(history.attempt, whole=history.state.is_final)

        read, interval = self._polling(name)
        yield from follow.follow(read, new_lines, interval, rules)

    def _polling(self, name: str) -> tuple[ReadHistory, PollInterval]:
        """How to read the job's history, and how often. `JobNotFound` when there is none."""
        if self._is_here(name):
            near = JournalWatch(self._home.job(name).journal, partial(self._reconcile_job, name))
            record = self._record(name)
            if record.folder is None:
                return near.history, PollInterval(FAR_SECONDS, FAR_SECONDS)
            files = partial(_files_of, record.folder, record.spec.hosts, near)
            return near.history, ChangeInterval(POLL_SECONDS, LONGEST_SECONDS, files)
        far = _JobElsewhere(lambda: self._record(name).history)
        return far.history, PollInterval(FAR_SECONDS, FAR_SECONDS)


def _files_of(folder: JobFolder, hosts: Iterable[str], watch: "JournalWatch") -> list[str]:
    """The journal, and the logs of the attempt that runs."""
    attempt = watch.history().attempt
    logs = (log_of(folder, host, attempt) for host in hosts)
    return [str(folder.journal), *map(str, logs)]


class JournalWatch:
    """Reads the journal only when it has changed, and reconciles the job once a second."""

    def __init__(self, journal: Path, reconcile: Callable[[], None]) -> None:
        self._journal = Journal(journal)
        self._reconcile = reconcile
        self._reconciled_at = -RECONCILE_SECONDS
        self._version: tuple[int, int] | None = None
        self._history: History | None = None
        self._is_full = False

    def history(self) -> History:
        now = time.monotonic()
        if now - self._reconciled_at >= RECONCILE_SECONDS:
            self._reconcile()
            self._warn_of_full_disk()
            self._reconciled_at = now
        try:
            status = self._journal.path.stat()
        except FileNotFoundError:
            raise JobNotFound(self._journal.path.parent.name) from None
        version = (status.st_size, status.st_mtime_ns)
        if self._history is None or version != self._version:
            self._version, self._history = version, self._journal.read()
        return self._history

    def _warn_of_full_disk(self) -> None:
        """Once each time it is full: the job itself cannot write a warning there."""
        problem = disk_space.trouble(self._journal.path.parent)
        if problem and not self._is_full:
            logger.warning("%s The job continues; what it writes there waits or is lost.", problem)
        self._is_full = bool(problem)


class _JobElsewhere:
    """A job of another home. While its history cannot be read, the last one is returned: the job
    continues, and so does the wait.
    """

    def __init__(self, read: ReadHistory) -> None:
        """`JobNotFound` when there is none."""
        self._read = read
        self._history = read()

    def history(self) -> History:
        with suppress(DatabaseUnreachable, StoreUnreachable):
            self._history = self._read()
        return self._history
