"""Step times for the profiler's framework files, which profiler rules read.

Measured in the training loop, if the job's profiler configuration requests them;
`records/timeline_file.py` has the format.
"""

import json
import logging
import socket
import time
from collections import deque
from pathlib import Path
from threading import Event, Thread

from trackside.records.timeline_file import Step, TimelineFile

logger = logging.getLogger(__name__)

WRITE_SECONDS = 1.0
"""Between two writes: what a killed process may lose."""
FIRST_FILE_SECONDS = 2.0
"""A rule that waits for the first step sees it soon; each later file covers twice as long, …"""
FILE_SECONDS = 60.0
"""… up to the contract's own value."""
FILE_BYTES = 10 << 20
MOST_WAITING = 1 << 18
"""Steps in memory when the disk is full; older ones are dropped first."""
DEFAULT_FOLDER = "/opt/ml/output/profiler"


class StepEvents:
    """Owns one thread. Nothing here raises into training: an error is logged once."""

    def __init__(self, folder: Path, node: str) -> None:
        """`folder` is the profiler's own (`/opt/ml/output/profiler`); `node` is `<rank>-<host>`."""
        self._folder = folder
        self._node = node
        self._waiting: deque[Step] = deque(maxlen=MOST_WAITING)
        self._file: TimelineFile | None = None
        self._file_seconds = FIRST_FILE_SECONDS
        self._finish_at = 0.0
        self._stop = Event()
        self._thread = Thread(target=self._run, name="trackside-step-events", daemon=True)
        self._thread.start()

    def add(self, mode: str, step: int, began_us: int, duration_us: int) -> None:
        """One step of a mode (`TRAIN`, …). `began_us`: microseconds since the epoch."""
        self._waiting.append((mode, step, began_us, duration_us))

    def close(self) -> None:
        """Afterwards everything added is in complete files."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.wait(WRITE_SECONDS):
                self._write()
                if self._file is not None and self._is_over(self._file):
                    self._finish()
            self._write()
            self._finish()
        except Exception:
            logger.exception(
                "step times are no longer written to %s; training continues", self._node
            )

    def _write(self) -> None:
        steps = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if not steps:
            return
        if self._file is None:
            self._file = TimelineFile(self._folder, self._node, steps[0][2])
            self._finish_at = time.monotonic() + self._file_seconds
            self._file_seconds = min(2 * self._file_seconds, FILE_SECONDS)
        self._file.write(steps)

    def _is_over(self, file: TimelineFile) -> bool:
        return time.monotonic() >= self._finish_at or file.size_bytes >= FILE_BYTES

    def _finish(self) -> None:
        if self._file is not None:
            self._file.finish()
            self._file = None


class StepClock:
    """A step lasts until the next one begins; the last one until `close`."""

    def __init__(self, events: StepEvents) -> None:
        self._events = events
        self._running: tuple[str, int, int] | None = None

    def begin(self, mode: str, step: int) -> None:
        now = time.time_ns() // 1000
        self._end(now)
        self._running = (mode, step, now)

    def close(self) -> None:
        self._end(time.time_ns() // 1000)
        self._events.close()

    def _end(self, now: int) -> None:
        if self._running is not None:
            mode, step, began = self._running
            self._events.add(mode, step, began, now - began)
        self._running = None


def start_step_clock(configuration: Path, rank: int) -> StepClock | None:
    """None without a configuration, or with one that switches the profiler off."""
    if not configuration.is_file():
        return None
    given = json.loads(configuration.read_text(encoding="utf-8"))
    if given.get("DisableProfiler"):
        return None
    folder = (given.get("ProfilingParameters") or {}).get("LocalPath") or DEFAULT_FOLDER
    return StepClock(StepEvents(Path(folder), f"{rank}-{socket.gethostname()}"))
