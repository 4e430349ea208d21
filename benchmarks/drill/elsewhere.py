"""Cases of the list that this program does not run, each with where it belongs."""

from functools import partial

from benchmarks.drill.case import Case, Result, not_shown
from benchmarks.drill.ground import Ground

_REASONS = {
    32: ("500 running jobs", "measured by benchmarks/scale.py, see docs/benchmarks.md"),
    38: ("markup in logs and names", "comes with the page"),
    39: ("cross-site requests", "comes with the page"),
}


def _told(ground: Ground, reason: str) -> Result:
    return not_shown(reason)


CASES = tuple(
    Case(number, name, partial(_told, reason=reason), seconds=0.0)
    for number, (name, reason) in _REASONS.items()
)
