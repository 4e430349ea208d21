"""Temporary keys, as AssumeRole gives them. Nothing is kept: the token holds the key, sealed."""

import base64
import binascii
import json
import secrets
import time
from dataclasses import asdict, dataclass

from cryptography.exceptions import InvalidTag

from trackside.api.keys import AccessKey, AccessKeys

_BOUND_TO = "session"


@dataclass(frozen=True, slots=True)
class Session:
    """Good for what its parent is good for, as long as that is, and until it expires."""

    id: str
    secret: str
    parent: str
    """The id of the key that asked."""
    expires: float
    """Seconds since the epoch."""


class Sessions:
    def __init__(self, keys: AccessKeys) -> None:
        self._keys = keys

    def issue(self, parent: AccessKey, seconds: float) -> tuple[Session, str]:
        """A session and its token."""
        session = Session(
            id="TSS" + base64.b32encode(secrets.token_bytes(10)).decode(),
            secret=base64.b64encode(secrets.token_bytes(30)).decode(),
            parent=parent.id,
            expires=time.time() + seconds,
        )
        return session, self._keys.seal(json.dumps(asdict(session)), _BOUND_TO)

    def find(self, token: str, key_id: str) -> Session | None:
        """The session of this id; None for a token of somebody else's, and when its time is over.

        A token beside a lasting key is one that was left in a client's environment.
        """
        try:
            session = Session(**json.loads(self._keys.unseal(token, _BOUND_TO)))
        except (InvalidTag, binascii.Error, ValueError, TypeError):
            return None
        return session if session.id == key_id and session.expires > time.time() else None
