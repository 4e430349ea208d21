"""A few of a trial's files, evenly spread: a first picture of a trial whose index takes seconds to
read."""

from collections.abc import Iterator
from dataclasses import dataclass

from trackside.capture.reading.trial_folder import FoundFile, TrialFolder
from trackside.capture.trial import Trial
from trackside.capture.trial_layout import SEGMENTS
from trackside.rules.report.heat_cells import spread
from trackside.storage.locate import Location

NUM_FILES = 12
"""Of all workers together; of each at least `_LEAST_OF_EACH`."""
LEAST_FILES = 4 * NUM_FILES
"""A trial with fewer is opened whole: that does not take much longer."""
_LEAST_OF_EACH = 2


@dataclass(frozen=True, slots=True)
class Sample:
    trial: Trial
    num_files: int
    num_all: int

    def as_json(self) -> dict[str, int]:
        return {"files": self.num_files, "of": self.num_all}


def sample_of(place: Location) -> Sample | None:
    """None for a trial that is better opened whole. May raise what opening a trial raises."""
    whole = TrialFolder(place)
    files = list(whole.list(SEGMENTS))
    if len(files) < LEAST_FILES:
        return None
    chosen = spread_files(files)
    trial = Trial(place.uri, location=place, folder=_SomeFiles(place, chosen))
    trial.dynamic_refresh = False
    return Sample(trial, len(chosen), len(files))


def spread_files(files: list[FoundFile]) -> list[FoundFile]:
    """Of each worker some, the first and the last among them."""
    by_worker: dict[str, list[FoundFile]] = {}
    for file in files:
        by_worker.setdefault(file.name.rpartition("/")[0], []).append(file)
    most = max(NUM_FILES // len(by_worker), _LEAST_OF_EACH)
    return [own[at] for own in by_worker.values() for at in spread(len(own), most)]


class _SomeFiles(TrialFolder):
    """Lists no other segments than these."""

    def __init__(self, place: Location, segments: list[FoundFile]) -> None:
        super().__init__(place)
        self._segments = segments

    def list(self, prefix: str, after: str = "") -> Iterator[FoundFile]:
        if not prefix.startswith(SEGMENTS):
            return super().list(prefix, after)
        return (f for f in self._segments if f.name.startswith(prefix) and f.name > after)
