"""The Postgres database that several homes share: their index, and other shared tables.

Every query returns or raises `DatabaseUnreachable` within seconds, however the database died; at
once while it is known to be down.
"""

import logging
import re
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from threading import BoundedSemaphore, Lock
from typing import Any, LiteralString, TypeVar, cast

import psycopg
from psycopg.conninfo import conninfo_to_dict

from trackside.errors import DatabaseError, DatabaseRefused, DatabaseUnreachable, InvalidSetting
from trackside.jobs.index import Change, Database
from trackside.jobs.postgres_schema import migrate

logger = logging.getLogger(__name__)
T = TypeVar("T")

ANSWER_SECONDS = 3.0
CONNECT_SECONDS = 2
MOST_CONNECTIONS = 8
_RETRY_SECONDS = 1.0
"""Pause before a database that did not respond is tried again."""
_PATIENCE_LOG_SECONDS = 30.0
_SCHEMES = ("postgresql://", "postgres://")
# A refused connection has no error code, only a message.
_FINAL_WORDS = re.compile(
    r"FATAL: (?!.*(starting up|shutting down|not yet accepting|recovery|too many|slots|terminat))"
    r"|Name or service not known|nodename nor servname"
)


class Postgres(Database):
    """Connections are opened when needed and pooled. Thread-safe."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.address = address_of(url)
        """For people: without the password."""
        self.num_outages = 0
        """When it has grown, callers must read everything again."""
        self._room = BoundedSemaphore(MOST_CONNECTIONS)
        self._idle: deque[Connection] = deque()
        self._lock = Lock()
        self._is_migrated = False
        self._failure: DatabaseError | None = None
        """Why the database failed, until it responds again."""
        self._retry_at = 0.0

    def read(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return self._use(lambda connection: connection.execute(_own(sql), values).fetchall())

    def write(self, *changes: Change) -> int:
        """May be executed twice: every statement must be idempotent."""

        def work(connection: "Connection") -> int:
            touched = 0
            with connection.transaction(), connection.cursor() as cursor:
                for sql, rows in changes:
                    if rows:
                        cursor.executemany(_own(sql), rows)
                        touched += cursor.rowcount
            return touched

        return self._use(work)

    def transact(self, work: Callable[["Connection"], T]) -> T:
        """Everything in `work`, or nothing if it raises. It may be executed twice."""

        def whole(connection: "Connection") -> T:
            with connection.transaction():
                return work(connection)

        return self._use(whole)

    def wait_until_there(self) -> None:
        """For a server that starts together with its database. `DatabaseRefused` is not retried."""
        log_at = time.monotonic()
        while True:
            try:
                self.read("SELECT 1")
                return
            except DatabaseUnreachable as error:
                if time.monotonic() >= log_at:
                    logger.warning("waiting for the database %s: %s", self.address, error.reason)
                    log_at += _PATIENCE_LOG_SECONDS
            time.sleep(_RETRY_SECONDS)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _use(self, work: Callable[["Connection"], T]) -> T:
        self._give_up_early()
        if not self._room.acquire(timeout=ANSWER_SECONDS):
            raise DatabaseUnreachable(self.address, f"all {MOST_CONNECTIONS} connections are busy")
        try:
            answer = self._attempt(work)
        except psycopg.Error as error:
            failure = _failure(error, self.address)
            self._note(failure)
            raise failure from None  # its message may contain secrets
        except DatabaseError as failure:
            self._note(failure)
            raise
        finally:
            self._room.release()
        self._note(None)
        return answer

    def _give_up_early(self) -> None:
        """While the database is known to be down, only one thread at a time tries it."""
        with self._lock:
            if self._failure is None:
                return
            now = time.monotonic()
            if now < self._retry_at:
                raise type(self._failure)(self.address, self._failure.reason)
            self._retry_at = now + CONNECT_SECONDS + ANSWER_SECONDS

    def _attempt(self, work: Callable[["Connection"], T]) -> T:
        connection = self._idle_connection()
        if connection is not None:
            try:
                return self._finish(connection, work)
            except (psycopg.OperationalError, psycopg.InterfaceError):
                if connection.has_hung:
                    raise
                self.close()  # the database was restarted: the other connections are dead too
        connection = Connection.connect(
            self._url,
            connect_timeout=CONNECT_SECONDS,
            autocommit=True,
            application_name="trackside",
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return self._finish(connection, work)

    def _idle_connection(self) -> "Connection | None":
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _finish(self, connection: "Connection", work: Callable[["Connection"], T]) -> T:
        try:
            answer = work(connection)
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return answer

    def _prepare(self, connection: "Connection") -> None:
        milliseconds = int(ANSWER_SECONDS * 1000)
        connection.execute(_own(f"SET statement_timeout = {milliseconds}"))
        connection.execute("SET search_path TO trackside")
        if not self._is_migrated:
            migrate(connection, self.address)
            self._is_migrated = True

    def _note(self, failure: DatabaseError | None) -> None:
        if failure is None and self._failure is None:
            return
        with self._lock:
            before, self._failure = self._failure, failure
            if failure is not None:
                self.num_outages += 1
                self._is_migrated = False  # it may come back as another one, or empty
                self._retry_at = time.monotonic() + _RETRY_SECONDS
        if failure is not None:
            self.close()
        if failure is not None and before is None:
            logger.warning("%s Jobs go on without it.", failure)
        if failure is None and before is not None:
            logger.warning("the database %s answers again", self.address)


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """Never waits longer than `ANSWER_SECONDS`, whatever happened to the server."""

    has_hung = False

    def wait(
        self,
        gen: Generator[Any, Any, T],
        interval: float = 0.1,
        timeout: float | None = ANSWER_SECONDS,
    ) -> T:
        deadline = time.monotonic() + ANSWER_SECONDS
        return super().wait(self._until(deadline, gen), interval)

    def _until(self, deadline: float, waits: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        try:
            wanted = next(waits)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > deadline:
                    self.has_hung = True
                    self.pgconn.finish()  # so that no rollback is waited for either
                    raise psycopg.OperationalError(f"no answer within {ANSWER_SECONDS:.0f} s")
                wanted = waits.send(ready)
        except StopIteration as end:
            return cast(T, end.value)


def address_of(url: str) -> str:
    """`user@host:port/database`; `InvalidSetting` for an invalid text."""
    # libpq's own message about a wrong address would repeat it, with the password.
    try:
        parts = conninfo_to_dict(url) if url.startswith(_SCHEMES) else {}
    except psycopg.Error:
        parts = {}
    if not parts or not str(parts.get("port", "5432")).replace(",", "").isdigit():
        raise InvalidSetting(
            "The database's address is not of the form postgresql://USER:PASSWORD@HOST:PORT/NAME. "
            "Signs in the password such as @ / : % are written as %40 %2F %3A %25."
        )
    user = f"{parts['user']}@" if parts.get("user") else ""
    host = f"{parts.get('host') or 'localhost'}:{parts.get('port') or 5432}"
    return f"{user}{host}/{parts.get('dbname') or parts.get('user') or ''}"


def _own(sql: str) -> LiteralString:
    """In psycopg's syntax. No statement of ours has these characters in a text."""
    return sql.replace("?", "%s")


def _failure(error: psycopg.Error, address: str) -> DatabaseError:
    """Distinguishes errors worth a retry from those that need an operator."""
    text = str(error) or type(error).__name__
    # Everything after the first line is guesswork.
    reason = text.splitlines()[0].removeprefix("connection failed: ").rstrip(".")
    is_passing = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    if is_passing and not _FINAL_WORDS.search(reason):
        return DatabaseUnreachable(address, reason)
    return DatabaseRefused(address, reason)
