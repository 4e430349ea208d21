"""An engine that takes a machine back sends SIGTERM first: to the supervisor, and often to every
process of the job there. Then the scripts end with grace, and the job goes on elsewhere; or it ends
here, if its time at the engine is over.
"""

import signal
import time
from pathlib import Path
from types import FrameType

from trackside.coordination.coordination import Why
from trackside.files import damaged_files

_EARLY_SECONDS = 1860.0
"""How long before the end of its time an engine may send the signal: the longest grace that people
ask Slurm for is half an hour, and Slurm may be a minute early."""


class EngineNotice:
    """For the whole process; created in its main thread."""

    def __init__(self, ends_at: float, file: str = "") -> None:
        """`ends_at`: when the time of the group is over, in seconds since 1970; 0 for no limit.
        `file`: as `GroupRecord.notice`; the signal may have ended an earlier supervisor."""
        self._ends_at = ends_at
        self._file = file
        self._came_at = 0.0
        signal.signal(signal.SIGTERM, self._take)
        if file and Path(file).exists():
            self._came_at = time.time()

    @property
    def host(self) -> str:
        """Whose machine is taken back; empty where nobody says it."""
        said = damaged_files.read_object(Path(self._file)) if self._file else None
        return str((said or {}).get("host", ""))

    @property
    def why(self) -> Why | None:
        """None before there is any."""
        if not self._came_at:
            return None
        is_time = self._ends_at and self._came_at > self._ends_at - _EARLY_SECONDS
        return Why.ENGINE_TIME_LIMIT if is_time else Why.ENGINE_TAKES_BACK

    def _take(self, number: int, frame: FrameType | None) -> None:
        self._came_at = self._came_at or time.time()
