"""Figures from two readings of the machine: scalars for curves, lines and files for profiler
rules."""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trackside.curves.machine_curves import CPU, FIGURES, GPU, GPU_MEMORY, IO_WAIT
from trackside.files.script_folder import ScriptFolder
from trackside.records import timeline_file
from trackside.supervisor.machine_reading import TICKS_PER_SECOND, Core, Reading

MINUTE_SECONDS = 60


def scalars(before: Reading, now: Reading, *, is_over: bool = False) -> dict[str, float]:
    """Tag to value. Rates and percentages are means over the time between the two readings.

    `is_over`: the script has ended. Its current usage is then left out: all its curves would drop
    to zero at their end.
    """
    seconds = now.clock - before.clock
    used = now.memory_bytes - now.memory_available_bytes
    busy, waiting = _percent(_whole(before.cores), _whole(now.cores))
    figures = {
        "cpu/total_percent": busy,
        "cpu/io_wait_percent": waiting,
        "memory/used_percent": 100 * used / now.memory_bytes,
        "memory/used_bytes": used,
        "memory/swap_used_bytes": now.swap_used_bytes,
        "disk/read_bytes_per_second": (now.disk_read_bytes - before.disk_read_bytes) / seconds,
        "disk/written_bytes_per_second": (now.disk_written_bytes - before.disk_written_bytes)
        / seconds,
        "network/received_bytes_per_second": (now.received_bytes - before.received_bytes) / seconds,
        "network/sent_bytes_per_second": (now.sent_bytes - before.sent_bytes) / seconds,
    }
    if not is_over:
        spent = _script_ticks(before, now)
        figures["script/cpu_percent"] = 100 * spent / (seconds * TICKS_PER_SECOND)
        processes = now.script.values()
        figures["script/memory_bytes"] = sum(process.memory_bytes for process in processes)
        figures["script/processes"] = len(processes)
        figures["script/threads"] = sum(process.num_threads for process in processes)
    for number, (earlier, later) in enumerate(zip(before.cores, now.cores, strict=False)):
        figures[f"cpu/core_{number}_percent"], _ = _percent(earlier, later)
    figures.update(_gpu_scalars(now))
    return figures


def profiler_lines(before: Reading, now: Reading, host: str, time: float) -> list[dict[str, Any]]:
    """What the profiler's rules read, one record per line of their files."""
    return [
        {
            "Type": kind,
            "Name": name,
            "Dimension": dimension,
            "Value": round(value, 2),
            "NodeId": host,
            "Timestamp": round(time, 3),
        }
        for kind, name, dimension, value in _profiled(before, now)
    ]


def _profiled(before: Reading, now: Reading) -> Iterator[tuple[str, str, str, float]]:
    for number, (earlier, later) in enumerate(zip(before.cores, now.cores, strict=False)):
        busy, waiting = _percent(earlier, later)
        yield "cpu", f"cpu{number}", CPU, busy
        yield "cpu", f"cpu{number}", IO_WAIT, waiting
    for number, gpu in enumerate(now.gpus):
        if gpu.utilization_percent is not None:
            yield "gpu", f"gpu{number}", GPU, gpu.utilization_percent
        if gpu.memory_percent is not None:
            yield "gpu", f"gpu{number}", GPU_MEMORY, gpu.memory_percent
    figures = scalars(before, now)
    for figure in FIGURES:
        if figure.profiler_name:
            kind = figure.tag.partition("/")[0]
            yield kind, figure.profiler_name, figure.dimension, figures[figure.tag]


def _gpu_scalars(now: Reading) -> Iterator[tuple[str, float]]:
    for number, gpu in enumerate(now.gpus):
        figures = {
            "utilization_percent": gpu.utilization_percent,
            "memory_percent": gpu.memory_percent,
            "memory_used_bytes": gpu.memory_used_bytes,
            "temperature_celsius": gpu.temperature_celsius,
            "power_watts": gpu.power_watts,
            "clock_mhz": gpu.clock_mhz,
            "memory_clock_mhz": gpu.memory_clock_mhz,
            "throttled": gpu.is_throttled,
        }
        for name, value in figures.items():
            if value is not None:
                yield f"gpu_{number}/{name}", value


def _percent(before: Core, now: Core) -> tuple[float, float]:
    """Busy, and waiting for a disk. The kernel's counters of waiting may run backwards."""
    total = now.total - before.total
    if total <= 0:
        return 0.0, 0.0
    busy, waiting = now.busy - before.busy, now.waiting - before.waiting
    return max(0.0, 100 * busy / total), max(0.0, 100 * waiting / total)


def _whole(cores: tuple[Core, ...]) -> Core:
    return Core(
        sum(core.busy for core in cores),
        sum(core.waiting for core in cores),
        sum(core.total for core in cores),
    )


def _script_ticks(before: Reading, now: Reading) -> int:
    """CPU time of the tree. A child's time is added to its parent's when it ends: the sum is
    preserved.

    A process first seen now counts only if it started after the last reading; the time of an older
    one was spent before.
    """
    spent = 0
    for pid, process in now.script.items():
        earlier = before.script.get(pid)
        if earlier is not None and earlier.started == process.started:
            spent += process.ticks - earlier.ticks
        elif process.started >= before.uptime_ticks:
            spent += process.ticks
    gone = before.script.keys() - now.script.keys()
    return max(0, spent - sum(before.script[pid].ticks for pid in gone))


class MinuteFiles:
    """The profiler's system files: JSON lines, a file per minute, named
    `system/incremental/<YYYYMMDDHH>/<epoch of the minute>.<host>.json` when it is complete. Lines
    are on disk at once, beside the folder, so that a crash loses none of them."""

    def __init__(self, folder: Path | ScriptFolder, parts: Path, host: str) -> None:
        """`parts` holds the current minute; it must be on the same disk as `folder`."""
        self._profiler = ScriptFolder.of(folder)
        self._parts = parts
        self._host = host
        self._minute = -1

    def write(self, records: Iterable[Mapping[str, Any]], time: float) -> None:
        minute = int(time) // MINUTE_SECONDS * MINUTE_SECONDS
        name = f"{minute}.{self._host}.json"
        if minute != self._minute:
            self._parts.mkdir(parents=True, exist_ok=True)
            # Those of an earlier supervisor are complete too, unless its last minute is this one.
            self._finish_parts(but=name)
            self._minute = minute
        with (self._parts / name).open("ab") as file:
            file.write("".join(f"{json.dumps(record)}\n" for record in records).encode())

    def close(self) -> None:
        """The script is over: also complete the files that its processes left unfinished."""
        self._finish_parts(but="")
        timeline_file.finish_left_behind(self._profiler)

    def _finish_parts(self, *, but: str) -> None:
        if not self._parts.is_dir():
            return
        for part in self._parts.iterdir():
            if part.name != but:
                hour = datetime.fromtimestamp(int(part.name.partition(".")[0]), UTC)
                self._profiler.take(part, f"system/incremental/{hour:%Y%m%d%H}/{part.name}")
