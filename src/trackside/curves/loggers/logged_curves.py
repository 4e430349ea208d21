"""Writes logged values to event files: one per run, within limits whatever a script logs."""

from pathlib import Path

from trackside.curves.event_file import EventFile
from trackside.curves.loggers.logged_values import MOST_NAME, Logged

MOST_RUNS = 100
MOST_TAGS = 2_000
"""Of all runs together."""
MOST_POINTS = 5_000_000


class LoggedCurves:
    """Files of this process; a successor starts new ones. Not thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, EventFile] = {}
        self._tags: set[tuple[str, str]] = set()
        self._num_points = 0

    def add(self, point: Logged) -> bool:
        """False when the limit is reached."""
        tag = point.tag[:MOST_NAME]
        if self._num_points >= MOST_POINTS or not self._knows(point.run, tag):
            return False
        self._num_points += 1
        self._files[point.run].add((tag, point.value, point.step, point.time))
        return True

    def flush(self) -> None:
        for file in self._files.values():
            file.flush()

    def _knows(self, run: str, tag: str) -> bool:
        if (run, tag) in self._tags:
            return True
        if not tag.isprintable() or len(self._tags) >= MOST_TAGS:
            return False
        if run not in self._files:
            if len(self._files) >= MOST_RUNS:
                return False
            self._files[run] = EventFile(self._folder / run)
        self._tags.add((run, tag))
        return True
