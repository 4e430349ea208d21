"""Who looks at the page, and what they may do.

A server implements `Access` by its access keys (`api/page_access.py`); `trackside ui` by the user
of this machine (`this_machine.py`).
"""

from collections.abc import Mapping
from typing import Any, Protocol

from trackside.quick_dataclass import dataclass
from trackside.records.rights import Rights


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    """The owner of what this person submits."""
    rights: Rights
    key_id: str = ""
    """Of the access key; empty for the user of this machine, who needs none."""


def may_change(access: "Access", person: Person, owner: str) -> bool:
    """Whether this person may change a job of this owner, as its row shows it."""
    if person.rights.allow(Rights.ADMIN):
        return True
    return person.rights.allow(Rights.SUBMIT) and access.owns(person, owner)


class Access(Protocol):
    """The methods may be called from several threads at once."""

    is_server: bool
    """Whether these are the jobs of a team's server, not only of this machine's user."""

    def here(self) -> Person:
        """Who the user of this machine is."""

    def secret_of(self, key_id: str) -> str | None:
        """None for a key that is unknown or has expired."""

    def of_key(self, key_id: str) -> Person | None:
        """The same for its owner and rights."""

    def why_not(self, person: Person, job: str) -> str:
        """Why this person may not change the job; empty when they may. `JobNotFound` without it."""

    def owns(self, person: Person, owner: str) -> bool:
        """Whether jobs of this owner are this person's. Quick: called for every row of a table."""

    def may_see_secrets(self, person: Person, job: str) -> bool:
        """Whether values that look secret are shown, not masked."""

    def submit(self, person: Person, request: Mapping[str, Any]) -> None:
        """Start a job that belongs to this person, from a request as CreateTrainingJob has it.
        Raises what `JobSubmitter.submit` does, or a `PageError`."""
