"""Whether the machines of an engine can ever give what a group asks for: an engine that queues
groups would let one that they cannot wait for ever.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from trackside.placement.placement import HostRequest
from trackside.quick_dataclass import dataclass

_MOST_SIZES = 4
"""So many sizes of machines are listed, the largest."""
_WAY_OUT = (
    "ask for less (--cores, --memory-gb, --gpus), or say in TRACKSIDE_INSTANCE_TYPES what the "
    "instance type has here"
)


@dataclass(frozen=True, slots=True, order=True)
class MachineSize:
    """Of a whole machine, whether it is free or not; or what is asked of one."""

    gpus: int
    cores: int
    memory_gb: float
    """0 where the engine does not count it."""

    def fits(self, asked: "MachineSize") -> bool:
        has_memory = not self.memory_gb or asked.memory_gb <= self.memory_gb
        return self.cores >= asked.cores and self.gpus >= asked.gpus and has_memory

    def __str__(self) -> str:
        memory = f", {self.memory_gb:.4g} GB" if self.memory_gb else ""
        gpus = f", {self.gpus} GPU{'s' * (self.gpus != 1)}" if self.gpus else ""
        return f"{self.cores} core{'s' * (self.cores != 1)}{memory}{gpus}"


def asked_of_each(hosts: Iterable[HostRequest]) -> MachineSize:
    """What every host gets where an engine has one size for all: the most that one of them asks
    for."""
    asked = [*hosts]
    return MachineSize(
        gpus=max(host.gpus for host in asked),
        cores=max(host.cores for host in asked),
        memory_gb=max(host.memory_gb for host in asked),
    )


def never_fits(asked: MachineSize, count: int, machines: Sequence[MachineSize], where: str) -> str:
    """Why so many hosts, each on a machine of its own, can never be started there, and what there
    is; empty when they can. `where` names the machines: "the partition 'gpu'"."""
    fitting = sum(machine.fits(asked) for machine in machines)
    if fitting >= count:
        return ""
    hosts = f"{count} hosts are asked for, each" if count != 1 else "1 host is asked for,"
    return (
        f"{hosts} with {asked}; {where} has {fitting} such machines of {len(machines)}: "
        f"{_listed(machines)}; {_WAY_OUT}"
    )


def _listed(machines: Sequence[MachineSize]) -> str:
    sizes = sorted(Counter(machines).items(), reverse=True)
    shown = [f"{count} with {size}" for size, count in sizes[:_MOST_SIZES]]
    if len(sizes) > _MOST_SIZES:
        shown.append(f"and {len(sizes) - _MOST_SIZES} smaller sizes")
    return "; ".join(shown) or "none at all"
