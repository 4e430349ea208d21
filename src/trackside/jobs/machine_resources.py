"""Amounts of machine resources: what a job needs, what the machine has, what is free."""

import glob
import os
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from trackside.errors import InvalidSetting
from trackside.quick_dataclass import dataclass
from trackside.settings import VISIBLE_GPUS

GIB = 1 << 30
_SETTING = "TRACKSIDE_CAPACITY"
_UNITS = {"cores": "core", "memory_gb": "GB of memory", "gpus": "GPU"}


@dataclass(frozen=True, slots=True)
class MachineResources:
    cores: int = 0
    memory_gb: float = 0.0
    """In GiB, as instance types are sold."""
    gpus: int = 0

    def __add__(self, other: "MachineResources") -> "MachineResources":
        return MachineResources(
            self.cores + other.cores, self.memory_gb + other.memory_gb, self.gpus + other.gpus
        )

    def __sub__(self, other: "MachineResources") -> "MachineResources":
        return MachineResources(
            self.cores - other.cores, self.memory_gb - other.memory_gb, self.gpus - other.gpus
        )

    def times(self, count: int) -> "MachineResources":
        return MachineResources(self.cores * count, self.memory_gb * count, self.gpus * count)

    def clipped(self, most: "MachineResources") -> "MachineResources":
        return MachineResources(
            min(self.cores, most.cores),
            min(self.memory_gb, most.memory_gb),
            min(self.gpus, most.gpus),
        )

    def lacking(self, free: "MachineResources") -> str | None:
        """The field that is exceeded first; None if this fits."""
        for each in fields(self):
            wanted = getattr(self, each.name)
            if wanted and wanted > getattr(free, each.name):
                return each.name
        return None

    def __str__(self) -> str:
        parts = [amount(each.name, getattr(self, each.name)) for each in fields(self)]
        return ", ".join(text for text in parts if text[0] != "0") or "nothing"


def amount(what: str, value: float) -> str:
    unit = _UNITS[what]
    plural = "s" if what != "memory_gb" and value != 1 else ""
    return f"{value:.4g} {unit}{plural}"


def capacity(setting: str, environ: Mapping[str, str]) -> MachineResources:
    """What jobs may use together: the machine's resources, unless the setting overrides them."""
    return replace(machine(environ), **amounts_in(setting, _SETTING, setting))


def amounts_in(text: str, variable: str, setting: str) -> dict[str, Any]:
    """`cores=4,gpus=1` by name; `variable` and its whole value are for the error."""
    given: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (each.strip() for each in part.partition("="))
        if not equals or name not in _UNITS:
            raise InvalidSetting(
                f"{variable} = {setting!r}: {part!r} is not one of "
                "cores=NUMBER, memory_gb=NUMBER and gpus=NUMBER. Separate them by commas."
            )
        given[name] = _number(name, value, f"{variable} = {setting!r}")
    return given


def machine(environ: Mapping[str, str]) -> MachineResources:
    """The resources available to this process. GPUs are NVIDIA's, as reported by the driver."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    named = _named_gpus(environ)
    num_gpus = len(glob.glob("/dev/nvidia[0-9]*")) if named is None else len(named)
    return MachineResources(_num_cores(), memory, num_gpus)


def gpu_names(num_gpus: int, environ: Mapping[str, str]) -> tuple[str, ...]:
    """As in CUDA_VISIBLE_DEVICES: its present names, or numbers."""
    named = _named_gpus(environ) or ()
    return named[:num_gpus] if len(named) >= num_gpus else tuple(map(str, range(num_gpus)))


def _named_gpus(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    text = environ.get(VISIBLE_GPUS)
    return None if text is None else tuple(filter(None, (name.strip() for name in text.split(","))))


def _num_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _number(name: str, text: str, setting: str) -> float:
    try:
        value = float(text) if name == "memory_gb" else int(text)
    except ValueError:
        value = -1
    least = 1 if name == "cores" else 0
    if not value >= least:
        raise InvalidSetting(f"{setting}: {text!r} is not a number of {name} from {least} on.")
    return value
