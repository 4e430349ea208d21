"""The placements by name: `options.placement` of a job. A new one is a line in `PLACEMENTS`."""

from importlib import import_module
from typing import cast

from trackside.placement.placement import Placement
from trackside.records.placed import LOCAL

PLACEMENTS = {
    LOCAL: "trackside.placement.local:LocalPlacement",
    "kubernetes": "trackside.placement.kubernetes:KubernetesPlacement",
    "ray": "trackside.placement.ray:RayPlacement",
    "slurm": "trackside.placement.slurm:SlurmPlacement",
}
"""Module and class by name. A module is imported when a job asks for it: an engine's client may be
slow to load, or not installed."""


class UnknownPlacement(ValueError):
    def __init__(self, name: str) -> None:
        super().__init__(f"is not known; known: {', '.join(sorted(PLACEMENTS))}")
        self.name = name


def placement_named(name: str) -> Placement:
    """`slurm`, or `slurm:user@login` for one that is reached there; likewise `ray:host:6379`
    and `kubernetes:context`."""
    return placement_class(name)(name.partition(":")[2])


def placement_class(name: str) -> type[Placement]:
    """`UnknownPlacement`, a `ValueError` that lists the known names."""
    kind, colon, _ = name.partition(":")
    try:
        module, _, found = PLACEMENTS[kind].partition(":")
    except KeyError:
        raise UnknownPlacement(name) from None
    placement = cast(type[Placement], getattr(import_module(module), found))
    if colon and not placement.takes_address:
        raise UnknownPlacement(name)
    return placement
