"""Opens what rules read as soon as it exists: a job's tensors and its machine's figures.

One feed serves all rules that read the same data, with one read.
"""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trackside.capture.trial_layout import COLLECTIONS, SEGMENTS, UNWATCHED
from trackside.errors import TracksideError
from trackside.quick_dataclass import dataclass
from trackside.rules.saved.evidence import Evidence
from trackside.rules.saved.open_trial import open_trial
from trackside.rules.saved.profile import Profile
from trackside.storage.locate import Location

if TYPE_CHECKING:
    from trackside.rules.saved.loss_curves import LossCurves

LOCAL_SECONDS = 0.2
"""Seconds between two checks of a local folder."""
STORE_SECONDS = 2.0
ALLOWANCE_SECONDS = 0.05
"""CPU seconds that checks may take before throttling: most problems occur at the start."""
IDLE_SECONDS = 5.0
"""Interval at which time-based rules are evaluated even if nothing new arrived."""

NO_TENSORS = (
    "ClientError: No debugging data was saved by the training job. Check that the debugger hook "
    "was configured correctly: the script must train a PyTorch model, long enough to reach a step "
    "that is saved, and DebuggerHookConfig, where given, must name the collections."
)
NOT_WATCHED = (
    "ClientError: Not watched: {}. Trackside watches models of PyTorch, and rules that read "
    "tensors have seen nothing of this script."
)
NO_FIGURES = (
    "ClientError: No profiling data was saved by the training job. Give the job a ProfilerConfig, "
    "and do not set DisableProfiler."
)

_TICK_NS = 50_000_000
"""A folder's mtime has limited resolution; two changes within it may look like one."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often to check, given the cost of a check: a training that uses all cores pays for it."""

    share: float
    """Share of one core, in the long run."""
    longest_rest_seconds: float


EAGER = Pace(0.02, 2.0)
"""If an action waits for the rule to fire."""
PATIENT = Pace(0.0015, 10.0)
"""If findings are only reported."""


class Feed:
    """One kind of evidence: an object with `advance`, `end` and `is_all`, made by `opened`.

    `evidence` is None until the job has saved something.
    """

    def __init__(
        self,
        place: Location | None,
        opened: Callable[[Location], Any],
        *,
        has_news: Callable[[], bool],
        seconds: float,
        nothing: str,
    ) -> None:
        self.evidence: Any = None
        self._nothing = nothing
        self._place = place
        self._local = None if place is None else place.local
        self._opened = opened
        self._has_news = has_news
        self._seconds = seconds
        self._due = self._asked = 0.0
        self._read_at = self._rested_at = time.monotonic()
        self._credit = ALLOWANCE_SECONDS
        self._was_there = self._is_there()

    @property
    def is_gone(self) -> bool:
        """Its folder was removed: the job has ended, and everything is in storage."""
        return self._was_there and not self._is_there()

    @property
    def nothing(self) -> str:
        """The message for a job that ended without saving anything."""
        framework = None if self._place is None else _unwatched_framework(self._place)
        return self._nothing if framework is None else NOT_WATCHED.format(framework)

    @property
    def unread_seconds(self) -> float:
        """Seconds for which it could not be read; close to 0 if it can."""
        return time.monotonic() - self._read_at

    @property
    def due_seconds(self) -> float:
        """Seconds until it may be read again."""
        return max(0.0, self._due - time.monotonic())

    def advance(self, *, last: bool = False, at_once: bool = False) -> bool:
        """Read what is new; whether rules should check it. `last`: nothing more will come."""
        now = time.monotonic()
        at_once = at_once or last
        if self._place is None or now < self._due and not at_once:
            return False
        self._due = now + self._seconds
        is_idle = now - self._asked >= IDLE_SECONDS
        if not (at_once or self._has_news() or (is_idle and self.evidence is not None)):
            return False
        if self.evidence is None:
            self.evidence = self._opened(self._place)
        if self.evidence is None:
            self._read_at = now
            return False
        if last:
            self.evidence.end()
        is_new = self.evidence.advance()
        self._read_at = now
        if not (is_new or is_idle):
            return False
        self._asked = now
        return True

    def rest_after(self, seconds: float, pace: Pace) -> None:
        """A check took this much CPU time: pause until the pace allows the next."""
        now = time.monotonic()
        earned = pace.share * (now - self._rested_at)
        credit = min(self._credit + earned, ALLOWANCE_SECONDS) - seconds
        self._credit = max(credit, -pace.share * pace.longest_rest_seconds)
        self._rested_at = now
        self._due = max(self._due, now - min(self._credit, 0.0) / pace.share)

    def _is_there(self) -> bool:
        return self._local is not None and self._local.exists()


def tensors(place: Location | None, home: Path, has_news: Callable[[], bool] | None = None) -> Feed:
    """`has_news`: whether something may be new, for a location that can tell; called often."""
    local = None if place is None else place.local
    if has_news is None and local is not None:
        has_news = pulse(local)
    seconds = STORE_SECONDS if has_news is None else LOCAL_SECONDS
    return Feed(
        place,
        lambda found: _open_evidence(found, home),
        has_news=has_news or _always,
        seconds=seconds,
        nothing=NO_TENSORS,
    )


def figures(place: Location | None) -> Feed:
    return Feed(
        place,
        Profile,
        has_news=_always,
        seconds=STORE_SECONDS,
        nothing=NO_FIGURES,
    )


def losses(place: Location | None, home: Path) -> Feed:
    """Losses that the script logs itself."""
    return Feed(
        place,
        lambda found: _open_curves(found, home),
        has_news=_always,
        seconds=STORE_SECONDS,
        nothing=NO_TENSORS,
    )


def _open_evidence(place: Location, home: Path) -> Evidence | None:
    trial = open_trial(place, home)
    return None if trial is None else Evidence(trial)


def _open_curves(place: Location, home: Path) -> "LossCurves":
    # Readers of event files: most jobs have no use for them here.
    from trackside.rules.saved.loss_curves import LossCurves

    return LossCurves(place, home)


def _unwatched_framework(place: Location) -> str | None:
    """The framework that the script recorded, if it was not PyTorch."""
    try:
        left = json.loads(place.store.get(place.child(UNWATCHED).key))
    except (TracksideError, OSError, ValueError):
        return None
    return str(left.get("framework", ""))[:64] or None if isinstance(left, dict) else None


def pulse(root: Path) -> Callable[[], bool]:
    """Whether a trial's folder has changed since the last call."""
    return _Pulse(root).has_changed


def _always() -> bool:
    return True


class _Pulse:
    """Whether a trial's folders got a new name since the last check: a few calls of stat, since
    listing thousands of segments five times a second would be costly.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._last: list[int] = []

    def has_changed(self) -> bool:
        now = [_changed_at(self._root), _changed_at(self._root / COLLECTIONS)]
        try:
            with os.scandir(self._root / SEGMENTS) as workers:
                now += [_changed_at(worker) for worker in workers]
        except OSError:
            return True  # none yet, or not in our format
        before = self._last
        self._last = [] if time.time_ns() - max(now) < _TICK_NS else now
        return now != before


def _changed_at(path: Path | os.DirEntry[str]) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
