"""The resources a job needs: as requested explicitly, or by its instance type."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from trackside.errors import Violation
from trackside.jobs.machine_resources import MachineResources
from trackside.placement.choose import UnknownPlacement, placement_class
from trackside.records.placed import LOCAL as LOCAL_PLACEMENT
from trackside.records.spec import PRIORITY_TAG, JobSpec, Options

T = TypeVar("T")

LOCAL = MachineResources(cores=1)
"""For a type without a size, such as `local`."""

_TYPE = re.compile(r"ml\.([a-z]+\d[a-z0-9]*)(?:-[a-z0-9]+)*\.(\d*)(medium|large|xlarge|metal)")
_CORES = {"medium": 1, "large": 2, "xlarge": 4, "metal": 96}
_GB_PER_CORE = {
    "c": 2,
    "r": 8,
    "p2": 15.25,
    "p3": 7.625,
    "p3dn": 8,
    "p4": 12,
    "p5": 32 / 3,
    "g6e": 8,
}
"""By family prefix, the longest match; 4 for all others. From AWS's tables."""
_GPUS = {
    "p2": {1: 1, 8: 8, 16: 16},
    "p3": {2: 1, 8: 4, 16: 8},
    "p3dn": {24: 8},
    "p4": {24: 8},
    "p5": {4: 1, 48: 8},
    "g": {12: 4, 24: 4, 48: 8},
}
"""GPUs by size `Nxlarge`, where there is not exactly one."""


def needs_of(spec: JobSpec) -> MachineResources:
    """Of all hosts together."""
    return sum(needs_of_hosts(spec), MachineResources())


def needs_of_hosts(spec: JobSpec) -> list[MachineResources]:
    """Of each host, in their order."""
    groups = [(group.instance_type, group.count) for group in spec.resources.groups]
    hosts = groups or [(spec.resources.instance_type, spec.resources.count)]
    needs = []
    for instance_type, count in hosts:
        needs += [_of_host(instance_type, spec.options)] * count
    return needs


def is_counted(spec: JobSpec) -> bool:
    """Whether it uses this machine's capacity: not where its placement schedules jobs itself."""
    if spec.options.placement == LOCAL_PLACEMENT:
        return True
    try:
        return not placement_class(spec.options.placement).schedules
    except UnknownPlacement:  # of another version of Trackside, which has placed it
        return False


def asked_by(spec: JobSpec) -> MachineResources:
    """The explicit request; 0 where its instance type decides."""
    options = spec.options
    each = MachineResources(options.cores or 0, options.memory_gb or 0.0, options.gpus or 0)
    return each.times(spec.resources.num_hosts)


def asking_by_type(spec: JobSpec, most: MachineResources) -> JobSpec:
    """The same job with its instance type's resources as an explicit request, unless it has one;
    capped at `most` for all hosts together.
    """
    if spec.resources.groups:
        return spec  # their hosts differ, and explicit requests apply to each host
    known, count = of_type(spec.resources.instance_type), spec.resources.num_hosts
    cores = max(1, min(known.cores, most.cores // count))
    memory = int(min(known.memory_gb, most.memory_gb / count))
    options = replace(
        spec.options,
        cores=spec.options.cores or cores,
        memory_gb=memory or None if spec.options.memory_gb is None else spec.options.memory_gb,
    )
    return replace(spec, options=options)


def violations(spec: JobSpec, capacity: MachineResources) -> Iterator[Violation]:
    """An explicit request must fit the machine: the job would wait for ever.

    An instance type is capped instead: it says where the job ran before, not what it needs.
    """
    count = spec.resources.num_hosts
    asked = {
        "Trackside.Cores": (spec.options.cores, capacity.cores),
        "Trackside.MemoryGB": (spec.options.memory_gb, capacity.memory_gb),
        "Trackside.GPUs": (spec.options.gpus, capacity.gpus),
    }
    for field, (each, most) in asked.items():
        if each is not None and each * count > most:
            hosts = f" for {count} hosts" if count > 1 else ""
            yield Violation(field, each, f"is more than the server's machine has{hosts}: {most:g}")


def priority_of(options: Options, tags: Mapping[str, str]) -> int:
    """A tag with any text may be added to a queued job."""
    if options.priority is not None:
        return options.priority
    try:
        return max(-1000, min(1000, int(tags.get(PRIORITY_TAG, "0"))))
    except ValueError:
        return 0


def _of_host(instance_type: str, options: Options) -> MachineResources:
    known = of_type(instance_type)
    return MachineResources(
        known.cores if options.cores is None else options.cores,
        known.memory_gb if options.memory_gb is None else options.memory_gb,
        known.gpus if options.gpus is None else options.gpus,
    )


def is_possible(instance_type: str) -> bool:
    """Whether AWS could offer it: a family with its generation, and a size (`ml.p5.48xlarge`).

    Not whether it does: there are new ones every year. Other prefixes than `ml.` are ours.
    """
    return not instance_type.startswith("ml.") or _TYPE.fullmatch(instance_type) is not None


def of_type(instance_type: str) -> MachineResources:
    if instance_type == "local_gpu":
        return MachineResources(cores=1, gpus=1)
    match = _TYPE.fullmatch(instance_type)
    if match is None:
        return LOCAL
    family, multiple, size = match[1], int(match[2] or 1), match[3]
    cores = _CORES[size] * multiple
    memory = cores * _longest(_GB_PER_CORE, family, 4)
    gpus = 0
    if family[0] in "pg" and size == "xlarge":
        gpus = _longest(_GPUS, family, {}).get(multiple, 1)
    return MachineResources(cores, memory, gpus)


def _longest(table: Mapping[str, T], family: str, default: T) -> T:
    fitting = [start for start in table if family.startswith(start)]
    return table[max(fitting, key=len)] if fitting else default
