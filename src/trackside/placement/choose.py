"""The placements by name: `options.placement` of a job. A new one is a line in `PLACEMENTS`."""

from importlib import import_module
from typing import cast

from trackside.placement.placement import Placement
from trackside.records.placed import LOCAL

PLACEMENTS = {LOCAL: "trackside.placement.local:LocalPlacement"}
"""Module and class by name. A module is imported when a job asks for it: an engine's client may be
slow to load, or not installed."""


class UnknownPlacement(ValueError):
    def __init__(self, name: str) -> None:
        super().__init__(f"is not known; known: {', '.join(sorted(PLACEMENTS))}")
        self.name = name


def placement_named(name: str) -> Placement:
    return placement_class(name)()


def placement_class(name: str) -> type[Placement]:
    """`UnknownPlacement`, a `ValueError` that lists the known names."""
    try:
        module, _, kind = PLACEMENTS[name].partition(":")
    except KeyError:
        raise UnknownPlacement(name) from None
    return cast(type[Placement], getattr(import_module(module), kind))
