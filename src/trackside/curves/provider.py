"""Follows the event files of jobs and holds their runs for TensorBoard.

Files are read on a request if the last refresh is old; without requests nothing is read.
`provider_server.py` implements TensorBoard's protocol over this.
"""

import logging
import time
from collections.abc import Callable, Sequence

from trackside.curves.chunks import Source
from trackside.curves.columns import Decoded
from trackside.curves.event_tail import EventTail
from trackside.curves.series import Run
from trackside.errors import StorageError
from trackside.storage.locate import Location

logger = logging.getLogger(__name__)

STALE_SECONDS = 0.5
"""After this long a request refreshes first."""
NO_EXPERIMENT = ("", "defaultExperimentId")
"""Sent by TensorBoard's server and page when the address names no experiment."""

FindLocations = Callable[[], Sequence[Location]]
"""Where a job's event files are now: on disk while it runs here, in storage afterwards."""


class JobCurves:
    """One job's runs, named after it and their folder. Not thread-safe."""

    def __init__(self, name: str, find: FindLocations) -> None:
        self.name = name
        self.problem = ""
        """Why the last refresh failed; what was read before is still there."""
        self._find = find
        self._refreshed = 0.0
        self._tails: list[EventTail] = []
        self._runs: dict[str, Run] = {}

    @property
    def locations(self) -> list[str]:
        """Where its event files were at the last refresh."""
        return [tail.location.uri for tail in self._tails]

    def runs(self) -> dict[str, Run]:
        """Current, or a moment old; a store's error is in `problem`."""
        if time.monotonic() - self._refreshed < STALE_SECONDS:
            return self._runs
        try:
            self.refresh()
            self.problem = ""
        except (StorageError, OSError) as error:
            if str(error) != self.problem:
                logger.warning("the curves of %s are not updated: %s", self.name, error)
            self.problem = str(error)
            self._refreshed = time.monotonic()
        return self._runs

    def refresh(self) -> None:
        """Read what is new. Raises what the store raises."""
        locations = list(self._find())
        if [location.uri for location in locations] != self.locations:
            self._runs = {}
            self._tails = [EventTail(location, self._add) for location in locations]
        for tail in self._tails:
            tail.update()
        self._refreshed = time.monotonic()

    def _add(self, source: Source, new: Decoded) -> int:
        name = f"{self.name}/{source.folder}" if source.folder else self.name
        run = self._runs.setdefault(name, Run())
        for column in new.columns:
            run.add_scalars(column)
        return sum(not run.is_added(event) for event in new.others)


class Library:
    """The jobs that were requested, and any other by its name. Not thread-safe."""

    def __init__(self, find: Callable[[str], FindLocations], names: Sequence[str] = ()) -> None:
        """`find` raises `JobNotFound` for an unknown name."""
        self._find = find
        self._jobs: dict[str, JobCurves] = {}
        self.names = [*names]

    def job(self, name: str) -> JobCurves:
        if name not in self._jobs:
            self._jobs[name] = JobCurves(name, self._find(name))
        return self._jobs[name]

    def jobs(self, experiment: str) -> list[JobCurves]:
        """TensorBoard's experiment: a job, several separated by commas, or all requested ones."""
        names = self.names if experiment in NO_EXPERIMENT else experiment.split(",")
        return [self.job(name) for name in names]

    def runs(self, experiment: str) -> dict[str, Run]:
        return {name: run for job in self.jobs(experiment) for name, run in job.runs().items()}
