"""Which connections are open, and which one is closed when the limit is reached.

First those without a signed request so far are closed, the longest idle first; then those with one,
while they are between two requests. When all are busy, a new connection can only read pages such as
/health; a few of these are accepted, further ones are closed.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol

from trackside.api.limits import Limits, address_group

logger = logging.getLogger(__name__)

CONNECTION = "trackside.connection"
"""Where a request's connection is found: in the state of its ASGI scope."""
RESERVED = 32
"""Connections beyond the limit, for health checks and for responses that say to retry later."""
_SPARE_DESCRIPTORS = 64
"""Left for files: connections may not use them up."""
_SWEEP_SECONDS = 1.0
_LOG_SECONDS = 60.0


class Cut(StrEnum):
    """Why a connection was closed, or a request rejected."""

    ADDRESS = "too many connections of one address"
    TOTAL = "too many connections"
    HEADERS_LARGE = "headers too large"
    HEADERS_SLOW = "headers too slow"
    BODY_SLOW = "body too slow"
    BODY_MEMORY = "too many bodies at once"
    RESPONSE_SLOW = "answer not taken in"


class Connection(Protocol):
    """A connection, as `Admission` needs it."""

    host: str
    descriptor: int
    is_signed: bool
    """Whether a request on it had a valid signature."""
    is_extra: bool
    """Whether it is one beyond the limit."""

    def disconnect(self) -> None:
        """End the connection now."""

    def check(self, now: float) -> None:
        """End the connection if its client is too slow."""


class Admission:
    """Belongs to the event loop, like everything it calls."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.cuts: Counter[Cut] = Counter()
        self.num_lingering = 0
        """Connections without a signature that were answered and are still sending."""
        self._most_descriptors = float("inf")
        self._groups: dict[Connection, str] = {}
        self._num_of: Counter[str] = Counter()
        self._unsigned: dict[Connection, None] = {}
        """In the order in which they were last active."""
        self._idle: dict[Connection, None] = {}
        """Those who have signed, between two requests, in the same order."""
        self._num_extra = 0
        self._sweep: asyncio.TimerHandle | None = None
        self._logged: Counter[Cut] = Counter()
        self._logged_at = 0.0

    @property
    def num_connections(self) -> int:
        return len(self._groups)

    def limit_descriptors(self, descriptors: int) -> None:
        """At most half of them are for connections: a response may need one for a file."""
        self._most_descriptors = descriptors

    def admit(self, connection: Connection) -> None:
        """A new connection; it may be closed at once, or cause another to be closed."""
        group = address_group(connection.host)
        cut = self._limit_reached(group, connection.descriptor)
        if cut is not None:
            self.cuts[cut] += 1
            gone = self._evict(group if cut is Cut.ADDRESS else None)
            connection.is_extra = gone is None or gone.is_extra
        self._groups[connection] = group
        self._num_of[group] += 1
        self._unsigned[connection] = None
        self._num_extra += connection.is_extra
        if self._num_extra > RESERVED:
            connection.disconnect()
        if self._sweep is None:
            self._sweep_later()

    def mark_busy(self, connection: Connection) -> None:
        """It has started a request."""
        self._idle.pop(connection, None)
        self._touch(connection)

    def mark_signed(self, connection: Connection) -> None:
        """Its request had a valid signature."""
        connection.is_signed = True
        self._unsigned.pop(connection, None)

    def mark_idle(self, connection: Connection) -> None:
        """Its request was answered."""
        self._touch(connection)
        if connection.is_signed and connection in self._groups:
            self._idle[connection] = None

    def remove(self, connection: Connection) -> None:
        """Its connection is over."""
        group = self._groups.pop(connection, None)
        if group is None:
            return
        self._num_of[group] -= 1
        if not self._num_of[group]:
            del self._num_of[group]
        self._num_extra -= connection.is_extra
        self._unsigned.pop(connection, None)
        self._idle.pop(connection, None)

    def _touch(self, connection: Connection) -> None:
        if self._unsigned.pop(connection, self) is None:
            self._unsigned[connection] = None

    def _limit_reached(self, group: str, descriptor: int) -> Cut | None:
        """The system assigns the lowest free descriptor, so this one shows how many are in use."""
        if self._num_of[group] >= self.limits.of_address(group):
            return Cut.ADDRESS
        most = min(self.limits.connections, self._most_descriptors // 2)
        is_near_end = descriptor >= self._most_descriptors - _SPARE_DESCRIPTORS
        return Cut.TOTAL if len(self._groups) >= most or is_near_end else None

    def _evict(self, group: str | None) -> Connection | None:
        """Close one connection, of this address group or of all, and return it."""
        for waiting in (self._unsigned, self._idle):
            for connection in waiting:
                if group in (None, self._groups[connection]):
                    self.remove(connection)
                    connection.disconnect()
                    return connection
        return None

    def _sweep_later(self) -> None:
        limits = self.limits
        shortest = min(limits.header_seconds, limits.answer_seconds)
        loop = asyncio.get_running_loop()
        self._sweep = loop.call_later(min(_SWEEP_SECONDS, shortest / 4), self._check_all, loop)

    def _check_all(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        self._sweep = None
        if self._groups:
            self._sweep_later()
        for connection in list(self._groups):
            connection.check(now)
        self._log_cuts(now)

    def _log_cuts(self, now: float) -> None:
        """At most one line a minute."""
        if self.cuts == self._logged or now - self._logged_at < _LOG_SECONDS:
            return
        new = self.cuts - self._logged
        causes = ", ".join(f"{cause} {count} times" for cause, count in sorted(new.items()))
        logger.warning("clients were cut off: %s", causes)
        self._logged, self._logged_at = self.cuts.copy(), now


def connection_of(scope: Mapping[str, Any]) -> Connection | None:
    """The connection of this request; None if another server than ours accepted it."""
    found: Connection | None = scope.get("state", {}).get(CONNECTION)
    return found
