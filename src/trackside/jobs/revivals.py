"""How often a supervisor, or a group of them, is restarted before its job is given up."""

from math import inf

from trackside.records.placed import PlacedHost
from trackside.system import boot_clock

MAX_REVIVALS = 3
"""How often one host's supervisor is restarted within the window before the job is given up. Never
while its script runs: then the next restart is delayed.
"""
REVIVAL_WINDOW_SECONDS = 600.0
"""A supervisor that lived this long gets its full number of restarts again."""


def recent_revivals(placed: PlacedHost, now: boot_clock.Moment) -> tuple[int, float]:
    """Restarts within the window, and the age of the last one. Pure."""
    age = placed.revived.age_at(now) if placed.revived else None
    since = inf if age is None else age
    return (placed.revivals if since < REVIVAL_WINDOW_SECONDS else 0), since
