"""Watches the machine while the script runs: curves for people, lines for the profiler's rules.

Owns the thread and its pace; `machine_reading` looks, `machine_figures` reckons.
"""

import logging
import time
from contextlib import AbstractContextManager, nullcontext
from threading import Event, Thread
from types import TracebackType

from trackside import process_table
from trackside.curves import wire
from trackside.curves.event_file import EventFile
from trackside.layout import HostFolder
from trackside.spec import JobSpec
from trackside.supervisor.machine_figures import profiler_lines, scalars
from trackside.supervisor.machine_reading import MachineReader, Reading
from trackside.supervisor.profiler_files import MinuteFiles

logger = logging.getLogger(__name__)

CURVE_SECONDS = 1.0
LATER_CURVE_SECONDS = 10.0
"""The distance of points after the first minutes; they are means, so nothing falls in between."""
FIRST_MINUTES_SECONDS = 600.0
LEAST_PROFILE_SECONDS = 0.1
"""The shortest interval that the contract has."""
LEAST_SECONDS = 0.05
"""Two looks closer than this show the kernel's clock ticks rather than the machine."""


def make_sampler(
    spec: JobSpec, folder: HostFolder, host: str, root_pid: int | None, begun_seconds: float
) -> AbstractContextManager[object]:
    """What samples this host for this job; nothing when nobody wants it or there is no /proc."""
    if root_pid is None or not process_table.PRESENT or (spec.profiler and spec.profiler.disabled):
        return nullcontext()
    curves = EventFile(folder.curves / "system" / host)
    if spec.profiler is None:
        return MachineSampler(root_pid, host, curves, begun_seconds=begun_seconds)
    return MachineSampler(
        root_pid,
        host,
        curves,
        begun_seconds=begun_seconds,
        profile=MinuteFiles(folder.inside(spec.profiler.local_path), folder.profiler_parts, host),
        profile_seconds=max(LEAST_PROFILE_SECONDS, spec.profiler.interval_milliseconds / 1000),
    )


class MachineSampler:
    """Samples while its block is open. What goes wrong in it is logged once and ends only it."""

    def __init__(
        self,
        root_pid: int,
        host: str,
        curves: EventFile,
        *,
        begun_seconds: float = 0.0,
        profile: MinuteFiles | None = None,
        profile_seconds: float = 0.0,
    ) -> None:
        """`begun_seconds`: for how long the script has been running. Steps are its seconds.

        `profile_seconds` goes with `profile`.
        """
        self._root_pid = root_pid
        self._host = host
        self._curves = curves
        self._profile = profile
        self._profile_seconds = profile_seconds
        self._begun = time.monotonic() - begun_seconds
        self._stop = Event()
        self._thread = Thread(target=self._run, name="trackside-machine", daemon=True)

    def __enter__(self) -> "MachineSampler":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Takes a last sample; afterwards all files are whole."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            reader = MachineReader(self._root_pid)
            try:
                self._sample(reader)
            finally:
                reader.close()
                self._curves.close()
                if self._profile is not None:
                    self._profile.close()
        except Exception:
            logger.exception("the machine's figures end here; the job goes on")

    def _sample(self, reader: MachineReader) -> None:
        first = drawn = profiled = reader.read()
        due = drawn.clock
        is_over = False
        while not is_over:
            due = max(due + self._pause(), time.monotonic())
            is_over = self._stop.wait(due - time.monotonic())
            if is_over and drawn is first:
                # On a busy machine a short script may be over before this thread has begun.
                time.sleep(max(0.0, drawn.clock + LEAST_SECONDS - time.monotonic()))
            now = reader.read()
            self._write_profile(profiled, now)
            profiled = now
            # Half a pause of slack: a wait that ends a little early must not skip a point.
            distance = self._curve_seconds() - self._pause() / 2
            if now.clock - drawn.clock >= distance or is_over:
                self._draw(drawn, now)
                drawn = now

    def _write_profile(self, before: Reading, now: Reading) -> None:
        if self._profile is not None and now.clock - before.clock >= LEAST_SECONDS:
            moment = time.time()
            self._profile.write(profiler_lines(before, now, self._host, moment), moment)

    def _draw(self, before: Reading, now: Reading) -> None:
        if now.clock - before.clock >= LEAST_SECONDS:
            step = round(now.clock - self._begun)
            values = [wire.simple_value(tag, value) for tag, value in scalars(before, now).items()]
            self._curves.add((None, lambda: wire.summary(*values), step, time.time()))
            self._curves.flush()

    def _pause(self) -> float:
        return self._profile_seconds or self._curve_seconds()

    def _curve_seconds(self) -> float:
        return curve_seconds(time.monotonic() - self._begun, self._profile_seconds)


def curve_seconds(running_seconds: float, profile_seconds: float = 0.0) -> float:
    """From point to point: close at first, wider later; never closer than the profile's looks."""
    is_new = running_seconds < FIRST_MINUTES_SECONDS
    return max(profile_seconds, CURVE_SECONDS if is_new else LATER_CURVE_SECONDS)
