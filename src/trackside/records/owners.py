"""Who a job belongs to: the name (label) of the access key that submitted it or, for a job that was
submitted without a server, a user of this machine.

The journal has it from the first line on. What an owner may do is decided in `api/ownership.py`.
"""

import os
import pwd

from trackside.quick_dataclass import dataclass
from trackside.records.journal import History

LOCAL = "local:"
"""Begins the owner of a job that was submitted without a server."""
_RESERVED = (LOCAL, "job ")
"""`job NAME` is what the key of a running job is called."""


@dataclass(frozen=True, slots=True)
class Submitter:
    """Who submitted a job."""

    owner: str = ""
    """Empty for jobs from before owners were recorded."""
    key: str = ""
    """The id of the access key; empty without a server."""

    @classmethod
    def of(cls, history: History) -> "Submitter":
        """Servers of before recorded only `who`, the label of the key."""
        note = history.submitted
        return cls(str(note.get("owner") or note.get("who") or ""), str(note.get("key") or ""))


def local_owner() -> str:
    """For jobs that this process submits without a server."""
    user = os.geteuid()
    try:
        return LOCAL + pwd.getpwuid(user).pw_name
    except KeyError:  # as in containers that run as any number
        return f"{LOCAL}{user}"


def is_reserved(name: str) -> bool:
    """Whether no access key may have this name: jobs would belong to it that it did not submit."""
    return not name.strip() or name.startswith(_RESERVED)
