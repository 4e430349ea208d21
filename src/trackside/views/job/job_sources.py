"""What the view of a job needs of its curves and saved tensors; and a reader of both for one job,
from its folder while it runs on this machine, else from storage. A server shares its readers:
`shared_sources`.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from trackside.errors import TracksideError
from trackside.jobs.described_locations import tensors_uri
from trackside.storage.locate import Location, locate_to_read
from trackside.views.job.evidence import KnownCurve

if TYPE_CHECKING:  # numpy is imported when curves are read
    from trackside.capture.trial import Trial
    from trackside.curves.curve_choice import Curve
    from trackside.curves.event_reader import Curves, Follower
    from trackside.jobs.job_service import JobReader


COMPARED_SECONDS = 20.0
"""After which it is looked again which curves are equal."""


class Sources(Protocol):
    """Of one job, as of the last refresh."""

    @property
    def troubles(self) -> Sequence[str]:
        """What cannot be read, and why."""

    def refresh(self, described: Mapping[str, Any]) -> None:
        """Read what is new. What cannot be read is a trouble, no error."""

    def known(self) -> list[KnownCurve]:
        """Most interesting first."""

    def time_of_step(self, step: int) -> float | None:
        """When a step was logged; None if unknown."""

    def figures(self) -> Mapping[str, Sequence[str]]:
        """Kinds of tensors that a heat map can show, with the figures of each."""

    def workers(self) -> Sequence[str]:
        """Those that have saved tensors."""


class JobSources:
    """Holds all points. Not thread-safe."""

    def __init__(self, jobs: "JobReader", name: str) -> None:
        self._jobs = jobs
        self._name = name
        self._followers: dict[str, Follower] = {}
        self._places: Sequence[Location] = ()
        self._chosen: Sequence[Curve] | None = None
        self._compared: Sequence[Curve] = ()
        self._compared_at = -COMPARED_SECONDS
        self.curves: Curves | None = None
        self.trial: Trial | None = None
        self.troubles: list[str] = []

    def refresh(self, described: Mapping[str, Any]) -> None:
        self.troubles = []
        self.refresh_curves()
        self._refresh_trial(described)

    def known(self) -> list[KnownCurve]:
        from trackside.views.curves.known_curves import known_curves

        return known_curves(self.chosen(), self.trial)

    def time_of_step(self, step: int) -> float | None:
        from trackside.views.curves.known_curves import time_of_step

        return time_of_step(self.chosen(), step)

    def chosen(self) -> "Sequence[Curve]":
        """The curves, named and in order; equal ones refer to each other."""
        if self._chosen is None:
            self._chosen = [] if self.curves is None else self._choose(self.curves)
        return self._chosen

    def _choose(self, curves: "Curves") -> "Sequence[Curve]":
        """Comparing thousands of curves takes seconds: while none is new, it is not repeated each
        time."""
        from trackside.curves.curve_choice import all_curves, without_rewritten

        scalars = curves.scalars
        is_recent = time.monotonic() - self._compared_at < COMPARED_SECONDS
        if is_recent and len(self._compared) == len(scalars):
            return [
                replace(each, series=without_rewritten(scalars[each.series.run, each.series.tag]))
                for each in self._compared
            ]
        self._compared, self._compared_at = all_curves(curves), time.monotonic()
        return self._compared

    def figures(self) -> Mapping[str, Sequence[str]]:
        if self.trial is None:
            return {}
        from trackside.views.tensors.heat_map import figures_by_kind

        return figures_by_kind(self.trial)

    def workers(self) -> Sequence[str]:
        if self.trial is None:
            return []
        from trackside.capture.reading.rank_times import ranks_of

        return ranks_of(self.trial)

    def refresh_curves(self) -> int:
        """Returns how many points are new."""
        from trackside.curves.event_reader import Follower

        try:
            self._places = self._jobs.curve_places(self._name)
            wanted = [place.uri for place in self._places]
            if any(uri not in wanted for uri in self._followers):
                self._followers = {}  # the job has ended: everything is in storage now
                self._compared = ()
            new = 0
            for place in self._places:
                if place.uri not in self._followers:
                    self._followers[place.uri] = Follower(place)
                new += self._followers[place.uri].update()
        except (TracksideError, OSError) as error:
            self.troubles.append(f"The curves cannot be read: {error}")
            return 0
        if new or self.curves is None:
            self.curves = joined([each.curves for each in self._followers.values()])
            self._chosen = None
        return new

    def _refresh_trial(self, described: Mapping[str, Any]) -> None:
        from trackside.capture.exceptions import SMDebugError
        from trackside.rules.saved.open_trial import open_trial

        where = tensors_uri(described)
        if where is None:
            return
        home = self._jobs.settings.home
        try:
            if self.trial is None:
                self.trial = open_trial(locate_to_read(where, home=home), home)
                if self.trial is not None:
                    self.trial.dynamic_refresh = False
            else:
                self.trial.refresh_data()
        except (TracksideError, SMDebugError, OSError) as error:
            self.troubles.append(f"The saved tensors cannot be read: {error}")


def joined(parts: "Sequence[Curves]") -> "Curves":
    """One of several, as of the attempts of a job: points of the same curve one after the other."""
    import numpy

    from trackside.curves.event_reader import Curves, Series

    if len(parts) == 1:
        return parts[0]
    found: dict[tuple[str, str], list[Series]] = {}
    for part in parts:
        for key, series in part.scalars.items():
            found.setdefault(key, []).append(series)
    whole = Curves()
    for (run, tag), several in found.items():
        columns = [
            numpy.concatenate([getattr(each, name) for each in several])
            for name in ("steps", "times", "values")
        ]
        whole.scalars[run, tag] = Series(run, tag, *columns)
    return whole
