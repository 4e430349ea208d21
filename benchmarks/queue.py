"""A thousand jobs of one second each through the queue, on two cores: none is lost, none runs
twice, and the server's memory stays what it was."""

import tempfile
import time
from pathlib import Path

from benchmarks.report import Comparison, Target
from benchmarks.running_server import RunningServer, running_server
from trackside.records.journal import Journal
from trackside.records.status import Status

CORES = 2
_GROWTH = 1.1
_PATIENCE_SECONDS = 10.0
"""Of waiting for one more job to end."""


def run(quick: bool = False) -> list[Comparison]:
    count = 20 if quick else 1_000
    names = [f"job-{number:04d}" for number in range(count)]
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder)) as server:
        for name in names:
            server.create(name, seconds=1.0)
        began = time.monotonic()
        _await(server, names[: count // 10])
        early_mb = server.resident_mb()
        _await(server, names)
        elapsed = time.monotonic() - began
        late_mb = server.resident_mb()
        doubled = [name for name in names if server.num_runs(name) != 1]
    if doubled:
        raise RuntimeError(f"{len(doubled)} jobs did not run once: {doubled[:3]}")
    return [_duration(count, elapsed), _memory(count, early_mb, late_mb)]


def _await(server: RunningServer, names: list[str]) -> None:
    """Until each has completed; looks at one after the other, by the journals."""
    deadline = time.monotonic() + _PATIENCE_SECONDS * len(names)
    for name in names:
        journal = Journal(server.settings.layout.job(name).journal)
        while not (history := journal.read()).state.is_final:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{name} is still {history.state.secondary}")
            time.sleep(0.1)
        if history.state.status is not Status.COMPLETED:
            raise RuntimeError(f"{name} is {history.state.status}: {history.failure_reason}")


def _duration(count: int, elapsed: float) -> Comparison:
    ideal = "their seconds alone"
    return Comparison(
        f"{count:,} jobs of one second through the queue, {CORES} at a time",
        "s",
        {"trackside": elapsed, ideal: count / CORES},
        notes=(
            f"All {count:,} completed, each ran once. {elapsed / count * CORES - 1:.2f} s a job "
            "are its supervisor, sandbox, packing and publishing, which share the cores.",
        ),
    )


def _memory(count: int, early_mb: float, late_mb: float) -> Comparison:
    early = "after a tenth of them"
    return Comparison(
        f"The server's memory after {count:,} jobs",
        "MB",
        {"trackside": late_mb, early: early_mb},
        targets=(Target(early, 1 / _GROWTH),),
    )
