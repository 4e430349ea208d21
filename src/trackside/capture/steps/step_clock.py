"""Tells the profiler how long each step lasted, where the job's profiler configuration asks."""

import json
import socket
import time
from pathlib import Path

from trackside.capture.steps.step_events import StepEvents

DEFAULT_FOLDER = "/opt/ml/output/profiler"


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
    """None where no configuration is, or one that switches the profiler off."""
    if not configuration.is_file():
        return None
    given = json.loads(configuration.read_text(encoding="utf-8"))
    if given.get("DisableProfiler"):
        return None
    folder = (given.get("ProfilingParameters") or {}).get("LocalPath") or DEFAULT_FOLDER
    return StepClock(StepEvents(Path(folder), f"{rank}-{socket.gethostname()}"))
