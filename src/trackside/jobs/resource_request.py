"""The resources a job needs: as requested explicitly, or by its instance type."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trackside.errors import Violation
from trackside.jobs.instance_types import of_type
from trackside.jobs.machine_resources import MachineResources
from trackside.placement.choose import UnknownPlacement, placement_class
from trackside.records.placed import LOCAL as LOCAL_PLACEMENT
from trackside.records.spec import PRIORITY_TAG, JobSpec, Options

_LEFT_BY_SYSTEM = 0.9
"""AWS's own clusters offer Slurm's jobs 95 % of the memory that an instance is sold with; others
may keep more."""


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


def needs_at_engine(spec: JobSpec) -> list[MachineResources]:
    """Of each host, where an engine gives machines as a whole: not all the memory of an instance
    type, of which its own operating system takes some."""
    if spec.options.memory_gb is not None:
        return needs_of_hosts(spec)
    needs = needs_of_hosts(spec)
    return [replace(each, memory_gb=each.memory_gb * _LEFT_BY_SYSTEM) for each in needs]


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
