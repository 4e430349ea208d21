"""Samples the machine while the script runs: curves for users, lines for the profiler's rules.

Owns the thread and its interval; `machine_reading` reads counters, `machine_figures` computes.
"""

import logging
import math
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from types import TracebackType

from trackside.curves import machine_curves, wire
from trackside.curves.event_file import EventFile
from trackside.records.layout import HostFolder
from trackside.records.spec import JobSpec, Profiler
from trackside.supervisor.machine_figures import MinuteFiles, profiler_lines, scalars
from trackside.supervisor.machine_reading import MachineReader, Reading
from trackside.system import process_table

logger = logging.getLogger(__name__)

CURVE_SECONDS = ((60.0, 1.0), (600.0, 5.0), (math.inf, 15.0))
"""Interval between points, by how long the script has run. Points are means, so no peak is missed.
"""
STILL_POINTS = 3
"""After so many points without any CPU time of the script, points are `STILL_SECONDS` apart."""
STILL_SECONDS = 60.0
LEAST_PROFILE_SECONDS = 0.1
"""The shortest interval in the contract."""
LEAST_SECONDS = 0.05
"""Two readings closer than this show the kernel's clock ticks rather than the machine."""


def make_sampler(
    spec: JobSpec,
    folder: HostFolder,
    host: str,
    root_pid: int | None,
    running_seconds: float,
    make_reader: Callable[[int], MachineReader] = MachineReader,
) -> "MachineSampler | None":
    """The sampler of this host for this job; None if there is nothing to sample."""
    if root_pid is None or not process_table.PRESENT:
        return None
    profile = folder.script_folder(folder.inside((spec.profiler or Profiler()).local_path))
    return MachineSampler(
        root_pid,
        host,
        folder.curves / machine_curves.FOLDER / host,
        MinuteFiles(profile, folder.profiler_parts, host),
        profiler=spec.profiler,
        running_seconds=running_seconds,
        make_reader=make_reader,
    )


class MachineSampler:
    """Samples while its block is open. An error is logged once and ends only the sampler.

    With a profiler that is switched off nothing is sampled; without one, only curves.
    """

    def __init__(
        self,
        root_pid: int,
        host: str,
        curves: Path,
        profile: MinuteFiles,
        *,
        profiler: Profiler | None = None,
        running_seconds: float = 0.0,
        make_reader: Callable[[int], MachineReader] = MachineReader,
    ) -> None:
        """`running_seconds`: for how long the script has been running. Steps are its seconds."""
        self._root_pid = root_pid
        self._make_reader = make_reader
        self._host = host
        self._folder = curves
        self._curves: EventFile | None = None
        self._profile = profile
        self._profiler = profiler
        self._started = time.monotonic() - running_seconds
        self._is_ending = False
        self._wake = Event()
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
        """Takes a last sample; afterwards all files are complete."""
        self._is_ending = True
        self._wake.set()
        self._thread.join()

    def retune(self, profiler: Profiler | None) -> None:
        """Use this profiler's interval from now on."""
        self._profiler = profiler
        self._wake.set()

    def _run(self) -> None:
        try:
            reader = self._make_reader(self._root_pid)
            try:
                self._sample_on(reader)
            finally:
                reader.close()
                if self._curves is not None:
                    self._curves.close()
                self._profile.close()
        except Exception:
            logger.exception("the machine's figures end here; the job goes on")

    def _sample_on(self, reader: MachineReader) -> None:
        while True:
            profiler = self._profiler
            if profiler is not None and profiler.disabled:
                self._wait(None)
            else:
                self._sample(reader, profiler)
            if self._is_ending:
                return

    def _wait(self, seconds: float | None) -> None:
        """Until then, the end, or a change of the profiler."""
        self._wake.wait(seconds)
        self._wake.clear()

    def _sample(self, reader: MachineReader, profiler: Profiler | None) -> None:
        """While the profiler is unchanged."""
        profile_seconds = _profile_seconds(profiler)
        first = drawn = profiled = reader.read()
        due = drawn.clock
        is_over, num_still = False, 0
        while not is_over:
            is_still = num_still >= STILL_POINTS
            running = time.monotonic() - self._started
            curves = curve_seconds(running, profile_seconds, is_still=is_still)
            pause = profile_seconds or curves
            due = max(due + pause, time.monotonic())
            self._wait(due - time.monotonic())
            is_over = self._is_ending or self._profiler != profiler
            if is_over and drawn is first:
                # On a busy machine a short script may be over before this thread has started.
                time.sleep(max(0.0, drawn.clock + LEAST_SECONDS - time.monotonic()))
            now = reader.read()
            if profile_seconds:
                self._write_profile(profiled, now)
            profiled = now
            # Half a pause of slack: a wait that ends a little early must not skip a point.
            if now.clock - drawn.clock >= curves - pause / 2 or is_over:
                self._draw(drawn, now)
                num_still = num_still + 1 if _spent(now) == _spent(drawn) else 0
                drawn = now

    def _write_profile(self, before: Reading, now: Reading) -> None:
        if now.clock - before.clock >= LEAST_SECONDS:
            moment = time.time()
            self._profile.write(profiler_lines(before, now, self._host, moment), moment)

    def _draw(self, before: Reading, now: Reading) -> None:
        if now.clock - before.clock >= LEAST_SECONDS:
            self._curves = self._curves or EventFile(self._folder)
            step = round(now.clock - self._started)
            figures = scalars(before, now, is_over=self._is_ending)
            values = [wire.simple_value(tag, value) for tag, value in figures.items()]
            self._curves.add((None, lambda: wire.summary(*values), step, time.time()))
            self._curves.flush()


def curve_seconds(
    running_seconds: float, profile_seconds: float = 0.0, *, is_still: bool = False
) -> float:
    """Interval between points: short at first, longer later, longest for an idle script; never
    shorter than the profile's.
    """
    distance = next(pause for until, pause in CURVE_SECONDS if running_seconds < until)
    return max(profile_seconds, distance, STILL_SECONDS if is_still else 0.0)


def _spent(reading: Reading) -> int:
    """Ticks of the script's processes."""
    return sum(process.ticks for process in reading.script.values())


def _profile_seconds(profiler: Profiler | None) -> float:
    """0 without a profile."""
    if profiler is None:
        return 0.0
    return max(LEAST_PROFILE_SECONDS, profiler.interval_milliseconds / 1000)
