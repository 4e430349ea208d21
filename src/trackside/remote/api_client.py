"""Sends signed AWS requests to a server, with retries. Error responses become our errors."""

import hashlib
import itertools
import json
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPException
from ssl import SSLCertVerificationError
from typing import Any

from trackside.errors import KeyRefused, ServerError
from trackside.jobs.describe import REGION
from trackside.profiles import Key, Server, no_key
from trackside.remote.connections import SLOW_SECONDS, Connections, Response
from trackside.remote.error_responses import not_ours, refused, unreachable
from trackside.remote.retry_policy import (
    SHORT_RETRY,
    RetryPolicy,
    is_worth_retrying,
    pause_before,
)
from trackside.sigv4 import Request, Scope, signed_headers

logger = logging.getLogger(__name__)

_SERVICES = {"SageMaker": "sagemaker", "Logs_20140328": "logs"}
_CONTENT_TYPE = "application/x-amz-json-1.1"


class ApiClient:
    """May be used by several threads at once."""

    def __init__(
        self,
        server: Server,
        *,
        connections: Connections | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`KeyRefused` when there is no key to sign with."""
        if server.key is None:
            raise KeyRefused(no_key(server.url))
        self.url = server.url
        self._key: Key = server.key
        self._connections = connections or Connections(server.url)
        self._clock = clock

    def call(
        self,
        target: str,
        given: Mapping[str, Any],
        *,
        job: str = "",
        retry_policy: RetryPolicy = SHORT_RETRY,
    ) -> dict[str, Any]:
        """An operation such as `SageMaker.StopTrainingJob`; `job` is the one that it is about."""
        body = json.dumps(given).encode()
        headers = {"content-type": _CONTENT_TYPE, "x-amz-target": target}
        service = _SERVICES[target.partition(".")[0]]
        request = Request("POST", "/", "", headers)
        response, tries = self._send_with_retries(request, body, service, retry_policy)
        if response.status != 200:
            raise refused(response, self.url, self._key.id, job, is_repeated=tries > 1)
        try:
            return dict(json.loads(response.body or b"{}"))
        except ValueError:
            raise not_ours(response, self.url) from None

    def make_bucket(self, name: str) -> None:
        """Unless it exists; other errors are reported when it is written to."""
        with suppress(ServerError):
            self._send_with_retries(Request("PUT", f"/{name}", "", {}), b"", "s3", SHORT_RETRY)

    def _send_with_retries(
        self, request: Request, body: bytes, service: str, retry_policy: RetryPolicy
    ) -> tuple[Response, int]:
        """The response, and the number of tries."""
        began, wait_log = time.monotonic(), _WaitLog(self.url, retry_policy)
        for tries in itertools.count(1):
            response, failure = self._tried(request, body, service, retry_policy, wait_log)
            elapsed = time.monotonic() - began
            pause = pause_before(tries, elapsed, failure.limit_seconds, failure.retry_seconds)
            if response is not None and (
                pause is None or not is_worth_retrying(response.status, tries)
            ):
                return response, tries
            if pause is None:
                raise unreachable(self.url, failure.cause) from failure.error
            if elapsed + pause >= SLOW_SECONDS:
                wait_log.log(failure.cause, failure.limit_seconds)
            time.sleep(pause)
        raise AssertionError("counting has no end")

    def _tried(
        self,
        request: Request,
        body: bytes,
        service: str,
        retry_policy: RetryPolicy,
        wait_log: "_WaitLog",
    ) -> "tuple[Response | None, _Failure]":
        """One try; the failure matters where there is no response, or one worth a retry."""
        try:
            response = self._send(request, body, service, wait_log)
        except SSLCertVerificationError as error:
            raise unreachable(self.url, f"its certificate is refused ({error})") from error
        except (OSError, HTTPException) as error:
            return None, _Failure(_cause(error), retry_policy.away_seconds, error=error)
        cause = f"it answers {response.status}"
        return response, _Failure(cause, retry_policy.busy_seconds, _retry_seconds(response))

    def _send(self, request: Request, body: bytes, service: str, wait_log: "_WaitLog") -> Response:
        now = self._clock()
        scope = Scope(self._key.id, f"{now:%Y%m%d}", REGION, service)
        named = {**request.headers, "host": self._connections.host}
        whole = Request(request.method, request.path, request.query, named)
        digest = hashlib.sha256(body).hexdigest()
        headers = signed_headers(whole, digest, scope, now, self._key.secret)
        return self._connections.send(
            request.method, request.path, headers, body, slow=wait_log.log_silence
        )


class _WaitLog:
    """Logs once why a response takes so long."""

    def __init__(self, url: str, retry_policy: RetryPolicy) -> None:
        self._url = url
        self._retry_policy = retry_policy
        self._is_logged = False

    def log_silence(self) -> None:
        self.log("it does not answer", self._retry_policy.away_seconds)

    def log(self, cause: str, most_seconds: float) -> None:
        if self._is_logged:
            return
        self._is_logged = True
        most = f"{most_seconds:.0f} s" if most_seconds < 120 else f"{most_seconds / 60:.0f} min"
        limit = f", {most} at most" if most_seconds else ""
        way_out = f" {self._retry_policy.way_out}".rstrip()
        logger.warning("waiting for %s%s: %s.%s", self._url, limit, cause, way_out)


@dataclass(frozen=True, slots=True)
class _Failure:
    cause: str
    limit_seconds: float
    retry_seconds: float = 0.0
    """From the server's Retry-After."""
    error: Exception | None = None


def _retry_seconds(response: Response) -> float:
    try:
        return float(response.headers.get("retry-after", "0"))
    except ValueError:  # a date
        return 0.0


def _cause(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it does not answer in time"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
