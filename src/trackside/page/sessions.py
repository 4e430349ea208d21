"""Sessions of people who have logged in to a server's page: kept in memory, and in a file so that a
restart logs nobody out.

The file has hashes of the session ids: who reads it cannot use them.
"""

import hashlib
import hmac
import logging
import secrets
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from threading import Lock
from typing import Any

from trackside.files import damaged_files, disk_space, durable
from trackside.page.login_link import Link
from trackside.quick_dataclass import dataclass

logger = logging.getLogger(__name__)

IDLE_SECONDS = 7 * 86400.0
MOST_OF_KEY = 100
"""Sessions; a further one ends the one that was idle longest."""
_NOTED_SECONDS = 600.0
"""How old the time of the last request may be in the file."""


@dataclass(frozen=True, slots=True)
class Session:
    digest: str
    key_id: str
    created: float
    seen: float
    """When the last request came."""


class Sessions:
    """Thread-safe."""

    def __init__(
        self,
        path: Path,
        clock: Callable[[], float],
        *,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._path = path
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._lock = Lock()
        self._sessions: dict[str, Session] | None = None
        """By digest; None before the file was read."""
        self._used: dict[str, int] = {}
        """Links that were used, and when they would have ended."""

    def create(self, key_id: str) -> str:
        """The id, which only the browser keeps."""
        named = secrets.token_urlsafe(32)
        now = self._clock()
        with self._lock:
            known = self._known()
            known[_digest(named)] = Session(_digest(named), key_id, now, now)
            of_key = sorted((s.seen, s.digest) for s in known.values() if s.key_id == key_id)
            for _, digest in of_key[:-MOST_OF_KEY]:
                del known[digest]
            self._save()
        return named

    def find(self, named: str) -> Session | None:
        """None for one that is unknown, has ended, or was idle too long."""
        now, digest = self._clock(), _digest(named)
        with self._lock:
            found = self._known().get(digest)
            if found is None or now - found.seen > self._idle_seconds:
                return None
            if now - found.seen > min(_NOTED_SECONDS, self._idle_seconds / 10):
                found = replace(found, seen=now)
                self._known()[digest] = found
                self._save()
            return found

    def end(self, named: str) -> None:
        with self._lock:
            if self._known().pop(_digest(named), None) is not None:
                self._save()

    def use(self, link: Link) -> bool:
        """Whether this is the first use of a link."""
        with self._lock:
            self._known()
            if link.nonce in self._used:
                return False
            self._used[link.nonce] = link.expires
            self._save()
            return True

    def was_used(self, link: Link) -> bool:
        with self._lock:
            self._known()
            return link.nonce in self._used

    def _known(self) -> dict[str, Session]:
        if self._sessions is None:
            record = damaged_files.read_object(self._path) or {}
            self._sessions = {each.digest: each for each in _sessions(record.get("sessions"))}
            self._used = _used(record.get("used"))
        return self._sessions

    def _save(self) -> None:
        """On a disk that takes nothing they last until the server ends."""
        now = self._clock()
        known = self._known()
        for digest, each in list(known.items()):
            if now - each.seen > self._idle_seconds:
                del known[digest]
        self._used = {nonce: end for nonce, end in self._used.items() if end >= now}
        record = {"sessions": [asdict(each) for each in known.values()], "used": self._used}
        try:
            durable.write_json(self._path, record)
        except OSError as error:
            if not disk_space.takes_nothing(error):
                raise
            logger.warning("%s cannot be written: %s", self._path, error.strerror)


def csrf_of(secret: str) -> str:
    """For every change, by a header that other sites cannot send. `secret` is a session's id."""
    return hmac.new(secret.encode(), b"trackside csrf", hashlib.sha256).hexdigest()


def _digest(named: str) -> str:
    return hashlib.sha256(named.encode()).hexdigest()


def _sessions(records: Any) -> list[Session]:
    found = []
    for record in records if isinstance(records, list) else []:
        try:
            found.append(Session(**record))
        except TypeError:
            continue
    return [each for each in found if _is_whole(each)]


def _is_whole(session: Session) -> bool:
    texts, times = (session.digest, session.key_id), (session.created, session.seen)
    are_texts = all(isinstance(each, str) for each in texts)
    return are_texts and all(isinstance(each, int | float) for each in times)


def _used(record: Any) -> dict[str, int]:
    items = record.items() if isinstance(record, dict) else ()
    return {nonce: end for nonce, end in items if isinstance(end, int)}
