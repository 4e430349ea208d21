"""Disk usage per owner: their jobs' folders and data in the embedded buckets. `retention` decides
what to remove, `garbage_collection` removes it.

A file counts once: for the job whose location is nearest above it. Data in a bucket below no job's
location has no owner, nor has a whole bucket that a job names. Links are not followed, and a part
of the home that is a link to another disk does not count.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from trackside.jobs.index import JobSummary
from trackside.jobs.stored_data import uses
from trackside.quick_dataclass import dataclass
from trackside.records.layout import Home


@dataclass(frozen=True, slots=True)
class DiskUse:
    """Caches the locations that a job names, so that a request is read once."""

    home: Home
    _named: dict[tuple[str, float], tuple[str, ...]] = field(default_factory=dict)

    def of(self, owners: Collection[str], rows: Sequence[JobSummary]) -> dict[str, int]:
        """Bytes of each of these owners; `rows` are all jobs of this home."""
        totals = dict.fromkeys(owners, 0)
        places = self._places(rows)
        walked = {place for place, owner in places.items() if owner in totals}
        for place in walked:
            if not any(str(above) in walked for above in Path(place).parents):
                _count(place, places, totals)
        return totals

    def _places(self, rows: Sequence[JobSummary]) -> dict[str, str]:
        """Each location, without a trailing slash, and its owner; of two jobs, the older one's."""
        named = {}
        found: dict[str, str] = {}
        for row in sorted(rows, key=lambda row: (row.created, row.name)):
            key = row.name, row.created
            named[key] = self._named.get(key) or tuple(self._locations(row))
            for place in named[key]:
                found.setdefault(place, row.owner or "")
        self._named.clear()
        self._named.update(named)
        return found

    def _locations(self, row: JobSummary) -> list[str]:
        found = [] if self.home.jobs.is_symlink() else [str(self.home.job(row.name).root)]
        if not self.home.buckets.is_symlink():
            written = (Path(use.place) for use in uses(row, self.home) if not use.is_read)
            found += [str(path) for path in written if self.home.buckets in path.parent.parents]
        return found


def _count(place: str, places: Mapping[str, str], totals: dict[str, int]) -> None:
    """Sum up everything below; files that disappear meanwhile are skipped."""
    left = [(place, places[place])]
    while left:
        folder, owner = left.pop()
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    left.append((entry.path, places.get(entry.path, owner)))
                elif owner in totals:
                    with suppress(FileNotFoundError):
                        totals[owner] += entry.stat(follow_symlinks=False).st_size
