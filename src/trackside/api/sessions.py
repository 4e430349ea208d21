"""Temporary keys, as AssumeRole returns them. Nothing is stored: the token holds the key,
sealed."""

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import time
from dataclasses import asdict, dataclass

from cryptography.exceptions import InvalidTag

from trackside.api.keys import AccessKey, AccessKeys, KeyRing

_BOUND_TO = "session"


@dataclass(frozen=True, slots=True)
class Session:
    """Has the rights of its parent, as long as that is valid, and until it expires."""

    id: str
    secret: str
    parent: str
    """The id of the key that requested it."""
    parent_mark: str
    """Of that key's secret. A later job of the same name has the same id and another secret."""
    expires: float
    """Seconds since the epoch."""


class Sessions:
    def __init__(self, keys: AccessKeys, parents: KeyRing | None = None) -> None:
        """`parents` are the keys that may request one, where keys of jobs may too."""
        self._keys = keys
        self._parents = parents or keys

    def issue(self, parent: AccessKey, seconds: float) -> tuple[Session, str]:
        """A session and its token."""
        session = Session(
            id="TSS" + base64.b32encode(secrets.token_bytes(10)).decode(),
            secret=base64.b64encode(secrets.token_bytes(30)).decode(),
            parent=parent.id,
            parent_mark=self._mark(parent.id),
            expires=time.time() + seconds,
        )
        return session, self._keys.seal(json.dumps(asdict(session)), _BOUND_TO)

    def find(self, token: str, key_id: str) -> Session | None:
        """The session with this id; None for another's token, after its time, and when its parent
        was revoked.

        A token beside a permanent key was left in a client's environment.
        """
        try:
            session = Session(**json.loads(self._keys.unseal(token, _BOUND_TO)))
        except (InvalidTag, binascii.Error, ValueError, TypeError):
            return None
        if session.id != key_id or session.expires <= time.time():
            return None
        mark = self._mark(session.parent)
        return session if mark and hmac.compare_digest(mark, session.parent_mark) else None

    def _mark(self, key_id: str) -> str:
        """Empty when there is no such key, or its time is over."""
        secret = self._parents.secret_of(key_id)
        return "" if secret is None else hashlib.sha256(secret.encode()).hexdigest()
