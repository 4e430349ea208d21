"""The owner of a job: the name (label) of the access key that submitted it or, for a job submitted
without a server, a user of this machine.

Recorded in the journal from the first line on. `api/ownership.py` decides what an owner may do.
"""

import os
import pwd

from trackside.quick_dataclass import dataclass
from trackside.records.journal import History

LOCAL = "local:"
"""Prefix of the owner of a job that was submitted without a server."""
_RESERVED = (LOCAL, "job ")
"""`job NAME` is the name of a running job's key."""


@dataclass(frozen=True, slots=True)
class Submitter:
    """Who submitted a job."""

    owner: str = ""
    """Empty for jobs from before owners were recorded."""
    key: str = ""
    """The id of the access key; empty without a server."""

    @classmethod
    def of(cls, history: History) -> "Submitter":
        """Earlier servers recorded only `who`, the label of the key."""
        note = history.submitted
        return cls(str(note.get("owner") or note.get("who") or ""), str(note.get("key") or ""))


def local_owner() -> str:
    """For jobs that this process submits without a server."""
    user = os.geteuid()
    try:
        return LOCAL + pwd.getpwuid(user).pw_name
    except KeyError:  # as in containers that run as an arbitrary uid
        return f"{LOCAL}{user}"


def is_reserved(name: str) -> bool:
    """Whether no access key may have this name: it would own jobs that it did not submit."""
    return not name.strip() or name.startswith(_RESERVED)
