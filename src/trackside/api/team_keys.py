"""Access keys that the servers of a team share: rows of its database, sealed with the team's key.

A server reads them once a second, so that a change at another one takes effect within two. While
the database is unavailable, the last known keys stay valid for a limited time.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from cryptography.exceptions import InvalidTag

from trackside.api.access_key import AccessKey, Change
from trackside.api.encryption import Seal
from trackside.api.keys_file import KeysFile
from trackside.errors import ServerRefused
from trackside.files import durable
from trackside.files.json_record import DamagedRecord, parsed_object, record
from trackside.jobs.postgres_index import Connection, Postgres
from trackside.system.worker import Worker

logger = logging.getLogger(__name__)

_PAUSE_SECONDS = 1.0
LEAST_GRACE_SECONDS = 10.0
"""A working database may take as long, on a very busy machine."""
_CLOSE_SECONDS = 10.0
_PROOF = "team key"
"""Sealed text that can only be opened with the same key."""
_BEFORE = "keys.before-team.json"


class TeamKeys:
    def __init__(self, database: Postgres, key: bytes, grace_seconds: float) -> None:
        self.seal = Seal(lambda: key)
        self._database = database
        self._grace_seconds = grace_seconds
        self._keys: dict[str, AccessKey] = {}
        self._read_at: float | None = None
        """By the monotonic clock; None while no thread reads regularly."""
        self._damaged: set[str] = set()

    @property
    def address(self) -> str:
        """Of the database, for people."""
        return self._database.address

    @property
    def problem(self) -> str:
        if self._read_at is None:
            return ""
        age = time.monotonic() - self._read_at
        if age <= max(self._grace_seconds, LEAST_GRACE_SECONDS):
            return ""
        return (
            f"The database with the access keys of this server has not answered for {age:.0f} s, "
            "and it is unknown which of them are still valid. Jobs continue; try again later."
        )

    def known(self) -> Mapping[str, AccessKey]:
        """Inside `watched` as they were read last; else as they are now."""
        if self._read_at is None:
            with self._connected():
                self._keys = self._read()
        return self._keys

    def change(self, apply: Change) -> None:
        after: dict[str, AccessKey] = {}

        def work(connection: Connection) -> None:
            connection.execute("LOCK TABLE access_keys IN SHARE ROW EXCLUSIVE MODE")
            before = self._parsed(connection.execute(_ALL).fetchall())
            after.clear()
            after.update(before)
            apply(after)
            _write(connection, before, after)

        with self._connected():
            self._database.transact(work)
        self._keys = after

    def check_key(self) -> None:
        """Whether this team's keys are sealed with this server's key; the first server decides
        which that is. `ServerRefused` if it differs.
        """
        mine = self.seal.seal(_PROOF, _PROOF)

        def work(connection: Connection) -> str:
            connection.execute(
                "INSERT INTO team_key (proof) VALUES (%s) ON CONFLICT DO NOTHING", (mine,)
            )
            found = connection.execute("SELECT proof FROM team_key").fetchone()
            return mine if found is None else str(found[0])

        with self._connected():
            proof = self._database.transact(work)
        try:
            self.seal.unseal(proof, _PROOF)
        except (InvalidTag, ValueError):
            raise ServerRefused(
                f"The access keys in the database {self.address!r} are sealed with "
                "another team's key than the one in TRACKSIDE_TEAM_KEY_FILE. Copy that file from "
                "a server of the team."
            ) from None

    def adopt(self, file: KeysFile, is_wanted: Callable[[AccessKey], bool]) -> int:
        """Take over keys of a file, with the same ids and secrets; returns how many. A copy of the
        file stays next to it. Idempotent, also after a crash.
        """
        wanted = {key.id: key for key in file.known().values() if is_wanted(key)}
        if not wanted:
            return 0
        moved = {key.id: self._resealed(key, file) for key in wanted.values()}
        self.change(lambda keys: keys.update({**moved, **keys}))
        _copy(file.path)

        def without(keys: dict[str, AccessKey]) -> None:
            for key_id in moved:
                keys.pop(key_id, None)

        file.change(without)
        logger.warning("moved %d access keys to the database %s", len(moved), self.address)
        return len(moved)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Inside, a thread reads the keys, and no request waits for the database."""
        self._keys = self._read()
        self._read_at = time.monotonic()
        worker = Worker(
            "trackside-keys",
            self._refresh,
            interval=_PAUSE_SECONDS,
            delay=_PAUSE_SECONDS,
            retry_seconds=(_PAUSE_SECONDS, _PAUSE_SECONDS),
            problem=f"access keys stay as they were read last for {self._grace_seconds:.0f} s",
        )
        worker.start()
        try:
            yield
        finally:
            worker.close(_CLOSE_SECONDS)
            self._read_at = None
            self._database.close()

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Occasional callers keep no connection open."""
        try:
            yield
        finally:
            if self._read_at is None:
                self._database.close()

    def _refresh(self) -> None:
        began = time.monotonic()
        self._keys, self._read_at = self._read(), began

    def _read(self) -> dict[str, AccessKey]:
        return self._parsed(self._database.read(_ALL))

    def _parsed(self, rows: list[tuple[str, str]]) -> dict[str, AccessKey]:
        """A damaged key is ignored; the others are valid."""
        keys = {}
        for key_id, text in rows:
            try:
                keys[key_id] = replace(record(AccessKey, parsed_object(text)), id=key_id)
            except DamagedRecord as error:
                if key_id not in self._damaged:
                    logger.warning(
                        "the access key %s in the database is damaged: %s", key_id, error
                    )
                self._damaged.add(key_id)
        return keys

    def _resealed(self, key: AccessKey, file: KeysFile) -> AccessKey:
        try:
            secret = file.seal.unseal(key.sealed, key.id)
        except (InvalidTag, ValueError):
            return key  # it can be decrypted neither here nor there
        return replace(key, sealed=self.seal.seal(secret, key.id))


_ALL = "SELECT id, record FROM access_keys"


def has_team_key(database: Postgres) -> bool:
    """Whether the servers of this database share their keys."""
    return bool(database.read("SELECT 1 FROM team_key"))


def _write(
    connection: Connection, before: Mapping[str, AccessKey], after: Mapping[str, AccessKey]
) -> None:
    """Damaged rows, which are in neither, stay."""
    for key_id in before.keys() - after.keys():
        connection.execute("DELETE FROM access_keys WHERE id = %s", (key_id,))
    for key_id, key in after.items():
        if key != before.get(key_id):
            connection.execute(
                "INSERT INTO access_keys (id, record) VALUES (%s, %s)"
                " ON CONFLICT (id) DO UPDATE SET record = excluded.record",
                (key_id, json.dumps(key.to_record())),
            )


def _copy(path: Path) -> None:
    """Once: the first copy is the one that may be needed again."""
    copy = path.with_name(_BEFORE)
    if not copy.exists():
        durable.write_json(copy, json.loads(path.read_bytes()), mode=0o600)
