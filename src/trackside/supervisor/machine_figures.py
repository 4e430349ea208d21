"""Two looks at the machine made figures: scalars for curves, lines for profiler rules. Pure."""

from collections.abc import Iterator
from typing import Any

from trackside.curves.machine_curves import CPU, FIGURES, GPU, GPU_MEMORY, IO_WAIT
from trackside.supervisor.machine_reading import TICKS_PER_SECOND, Core, Reading


def scalars(before: Reading, now: Reading, *, is_over: bool = False) -> dict[str, float]:
    """Tag to value. Rates and percentages are means over the time between the two looks.

    `is_over`: the script has ended. What it holds is then no figure of its own: its curves would
    all fall to nothing at their end.
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
    """Busy and waiting for a disk. The kernel's own counters of waiting may run backwards."""
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
    """CPU time of the tree. A child that ends leaves its time to its parent: the sum stays whole.

    A process first seen now counts only if it began after the last look; the time of one that is
    older was spent in windows that are over.
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
