"""A clock that cannot be set and that outlives processes: the time since boot.

A reading names its boot, since times of another boot cannot be compared.
"""

import time
from collections.abc import Mapping
from typing import Any

from trackside.quick_dataclass import dataclass
from trackside.system import process_table


@dataclass(frozen=True, slots=True)
class Moment:
    boot_id: str
    seconds: float
    """Since that boot, including suspended time."""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Moment":
        """From what `asdict` made of one."""
        return cls(str(record["boot_id"]), float(record["seconds"]))

    def age_seconds(self) -> float | None:
        """None for a moment of another boot: how long ago that was is unknown."""
        return self.age_at(now())

    def age_at(self, now: "Moment") -> float | None:
        return now.seconds - self.seconds if self.boot_id == now.boot_id else None


def now() -> Moment:
    return Moment(process_table.boot_id(), _since_boot())


def _since_boot() -> float:
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)
