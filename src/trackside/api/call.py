"""One request as a service sees it, and its reply. `app.py` handles the bytes."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from trackside.api.keys import AccessKey
from trackside.sigv4 import Request, Signature

BODY_MOST_BYTES = 10 << 20
"""Of a call in JSON or a form; S3 bodies are streamed."""
TOO_BUSY = "ThrottlingException"
_RETRY_SECONDS = 2


class ServiceError(Exception):
    """An error that clients raise: a stable code of the service, and a message."""

    def __init__(
        self,
        code: str,
        message: str,
        status: int = 400,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.code = code
        self.message = message
        self.status = status
        self.headers = headers or {}
        super().__init__(f"{code}: {message}")


def too_busy(message: str) -> ServiceError:
    """AWS clients retry by themselves, after a moment."""
    headers = {"retry-after": str(_RETRY_SECONDS)}
    return ServiceError(TOO_BUSY, f"{message} Try again.", 503, headers)


@dataclass(frozen=True, slots=True)
class Reply:
    status: int = 200
    body: bytes | AsyncGenerator[bytes, None] = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    """For a generated body they must include its length."""


@dataclass(slots=True)
class Exchange:
    """What is recorded about a request, for the access log and /metrics."""

    service: str = ""
    """One that is offered; empty for a page, and for an unknown service."""
    operation: str = ""
    """Of those that the service has; set by it."""
    key_id: str = ""
    """Of the key whose signature was verified. No other value that a client sends as a key is
    stored: it may be a secret in the wrong field."""
    status: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    """Bodies, as far as they were sent."""
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started


@dataclass(frozen=True, slots=True)
class Call:
    """A request whose signature has been verified."""

    request: Request
    caller: AccessKey
    signature: Signature
    body: bytes
    """The whole body, for services that use JSON or forms; empty where there are `chunks`."""
    chunks: AsyncIterator[bytes] | None
    id: str
    exchange: Exchange = field(default_factory=Exchange)

    @property
    def region(self) -> str:
        return self.signature.scope.region


class Service(Protocol):
    """Handles the requests of one AWS service."""

    streams: bool
    """Whether it takes bodies chunk by chunk, verified by the hash that the client announces."""

    async def handle(self, call: Call) -> Reply:
        """Raises `ServiceError` for what the client did wrong."""

    def refused(self, error: ServiceError, request_id: str) -> Reply:
        """The error in this service's own form."""

    def not_signed(self, error: Exception) -> ServiceError:
        """The service's error code for a missing or wrong signature."""


@runtime_checkable
class Closing(Protocol):
    """A service that holds something open."""

    def close(self) -> None:
        """Called in the event loop, after the last response."""
