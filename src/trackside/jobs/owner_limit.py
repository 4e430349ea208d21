"""Limits on what one owner's jobs may use at a time, and their syntax.

`queue.py` enforces them; `api/keys` stores what the operator assigned.
"""

from dataclasses import dataclass, fields
from typing import Any

from trackside.errors import InvalidSetting, OwnerLimitExceeded
from trackside.jobs.machine_resources import MachineResources, amount

SHARED = ("cores", "gpus")
"""The limited fields of `MachineResources`."""
_FORM = "Write jobs=NUMBER, cores=NUMBER and gpus=NUMBER, separated by commas, or none"


@dataclass(frozen=True, slots=True)
class Limit:
    """None means unlimited."""

    jobs: int | None = None
    cores: int | None = None
    gpus: int | None = None

    @classmethod
    def parse(cls, text: str, where: str = "--limit") -> "Limit":
        """`jobs=2,cores=8`; a number alone limits jobs. `InvalidSetting` for anything else. 0 is
        kept: for jobs it means unlimited, overriding the server's settings.
        """
        given: dict[str, Any] = {}
        if text.strip() == "none":
            return cls()
        known = {each.name for each in fields(cls)}
        for part in text.split(","):
            name, equals, number = (each.strip() for each in part.partition("="))
            if not equals:
                name, number = "jobs", name
            if name not in known or name in given or not (number.isascii() and number.isdigit()):
                raise InvalidSetting(f"{where} = {text!r}: {part!r} is no limit. {_FORM}.")
            given[name] = int(number)
        return cls(**given)

    def __str__(self) -> str:
        limits = {each.name: getattr(self, each.name) for each in fields(self)}
        given = {name: value for name, value in limits.items() if value is not None}
        if [*given] == ["jobs"]:
            return str(self.jobs or "none")
        return ",".join(f"{name}={value}" for name, value in given.items())

    def of(self, room: MachineResources) -> MachineResources:
        """The part of it that the owner may use."""
        return MachineResources(
            min(room.cores, self.cores or room.cores),
            room.memory_gb,
            min(room.gpus, self.gpus or room.gpus),
        )

    def charge(self, needs: MachineResources, asked: MachineResources) -> MachineResources:
        """What a job counts for: its explicit request, else its instance type's resources, capped
        at the owner's limit: a type only says where the job ran before.
        """
        counted = {
            what: getattr(asked, what) or min(getattr(needs, what), limit)
            for what in SHARED
            if (limit := getattr(self, what))
        }
        return MachineResources(**counted)

    def lacking(self, used: MachineResources, more: MachineResources) -> str | None:
        """The first field in which the owner would exceed the limit."""
        for what in SHARED:
            limit, added = getattr(self, what), getattr(more, what)
            if limit and added and getattr(used, what) + added > limit:
                return what
        return None

    def check(self, owner: str, asked: MachineResources) -> None:
        """`OwnerLimitExceeded` for a job that could never start."""
        what = self.lacking(MachineResources(), asked)
        if what is not None:
            most, wanted = getattr(self, what), getattr(asked, what)
            raise OwnerLimitExceeded(
                f"The job asks for {amount(what, wanted)}, and all jobs of {owner!r} together may "
                f"use {amount(what, most)} at a time. Ask for less, or have the server's operator "
                "change that with `trackside keys limit`."
            )
