"""Access keys: who may call, and what they may do. Kept in one file of the server's folder.

Signature Version 4 needs the secret itself to verify, so secrets are not hashed but sealed with
a key of the machine that only the server's user can read.
"""

import base64
import fcntl
import hmac
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from trackside import damage, durable
from trackside.errors import TracksideError
from trackside.json_record import DamagedRecord, parsed, record
from trackside.owners import is_reserved
from trackside.permissions import make_folder, private_opener

_NONCE_BYTES = 12
_LABEL_MOST = 128


class Rights(StrEnum):
    """Each includes those before it."""

    READ = "read"
    SUBMIT = "submit"
    ADMIN = "admin"

    def allow(self, needed: "Rights") -> bool:
        return _ORDER[self] >= _ORDER[needed]


_ORDER = {rights: number for number, rights in enumerate(Rights)}


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessKey:
    id: str
    rights: Rights
    label: str
    """Whose it is: the owner of the jobs that it submits. Keys with the same label are one owner,
    and share one limit and one quota."""
    created: float
    expires: float | None = None
    """Set by a rotation: both keys are good until then. Seconds since the epoch."""
    sealed: str = ""
    """The secret, encrypted and bound to the id."""
    limit: int | None = None
    """How many of its jobs run at a time; None is what the server's settings say."""
    quota_bytes: int | None = None
    """How much the jobs of its label may keep on the server's disk; None is any amount."""

    @property
    def is_good(self) -> bool:
        """Its time is not over."""
        return self.expires is None or self.expires >= time.time()


class UnknownKey(TracksideError):
    code = "unknown_key"


class InvalidLabel(TracksideError):
    code = "invalid_label"


class DamagedKeys(TracksideError):
    code = "damaged_keys"


class KeyRing(Protocol):
    """What is asked to verify a request."""

    def get(self, key_id: str) -> AccessKey: ...

    def secret_of(self, key_id: str) -> str | None: ...


class AccessKeys:
    """All keys of one server. Changes made by another process are seen at the next question."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "keys.json"
        self._name = os.fspath(self._path)  # asked for at every request
        self._master = folder / "master.key"
        self._lock = Lock()
        self._seen: tuple[int, int] | None = None
        self._damage = ""
        """What is wrong with the file. The keys that were read before count on."""
        self._keys: dict[str, AccessKey] = {}
        self._secrets: dict[str, str] = {}

    def create(
        self,
        label: str,
        rights: Rights,
        *,
        limit: int | None = None,
        quota_bytes: int | None = None,
    ) -> tuple[AccessKey, str]:
        """The key and its secret, which is shown this once. `InvalidLabel` for one that cannot be
        the name of an owner."""
        _check_label(label)
        key, secret = self._made(label, rights, limit, quota_bytes)
        with self._changing() as keys:
            keys[key.id] = key
        return key, secret

    def rotate(self, key_id: str, overlap_seconds: float) -> tuple[AccessKey, str]:
        """A successor with the same rights; the old one ends after the overlap."""
        with self._changing() as keys:
            old = _good(keys, key_id)
            key, secret = self._made(old.label, old.rights, old.limit, old.quota_bytes)
            keys[key.id] = key
            keys[key_id] = replace(old, expires=time.time() + overlap_seconds)
        return key, secret

    def set_quota(self, key_id: str, quota_bytes: int | None) -> str:
        """Of all keys with the label of this one, which share it; that label."""
        with self._changing() as keys:
            label = _good(keys, key_id).label
            for key in [each for each in keys.values() if each.label == label]:
                keys[key.id] = replace(key, quota_bytes=quota_bytes)
        return label

    def revoke(self, key_id: str) -> None:
        with self._changing() as keys:
            if keys.pop(key_id, None) is None:
                raise _unknown(key_id)

    def all(self) -> list[AccessKey]:
        with self._lock:
            self._refresh()
            return sorted(self._keys.values(), key=lambda key: key.created)

    def get(self, key_id: str) -> AccessKey:
        """`UnknownKey` when there is none, or when its time is over."""
        with self._lock:
            self._refresh()
            return _good(self._keys, key_id)

    def limits(self, default: int) -> Callable[[str], int | None]:
        """How many jobs of a label may run at a time: as its newest key says, else the default.

        By label, so that a key and its successor count as one. 0 is any number.
        """

        def limit_of(label: str) -> int | None:
            named = [key for key in self.all() if key.label == label]
            own = named[-1].limit if named else None
            return (default if own is None else own) or None

        return limit_of

    def quotas(self) -> dict[str, int]:
        """Of each label with one: as the newest of its keys says that has one, so that a second
        key without a quota does not lift it."""
        return {key.label: key.quota_bytes for key in self.all() if key.quota_bytes is not None}

    def secret_of(self, key_id: str) -> str | None:
        """None for a key that is not known, is over, or whose record somebody changed."""
        try:
            key = self.get(key_id)
        except UnknownKey:
            return None
        if key_id not in self._secrets:
            try:
                self._secrets[key_id] = self.unseal(key.sealed, key.id)
            except (InvalidTag, ValueError):
                damage.say_once(self._path, f"the secret of {key_id} cannot be opened")
                return None
        return self._secrets[key_id]

    def seal(self, secret: str, bound_to: str) -> str:
        """Encrypted under the machine's key; `unseal` needs the same `bound_to`."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = self._cipher().encrypt(nonce, secret.encode(), bound_to.encode())
        return base64.b64encode(nonce + sealed).decode()

    def unseal(self, text: str, bound_to: str) -> str:
        """`InvalidTag` or a `ValueError` for what was not sealed so."""
        data = base64.b64decode(text, validate=True)
        nonce, sealed = data[:_NONCE_BYTES], data[_NONCE_BYTES:]
        return self._cipher().decrypt(nonce, sealed, bound_to.encode()).decode()

    def derived(self, purpose: str) -> str:
        """A secret that nobody can tell without the machine's key, always the same."""
        made = hmac.digest(self._machine_key(), purpose.encode(), "sha256")
        return base64.b64encode(made).decode()

    def _made(
        self, label: str, rights: Rights, limit: int | None, quota_bytes: int | None
    ) -> tuple[AccessKey, str]:
        secret = base64.b64encode(secrets.token_bytes(30)).decode()
        named = "TS" + base64.b32encode(secrets.token_bytes(12)).decode().rstrip("=")
        key = AccessKey(
            id=named,
            rights=rights,
            label=label,
            created=time.time(),
            sealed=self.seal(secret, named),
            limit=limit,
            quota_bytes=quota_bytes,
        )
        return key, secret

    @contextmanager
    def _changing(self) -> Iterator[dict[str, AccessKey]]:
        """The keys as they are now, kept as the block leaves them: one process at a time, so that
        no key is lost between reading and writing."""
        make_folder(self._path.parent)
        lock = self._path.with_suffix(".lock")
        with self._lock, open(lock, "wb", opener=private_opener) as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            self._seen = None
            self._refresh()
            if self._damage:
                raise DamagedKeys(
                    f"The access keys in {self._name!r} are damaged: {self._damage}. Put a copy "
                    "from a backup in its place, or move it away to begin without keys."
                )
            keys = dict(self._keys)
            yield keys
            durable.write_json(self._path, [_told(key) for key in keys.values()])
            self._seen = None

    def _refresh(self) -> None:
        try:
            status = os.stat(self._name)
        except FileNotFoundError:
            self._keys, self._secrets, self._seen, self._damage = {}, {}, None, ""
            return
        seen = (status.st_mtime_ns, status.st_ino)
        if seen != self._seen:
            self._seen = seen
            try:
                found = _read(self._path.read_bytes())
            except DamagedRecord as error:
                self._damage = str(error)
                damage.say_once(self._path, f"{error}; keys that were read before count on")
            else:
                self._keys, self._secrets, self._damage = found, {}, ""

    def _cipher(self) -> AESGCM:
        return AESGCM(self._machine_key())

    def _machine_key(self) -> bytes:
        try:
            return self._master.read_bytes()
        except FileNotFoundError:
            make_folder(self._master.parent)
        # Only the first of two processes makes it; the other reads what that one made.
        temporary = self._master.with_name(f"{self._master.name}.{secrets.token_hex(4)}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:
            file.write(AESGCM.generate_key(256))
            file.flush()
            os.fsync(descriptor)
        try:
            os.link(temporary, self._master)
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
        return self._master.read_bytes()


def _read(data: bytes) -> dict[str, AccessKey]:
    records = parsed(data)
    if not isinstance(records, list):
        raise DamagedRecord("it is no list")
    keys = [record(AccessKey, each) for each in records]
    return {key.id: key for key in keys}


def _told(key: AccessKey) -> dict[str, Any]:
    """Without what is not set, so that a version from before there was a quota reads it too."""
    return {name: value for name, value in asdict(key).items() if value is not None}


def _good(keys: Mapping[str, AccessKey], key_id: str) -> AccessKey:
    key = keys.get(key_id)
    if key is None or not key.is_good:
        raise _unknown(key_id)
    return key


def _check_label(label: str) -> None:
    if is_reserved(label):
        raise InvalidLabel(
            f"A key cannot be called {label!r}: jobs of others would be its own. Give a name that "
            "is not empty and begins neither with 'local:' nor with 'job '."
        )
    if label != label.strip() or not label.isprintable() or len(label) > _LABEL_MOST:
        raise InvalidLabel(
            f"A key cannot be called {label!r}. Give at most {_LABEL_MOST} printable characters, "
            "without spaces at the ends."
        )


def _unknown(key_id: str) -> UnknownKey:
    return UnknownKey(f"No access key is {key_id!r}. `trackside keys list` shows all.")
