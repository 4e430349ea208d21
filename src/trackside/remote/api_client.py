"""Asks a server in the words of AWS: signed, and again where that helps. Its no is our error."""

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
from trackside.remote.connections import SLOW_SECONDS, Answer, Connections
from trackside.remote.error_responses import not_ours, refused, unreachable
from trackside.remote.retry_policy import (
    FOR_A_PERSON,
    RetryPolicy,
    is_worth_asking_again,
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
        retry_policy: RetryPolicy = FOR_A_PERSON,
    ) -> dict[str, Any]:
        """An operation such as `SageMaker.StopTrainingJob`; `job` is the one that it is about."""
        body = json.dumps(given).encode()
        headers = {"content-type": _CONTENT_TYPE, "x-amz-target": target}
        service = _SERVICES[target.partition(".")[0]]
        request = Request("POST", "/", "", headers)
        answer, tries = self._answered(request, body, service, retry_policy)
        if answer.status != 200:
            raise refused(answer, self.url, self._key.id, job, is_repeated=tries > 1)
        try:
            return dict(json.loads(answer.body or b"{}"))
        except ValueError:
            raise not_ours(answer, self.url) from None

    def make_bucket(self, name: str) -> None:
        """If there is none; whoever writes to it is told what else is wrong."""
        with suppress(ServerError):
            self._answered(Request("PUT", f"/{name}", "", {}), b"", "s3", FOR_A_PERSON)

    def _answered(
        self, request: Request, body: bytes, service: str, retry_policy: RetryPolicy
    ) -> tuple[Answer, int]:
        """The answer, and how many times it took to ask."""
        began, news = time.monotonic(), _News(self.url, retry_policy)
        for tries in itertools.count(1):
            answer, trouble = self._tried(request, body, service, retry_policy, news)
            elapsed = time.monotonic() - began
            pause = pause_before(tries, elapsed, trouble.limit_seconds, trouble.retry_seconds)
            if answer is not None and (
                pause is None or not is_worth_asking_again(answer.status, tries)
            ):
                return answer, tries
            if pause is None:
                raise unreachable(self.url, trouble.cause) from trouble.error
            if elapsed + pause >= SLOW_SECONDS:
                news.tell(trouble.cause, trouble.limit_seconds)
            time.sleep(pause)
        raise AssertionError("counting has no end")

    def _tried(
        self, request: Request, body: bytes, service: str, retry_policy: RetryPolicy, news: "_News"
    ) -> "tuple[Answer | None, _Trouble]":
        """Once; the trouble counts where there is no answer, or one that is worth nothing."""
        try:
            answer = self._ask(request, body, service, news)
        except SSLCertVerificationError as error:
            raise unreachable(self.url, f"its certificate is refused ({error})") from error
        except (OSError, HTTPException) as error:
            return None, _Trouble(_words(error), retry_policy.away_seconds, error=error)
        cause = f"it answers {answer.status}"
        return answer, _Trouble(cause, retry_policy.busy_seconds, _retry_seconds(answer))

    def _ask(self, request: Request, body: bytes, service: str, news: "_News") -> Answer:
        now = self._clock()
        scope = Scope(self._key.id, f"{now:%Y%m%d}", REGION, service)
        named = {**request.headers, "host": self._connections.host}
        whole = Request(request.method, request.path, request.query, named)
        digest = hashlib.sha256(body).hexdigest()
        headers = signed_headers(whole, digest, scope, now, self._key.secret)
        return self._connections.ask(
            request.method, request.path, headers, body, slow=news.tell_silence
        )


class _News:
    """Why an answer takes so long, told once."""

    def __init__(self, url: str, retry_policy: RetryPolicy) -> None:
        self._url = url
        self._retry_policy = retry_policy
        self._is_told = False

    def tell_silence(self) -> None:
        self.tell("it does not answer", self._retry_policy.away_seconds)

    def tell(self, cause: str, most_seconds: float) -> None:
        if self._is_told:
            return
        self._is_told = True
        most = f"{most_seconds:.0f} s" if most_seconds < 120 else f"{most_seconds / 60:.0f} min"
        limit = f", {most} at most" if most_seconds else ""
        way_out = f" {self._retry_policy.way_out}".rstrip()
        logger.warning("waiting for %s%s: %s.%s", self._url, limit, cause, way_out)


@dataclass(frozen=True, slots=True)
class _Trouble:
    cause: str
    limit_seconds: float
    retry_seconds: float = 0.0
    """As the server wishes."""
    error: Exception | None = None


def _retry_seconds(answer: Answer) -> float:
    try:
        return float(answer.headers.get("retry-after", "0"))
    except ValueError:  # a date
        return 0.0


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it does not answer in time"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
