"""Copies jobs' curves to this disk and keeps them up to date, for plugins that need a folder.

TensorBoard's data provider protocol has what is in event files; the projector and the profiler tab
read other files next to them.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from trackside.errors import ObjectNotFound
from trackside.storage.locate import Location
from trackside.storage.store import Entry
from trackside.system.worker import Worker

REFRESH_SECONDS = 1.0
BUSY_SHARE = 0.2
"""The share of time spent listing: a job of a day has a listing of many pages."""
_NEEDS_FOLDER = ("projector_config.pbtxt", ".trace.json", ".trace.json.gz", ".xplane.pb")


def needs_folder(locations: Sequence[Location]) -> bool:
    """Whether there are files that a TensorBoard plugin reads directly."""
    return any(
        entry.key.endswith(_NEEDS_FOLDER)
        for location in locations
        for _, entry in _listed(location)
    )


class Mirror:
    """Owns the thread that copies, while its block is open. Files grow in place.

    TensorBoard would not notice a replaced file: it keeps reading the old one.
    """

    def __init__(self, folder: Path, jobs: Mapping[str, Callable[[], Sequence[Location]]]) -> None:
        """Each job gets a folder of its name below `folder`."""
        self._folder = folder
        self._jobs = jobs
        self._worker = Worker(
            "trackside-mirror",
            self._run,
            interval=REFRESH_SECONDS,
            delay=REFRESH_SECONDS,
            problem="the local copy of the curves is not updated",
        )

    def __enter__(self) -> "Mirror":
        self._worker.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._worker.close()

    def refresh(self) -> None:
        """Copy what is new. Raises what a store raises."""
        for name, find in self._jobs.items():
            for location in find():
                for path, entry in _listed(location):
                    _append(self._folder / name / path, location, entry)

    def _run(self) -> float:
        began = time.monotonic()
        self.refresh()
        return max(REFRESH_SECONDS, (time.monotonic() - began) / BUSY_SHARE)


def _listed(location: Location) -> list[tuple[str, Entry]]:
    prefix = location.key if not location.key or location.key.endswith("/") else f"{location.key}/"
    return [(entry.key.removeprefix(prefix), entry) for entry in location.store.list(prefix)]


def _append(path: Path, location: Location, entry: Entry) -> None:
    there = path.stat().st_size if path.exists() else -1
    if there >= entry.size_bytes:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("ab") as file:
            for piece in location.store.read(entry.key, max(0, there), entry.size_bytes):
                file.write(piece)
    except ObjectNotFound:
        return  # deleted since it was listed
