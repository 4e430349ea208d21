"""The table of the machine's figures: their tags, units, and where each is shown.

`supervisor/machine_figures` computes them; the CLI, the report, profiler rules and CloudWatch's
metrics read their names from here. A new figure is one row.
"""

import re
from collections.abc import Callable

from trackside.quick_dataclass import dataclass
from trackside.texts.quantities import size

FOLDER = "system"
"""Holds a run of curves for each host: `system/algo-1`."""
_RUN = re.compile(rf"{FOLDER}/algo-\d+")

# The profiler's dimensions, as named in its files and in CloudWatch.
CPU = "CPUUtilization"
IO_WAIT = "I/OWaitPercentage"
GPU = "GPUUtilization"
GPU_MEMORY = "GPUMemoryUtilization"
MEMORY = "MemoryUtilization"
NETWORK = "Algorithm"
DISK = "Disk"

DIMENSION_TITLES = {
    CPU: "CPU",
    IO_WAIT: "I/O",
    GPU: "GPU",
    GPU_MEMORY: "GPU memory",
    MEMORY: "Memory",
    NETWORK: "Network",
    DISK: "Disk",
}
"""In the order of tables."""
DIMENSION_CHARTS = {
    CPU: "Cores",
    IO_WAIT: "Waiting for disks",
    GPU: "GPUs",
    GPU_MEMORY: "GPU memory",
}
"""The titles of their charts; all are percentages."""


@dataclass(frozen=True, slots=True)
class Unit:
    text: Callable[[float], str]
    """A value with its unit, as text."""
    suffix: str = ""
    """The suffix of tags in this unit."""
    on_axis: str = ""
    divisor: float = 1.0
    """From a value to the unit on a chart's axis."""


PERCENT = Unit(lambda value: f"{value:.0f} %", "_percent", "%")
PERCENT_OF_CORE = Unit(PERCENT.text, "_percent", "% of one core")
BYTES = Unit(size, "_bytes", "MB", 1e6)
BYTES_PER_SECOND = Unit(lambda value: f"{size(value)}/s", "_bytes_per_second", "MB/s", 1e6)
CELSIUS = Unit(lambda value: f"{value:.0f} °C", "_celsius")
WATTS = Unit(lambda value: f"{value:.0f} W", "_watts")
MEGAHERTZ = Unit(lambda value: f"{value:.0f} MHz", "_mhz")
SHARE = Unit(lambda value: f"{100 * value:.0f} %")
COUNT = Unit(lambda value: f"{value:.6g}")


@dataclass(frozen=True, slots=True)
class Figure:
    tag: str
    """`*` is the number of a core or GPU."""
    unit: Unit
    label: str = ""
    """In a job's use of the machine; empty where it is not listed."""
    chart: str = ""
    """The title of its chart in the report; empty where it has none."""
    dimension: str = ""
    """In the profiler's files; empty where they do not have it."""
    profiler_name: str = ""
    """In the profiler's files; empty where each core or GPU is named by its number."""

    @property
    def is_of_script(self) -> bool:
        """Each host's own; the others are the machine's, which hosts may share."""
        return self.tag.startswith("script/")

    @property
    def is_of_gpu(self) -> bool:
        return self.tag.startswith("gpu_")

    def matches(self, tag: str) -> bool:
        return _numberless(tag) == self.tag


FIGURES = (
    Figure("cpu/total_percent", PERCENT, label="cpu", chart="Processors"),
    Figure(
        "script/cpu_percent",
        PERCENT_OF_CORE,
        label="cpu of the script",
        chart="The script's processor use",
    ),
    Figure("cpu/io_wait_percent", PERCENT, label="waiting for disks", chart="Processors"),
    Figure("cpu/core_*_percent", PERCENT, dimension=CPU),
    Figure(
        "memory/used_percent",
        PERCENT,
        label="memory",
        chart="Memory used",
        dimension=MEMORY,
        profiler_name="MemoryUsedPercent",
    ),
    Figure("memory/used_bytes", BYTES),
    Figure("memory/swap_used_bytes", BYTES),
    Figure("script/memory_bytes", BYTES, label="memory of the script", chart="The script's memory"),
    Figure("script/processes", COUNT),
    Figure("script/threads", COUNT),
    Figure("gpu_*/utilization_percent", PERCENT, label="gpu *", chart="GPUs", dimension=GPU),
    Figure(
        "gpu_*/memory_percent",
        PERCENT,
        label="gpu *, memory",
        chart="GPU memory",
        dimension=GPU_MEMORY,
    ),
    Figure("gpu_*/memory_used_bytes", BYTES),
    Figure("gpu_*/power_watts", WATTS, label="gpu *, power"),
    Figure("gpu_*/temperature_celsius", CELSIUS, label="gpu *, temperature"),
    Figure("gpu_*/clock_mhz", MEGAHERTZ),
    Figure("gpu_*/memory_clock_mhz", MEGAHERTZ),
    Figure("gpu_*/throttled", SHARE, label="gpu *, throttled"),
    Figure(
        "disk/read_bytes_per_second",
        BYTES_PER_SECOND,
        label="disk, read",
        chart="Disks",
        dimension=DISK,
        profiler_name="ReadBytesPerSecond",
    ),
    Figure(
        "disk/written_bytes_per_second",
        BYTES_PER_SECOND,
        label="disk, written",
        chart="Disks",
        dimension=DISK,
        profiler_name="WriteBytesPerSecond",
    ),
    Figure(
        "network/received_bytes_per_second",
        BYTES_PER_SECOND,
        label="network, received",
        chart="Network",
        dimension=NETWORK,
        profiler_name="ReceiveBytesPerSecond",
    ),
    Figure(
        "network/sent_bytes_per_second",
        BYTES_PER_SECOND,
        label="network, sent",
        chart="Network",
        dimension=NETWORK,
        profiler_name="TransmitBytesPerSecond",
    ),
)
"""In display order."""

CLOUDWATCH = {
    figure.dimension: figure for figure in FIGURES if figure.dimension and figure.unit is PERCENT
}
"""By metric name. A metric is the sum over cores or GPUs: for four cores up to 400 percent."""

_BY_TAG = {figure.tag: figure for figure in FIGURES}


def is_machine_run(run: str) -> bool:
    """A script may have its own run named `system`."""
    return _RUN.fullmatch(run) is not None


def figure_of(tag: str) -> Figure | None:
    return _BY_TAG.get(_numberless(tag))


def with_unit(tag: str, value: float) -> str:
    figure = figure_of(tag)
    return (figure.unit if figure else COUNT).text(value)


def _numberless(tag: str) -> str:
    return re.sub(r"\d+", "*", tag)
