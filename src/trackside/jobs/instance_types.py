"""The resources of an instance type: AWS's `ml.FAMILY.SIZE`, our `local`, and names of one's own
(TRACKSIDE_INSTANCE_TYPES). The one table of them.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TypeVar

from trackside.errors import InvalidSetting
from trackside.jobs.machine_resources import MachineResources, amounts_in
from trackside.settings import own_instance_types

T = TypeVar("T")

LOCAL = MachineResources(cores=1)
"""For a type without a size, such as `local`."""

_SETTING = "TRACKSIDE_INSTANCE_TYPES"
_TYPE = re.compile(
    r"ml\.(?P<family>[a-z]+\d[a-z0-9]*(?:-[a-z0-9]+)*)\.(?P<multiple>\d*)"
    r"(?P<size>medium|large|xlarge|metal)"
)
_CORES = {"medium": 1, "large": 2, "xlarge": 4, "metal": 96}
_GB_PER_CORE = {
    "c": 2,
    "r": 8,
    "p2": 15.25,
    "p3": 7.625,
    "p3dn": 8,
    "p4": 12,
    "p5": 32 / 3,
    "p6": 32 / 3,
    "p6-b300": 64 / 3,
    "p6e": 20 / 3,
    "g6e": 8,
}
"""By family prefix, the longest match; 4 for all others. From AWS's tables."""
_GPUS = {
    "p2": {1: 1, 8: 8, 16: 16},
    "p3": {2: 1, 8: 4, 16: 8},
    "p3dn": {24: 8},
    "p4": {24: 8},
    "p5": {4: 1, 48: 8},
    "p6": {48: 8},
    "p6e": {36: 4},
    "g": {12: 4, 24: 4, 48: 8},
}
"""GPUs by size `Nxlarge`, where there is not exactly one."""


def of_type(instance_type: str) -> MachineResources:
    """What one's own settings say, else what AWS's type of this name has."""
    if (own := own_types().get(instance_type)) is not None:
        return own
    if instance_type == "local_gpu":
        return MachineResources(cores=1, gpus=1)
    match = _TYPE.fullmatch(instance_type)
    if match is None:
        return LOCAL
    family, multiple, size = match["family"], int(match["multiple"] or 1), match["size"]
    cores = _CORES[size] * multiple
    memory = cores * _longest(_GB_PER_CORE, family, 4)
    gpus = 0
    if family[0] in "pg" and size == "xlarge":
        gpus = _longest(_GPUS, family, {}).get(multiple, 1)
    return MachineResources(cores, memory, gpus)


def is_possible(instance_type: str) -> bool:
    """Whether AWS could offer it: a family with its generation, and a size (`ml.p5.48xlarge`).

    Not whether it does: there are new ones every year. Other prefixes than `ml.` are ours.
    """
    is_aws = instance_type.startswith("ml.") and instance_type not in own_types()
    return not is_aws or _TYPE.fullmatch(instance_type) is not None


def own_types() -> Mapping[str, MachineResources]:
    """Of TRACKSIDE_INSTANCE_TYPES. `InvalidSetting` for one that cannot be read."""
    return _parsed(own_instance_types())


@lru_cache(maxsize=8)
def _parsed(setting: str) -> Mapping[str, MachineResources]:
    found = {}
    for part in filter(None, (part.strip() for part in setting.split(";"))):
        name, colon, amounts = (text.strip() for text in part.partition(":"))
        if not colon or not name or not amounts:
            raise InvalidSetting(
                f"{_SETTING} = {setting!r}: {part!r} is not of the form "
                "NAME: cores=NUMBER,memory_gb=NUMBER,gpus=NUMBER. Separate types by semicolons."
            )
        found[name] = MachineResources(**{"cores": 1, **amounts_in(amounts, _SETTING, setting)})
    return found


def _longest(table: Mapping[str, T], family: str, default: T) -> T:
    fitting = [start for start in table if family.startswith(start)]
    return table[max(fitting, key=len)] if fitting else default
