"""One access key: its fields, its rights, and its stored form.

`keys.py` has all keys of a server; `keys_file.py` and `team_keys.py` store them.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from trackside.api.encryption import Seal
from trackside.errors import TracksideError
from trackside.records.rights import Rights

Change = Callable[[dict[str, "AccessKey"]], None]
"""Changes the given keys, by id. May be called again with others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessKey:
    id: str
    rights: Rights
    label: str
    """The owner of the jobs that it submits. Keys with the same label are one owner, and share one
    limit and one quota.
    """
    created: float
    expires: float | None = None
    """Set by a rotation: both keys are valid until then. Seconds since the epoch."""
    sealed: str = ""
    """The secret, encrypted and bound to the id."""
    limit: int | None = None
    """How many of its jobs run at a time; None is the server's setting, 0 any number."""
    limit_cores: int | None = None
    """How many cores the jobs of its label may use at a time; None is any number."""
    limit_gpus: int | None = None
    quota_bytes: int | None = None
    """How many bytes the jobs of its label may store on the server's disk; None is any number."""

    @property
    def is_good(self) -> bool:
        """Whether it has not expired."""
        return self.expires is None or self.expires >= time.time()

    def to_record(self) -> dict[str, Any]:
        """Without unset members, so that an older version, which does not know them, can read
        it."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class UnknownKey(TracksideError):
    code = "unknown_key"


class KeysUnavailable(TracksideError):
    code = "keys_unavailable"


class KeyStore(Protocol):
    """Where keys are stored."""

    @property
    def seal(self) -> Seal:
        """What their secrets are encrypted with."""

    @property
    def problem(self) -> str:
        """Why its keys are not accepted, as nothing is known about which are still valid; else
        empty."""

    def known(self) -> Mapping[str, AccessKey]:
        """By id, including expired ones."""

    def change(self, apply: Change) -> None:
        """Store the keys as `apply` changes them; one change at a time."""


def good(keys: Mapping[str, AccessKey], key_id: str) -> AccessKey:
    """`UnknownKey` when it does not exist or has expired."""
    key = keys.get(key_id)
    if key is None or not key.is_good:
        raise UnknownKey(f"No access key is {key_id!r}. `trackside keys list` shows all.")
    return key
