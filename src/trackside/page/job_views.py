"""Views of single jobs, shared by all who look at the same job: only what is new is read again."""

import time
from collections import OrderedDict
from threading import Lock

from trackside.jobs.jobs import Jobs
from trackside.views.curves.series import CurveReader
from trackside.views.job.job_view import Job, job_view
from trackside.views.job.shared_sources import SharedSources
from trackside.views.tensors.open_trials import OpenTrials

MOST_JOBS = 64
"""Whose views are kept."""


class JobViews:
    """Thread-safe."""

    def __init__(self, jobs: Jobs, reader: CurveReader, trials: OpenTrials) -> None:
        self._jobs = jobs
        self._reader = reader
        self._trials = trials
        self._lock = Lock()
        self._open: OrderedDict[str, _OpenJob] = OrderedDict()

    def get(self, name: str, max_age_seconds: float = 0.0) -> Job:
        """`JobNotFound` without it."""
        with self._lock:
            found = self._open.get(name)
            if found is None:
                sources = SharedSources(self._jobs, name, self._reader, self._trials)
                found = self._open[name] = _OpenJob(sources)
            self._open.move_to_end(name)
            while len(self._open) > MOST_JOBS:
                self._open.popitem(last=False)
        try:
            return found.view(self._jobs, name, max_age_seconds)
        except BaseException:
            with self._lock:
                self._open.pop(name, None)  # another job of this name may come
            raise


class _OpenJob:
    def __init__(self, sources: SharedSources) -> None:
        self._sources = sources
        self._lock = Lock()
        self._view: Job | None = None
        self._made = 0.0

    def view(self, jobs: Jobs, name: str, max_age_seconds: float) -> Job:
        asked = time.monotonic()
        with self._lock:
            if self._view is None or self._made < asked - max_age_seconds:
                began = time.monotonic()
                self._view = job_view(jobs, name, self._sources)
                self._made = began
            return self._view
