"""Access keys: who may call, and with which rights.

They are in a file of the server's folder or, for the servers of a team, in the database that they
share; the key of the server's own machine is always in the file.
"""

import base64
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from cryptography.exceptions import InvalidTag

from trackside.api.access_key import (
    AccessKey,
    KeyStore,
    KeysUnavailable,
    UnknownKey,
    good,
)
from trackside.api.keys_file import DamagedKeys, KeysFile
from trackside.errors import TracksideError
from trackside.files import damaged_files
from trackside.jobs.owner_limit import Limit
from trackside.records.owners import is_reserved
from trackside.records.rights import Rights

if TYPE_CHECKING:
    from trackside.api.team_keys import TeamKeys

__all__ = [
    "OWN_LABEL",
    "AccessKey",
    "AccessKeys",
    "DamagedKeys",
    "InvalidLabel",
    "KeyRing",
    "KeysUnavailable",
    "Rights",
    "UnknownKey",
]

OWN_LABEL = "this machine"
"""The label of the key that a server creates for clients on its machine."""
_LABEL_MOST = 128


class InvalidLabel(TracksideError):
    code = "invalid_label"


class KeyRing(Protocol):
    """What is needed to verify a request."""

    def get(self, key_id: str) -> AccessKey: ...

    def secret_of(self, key_id: str) -> str | None: ...


class AccessKeys:
    """All keys of one server."""

    def __init__(self, folder: Path, team: "TeamKeys | None" = None) -> None:
        self._file = KeysFile(folder)
        self._team = team
        self._store: KeyStore = self._file if team is None else team
        """Where new ones go."""
        self._secrets: dict[tuple[str, str], str] = {}
        """Decrypted ones, by the id and the sealed text."""

    def create(
        self,
        label: str,
        rights: Rights,
        *,
        limit: int | None = None,
        limit_cores: int | None = None,
        limit_gpus: int | None = None,
        quota_bytes: int | None = None,
    ) -> tuple[AccessKey, str]:
        """The key and its secret, which is shown this once. `InvalidLabel` for one that cannot be
        the name of an owner."""
        _check_label(label)
        named, secret = _drawn()
        key = AccessKey(
            id=named,
            rights=rights,
            label=label,
            created=time.time(),
            sealed=self._store.seal.seal(secret, named),
            limit=limit,
            limit_cores=limit_cores,
            limit_gpus=limit_gpus,
            quota_bytes=quota_bytes,
        )
        self._store.change(lambda keys: keys.update({key.id: key}))
        return key, secret

    def own_key(self) -> AccessKey:
        """For users of this machine, and valid at its server only; created on first use."""
        for key in self._file.known().values():
            if key.label == OWN_LABEL and key.rights is Rights.ADMIN and key.expires is None:
                return key
        named, secret = _drawn()
        sealed = self._file.seal.seal(secret, named)
        key = AccessKey(
            id=named, rights=Rights.ADMIN, label=OWN_LABEL, created=time.time(), sealed=sealed
        )
        self._file.change(lambda keys: keys.update({key.id: key}))
        return key

    def rotate(self, key_id: str, overlap_seconds: float) -> tuple[AccessKey, str]:
        """A successor with the same rights; the old one ends after the overlap."""
        store = self._store_of(key_id)
        named, secret = _drawn()
        now, sealed = time.time(), store.seal.seal(secret, named)
        made: list[AccessKey] = []

        def apply(keys: dict[str, AccessKey]) -> None:
            old = good(keys, key_id)
            made[:] = [replace(old, id=named, created=now, expires=None, sealed=sealed)]
            keys[named] = made[0]
            keys[key_id] = replace(old, expires=now + overlap_seconds)

        store.change(apply)
        return made[0], secret

    def set_quota(self, key_id: str, quota_bytes: int | None) -> str:
        """Of all keys with the label of this one, which share it; that label."""
        return self._change_label(key_id, lambda key: replace(key, quota_bytes=quota_bytes))

    def set_limit(self, key_id: str, limit: Limit) -> str:
        """As `set_quota`."""
        return self._change_label(
            key_id,
            lambda key: replace(
                key, limit=limit.jobs, limit_cores=limit.cores, limit_gpus=limit.gpus
            ),
        )

    def revoke(self, key_id: str) -> None:
        def apply(keys: dict[str, AccessKey]) -> None:
            if keys.pop(key_id, None) is None:
                good(keys, key_id)

        self._store_of(key_id).change(apply)

    def all(self) -> list[AccessKey]:
        found = [key for store in self._stores() for key in store.known().values()]
        return sorted(found, key=lambda key: key.created)

    def get(self, key_id: str) -> AccessKey:
        """`UnknownKey` when there is none, or when it has expired; `KeysUnavailable` when that
        cannot be known."""
        store = self._store_of(key_id)
        if problem := store.problem:
            raise KeysUnavailable(problem)
        return good(store.known(), key_id)

    def limits(self, default: int) -> Callable[[str], Limit]:
        """How much the jobs of a label may use at a time: their number by its newest key, else the
        default; cores and GPUs by its newest key with such a limit, so that a second key without
        one does not lift it.

        By label, so that a key and its successor count as one. 0 is any number.
        """

        def limit_of(label: str) -> Limit:
            named = [key for key in self.all() if key.label == label]
            jobs = named[-1].limit if named else None
            return Limit(
                (default if jobs is None else jobs) or None,
                _last(key.limit_cores for key in named) or None,
                _last(key.limit_gpus for key in named) or None,
            )

        return limit_of

    def quotas(self) -> dict[str, int]:
        """By label: the quota of its newest key that has one, so that a second key without a quota
        does not lift it."""
        return {key.label: key.quota_bytes for key in self.all() if key.quota_bytes is not None}

    def secret_of(self, key_id: str) -> str | None:
        """None for a key that is unknown, has expired, or whose record was tampered with."""
        try:
            key = self.get(key_id)
        except UnknownKey:
            return None
        kept = key.id, key.sealed
        if kept not in self._secrets:
            try:
                self._secrets[kept] = self._store_of(key_id).seal.unseal(key.sealed, key.id)
            except (InvalidTag, ValueError):
                damaged_files.say_once(self._file.path, f"the secret of {key_id} cannot be opened")
                return None
        return self._secrets[kept]

    def seal(self, secret: str, bound_to: str) -> str:
        """Encrypted under the key of this machine, or of its team."""
        return self._store.seal.seal(secret, bound_to)

    def unseal(self, text: str, bound_to: str) -> str:
        """`InvalidTag` or a `ValueError` for text that was not sealed here."""
        return self._store.seal.unseal(text, bound_to)

    def derived(self, purpose: str) -> str:
        """A secret that cannot be guessed without the machine's key, always the same."""
        return self._file.seal.derived(purpose)

    def kept_current(self) -> AbstractContextManager[None]:
        """For a server: inside, no request waits for a database."""
        return nullcontext() if self._team is None else self._team.watched()

    def join_team(self) -> int:
        """Move the keys of the file, except this machine's own, to the team's; returns how many."""
        if self._team is None:
            return 0
        return self._team.adopt(self._file, lambda key: key.label != OWN_LABEL)

    def _change_label(self, key_id: str, change: Callable[[AccessKey], AccessKey]) -> str:
        store = self._store_of(key_id)
        label = good(store.known(), key_id).label

        def apply(keys: dict[str, AccessKey]) -> None:
            good(keys, key_id)
            for key in [each for each in keys.values() if each.label == label]:
                keys[key.id] = change(key)

        store.change(apply)
        return label

    def _stores(self) -> Iterator[KeyStore]:
        yield self._store
        if self._store is not self._file:
            yield self._file

    def _store_of(self, key_id: str) -> KeyStore:
        is_of_file = self._team is None or key_id in self._file.known()
        return self._file if is_of_file else self._store


def _drawn() -> tuple[str, str]:
    """An id and a secret."""
    secret = base64.b64encode(secrets.token_bytes(30)).decode()
    return "TS" + base64.b32encode(secrets.token_bytes(12)).decode().rstrip("="), secret


def _last(values: Iterable[int | None]) -> int | None:
    return next((each for each in reversed([*values]) if each is not None), None)


def _check_label(label: str) -> None:
    if is_reserved(label):
        raise InvalidLabel(
            f"A key cannot be called {label!r}: jobs of others would be its own. Give a name that "
            "is not empty and starts neither with 'local:' nor with 'job '."
        )
    if label != label.strip() or not label.isprintable() or len(label) > _LABEL_MOST:
        raise InvalidLabel(
            f"A key cannot be called {label!r}. Give at most {_LABEL_MOST} printable characters, "
            "without spaces at the ends."
        )
