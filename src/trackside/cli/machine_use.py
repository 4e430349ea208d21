"""The machine's figures for people: which curves they are, their units, a job's use in short."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy

from trackside.cli.text import size
from trackside.curves.curve_choice import is_machine
from trackside.curves.event_reader import Curves, Series

_USES = {
    "cpu": "cpu/total_percent",
    "cpu of the script": "script/cpu_percent",
    "waiting for disks": "cpu/io_wait_percent",
    "memory": "memory/used_percent",
    "memory of the script": "script/memory_bytes",
    "disk, read": "disk/read_bytes_per_second",
    "disk, written": "disk/written_bytes_per_second",
    "network, received": "network/received_bytes_per_second",
    "network, sent": "network/sent_bytes_per_second",
}
_GPU_USES = {
    "": "utilization_percent",
    ", memory": "memory_percent",
    ", power": "power_watts",
    ", temperature": "temperature_celsius",
    ", throttled": "throttled",
}
_UNITS: dict[str, Callable[[float], str]] = {
    "_percent": lambda value: f"{value:.0f} %",
    "_bytes": size,
    "_bytes_per_second": lambda value: f"{size(value)}/s",
    "_celsius": lambda value: f"{value:.0f} °C",
    "_watts": lambda value: f"{value:.0f} W",
    "_mhz": lambda value: f"{value:.0f} MHz",
    "/throttled": lambda value: f"{100 * value:.0f} %",
}


def with_unit(tag: str, value: float) -> str:
    for ending, shown in _UNITS.items():
        if tag.endswith(ending):
            return shown(value)
    return f"{value:.6g}"


def machine_use(curves: Curves) -> dict[str, dict[str, Any]]:
    """What to tag, mean and peak: over all hosts, in the order in which people ask."""
    series = [one for one in curves.scalars.values() if is_machine(one) and len(one)]
    by_tag: dict[str, list[Series]] = {}
    for one in series:
        by_tag.setdefault(one.tag, []).append(one)
    return {
        label: {"tag": tag, **_figures(by_tag[tag])}
        for label, tag in {**_USES, **_gpu_uses(by_tag)}.items()
        if tag in by_tag
    }


def _gpu_uses(tags: Iterable[str]) -> dict[str, str]:
    numbers = sorted({int(found[1]) for tag in tags if (found := re.match(r"gpu_(\d+)/", tag))})
    return {
        f"gpu {number}{what}": f"gpu_{number}/{figure}"
        for number in numbers
        for what, figure in _GPU_USES.items()
    }


def _figures(of_hosts: list[Series]) -> dict[str, float]:
    means = [_mean(series) for series in of_hosts]
    return {
        "mean": float(numpy.mean(means)),
        "peak": float(max(series.values.max() for series in of_hosts)),
    }


def _mean(series: Series) -> float:
    """Each point is a mean since the one before it, which is not always equally long ago."""
    lasted = numpy.diff(series.times, prepend=series.times[0] - 1.0).clip(min=0.0)
    if not lasted.any():
        return float(series.values.mean())
    return float(numpy.average(series.values, weights=lasted))
