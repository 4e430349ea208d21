"""Verifies Signature Version 4: which key signed a request, and that it arrived unchanged.

`trackside.sigv4` builds the canonical form, `keys.py` has the secrets, and each service has its own
error codes for a refusal. Independent of HTTP frameworks.
"""

import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import Enum
from functools import lru_cache

from trackside.sigv4 import (
    ALGORITHM,
    UNSIGNED,
    Request,
    Scope,
    Signature,
    pairs_of,
    signature_of,
)

PRESIGNED_MOST_SECONDS = 7 * 24 * 3600
CONTENT_SHA256 = "x-amz-content-sha256"
PRESIGNED_SERVICES = ("s3", "sts")
"""A presigned URL is passed to others, who add a body and headers: no other service accepts one."""

_UNSIGNED_ALLOWED = (
    # Its value is part of the string to sign, so it cannot be changed. S3 allows it.
    CONTENT_SHA256,
    # CloudFront adds it. No service uses it.
    "x-amz-cf-id",
)
"""Other `x-amz-` headers must be signed, as at AWS."""
_SIGNATURE = "X-Amz-Signature"
_SKEW_SECONDS = {"s3": 15 * 60}
_OTHER_SKEW_SECONDS = 5 * 60
_HEADER = re.compile(
    r"AWS4-HMAC-SHA256\s+Credential=(?P<credential>[^,\s]+)\s*,\s*"
    r"SignedHeaders=(?P<headers>[^,\s]+)\s*,\s*Signature=(?P<signature>[0-9a-f]{64})\s*"
)
_HEX = re.compile(r"[0-9a-f]{64}")
_SECONDS = re.compile(r"\d{1,9}", re.ASCII)
_CREDENTIAL = re.compile(r"[!-~]{1,512}")
_NOT_V4 = "The Authorization header is not Signature Version 4."
_WAY_OUT = (
    "`trackside keys list` on the server's machine shows the keys there are; "
    '`eval "$(trackside env)"` sets up a shell with one.'
)
_TIMESTAMP = re.compile(r"\d{8}T\d{6}Z", re.ASCII)


class Refusal(Enum):
    """Why a request is rejected."""

    MISSING = "no signature"
    MALFORMED = "the signature cannot be read"
    MALFORMED_ADDRESS = "the presigned URL is malformed"
    SIGNED_TWICE = "signed both in a header and in the URL"
    UNKNOWN_KEY = "unknown access key"
    UNSIGNED_HEADERS = "headers that change what a request does are not signed"
    NO_PAYLOAD_HASH = "nothing binds the body to the signature"
    MISMATCH = "the signature is wrong"
    SKEWED = "the clocks differ too much"
    EXPIRED = "the presigned URL has expired"


class NotSigned(Exception):
    """With a sentence of explanation, if there is more to say than the refusal itself."""

    def __init__(self, refusal: Refusal, detail: str = "") -> None:
        self.refusal = refusal
        super().__init__(detail)


@dataclass(frozen=True, slots=True)
class _Claim:
    """The request's own statement about its signature, in the header or in the query."""

    scope: Scope
    signed_headers: tuple[str, ...]
    signature: str
    timestamp: str
    seconds: int | None = None
    """How long a presigned URL is valid."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A request that passed all checks that need no body."""

    request: Request
    claim: _Claim
    secret: str

    def verified(self, payload_sha256: str | None) -> Signature:
        """The signature when it is right, else `NotSigned`.

        `payload_sha256` is the hash of the body; None where the body is checked later, against
        what the request itself announces.
        """
        claim = self.claim
        expected = signature_of(
            self.request,
            self._announced() if payload_sha256 is None else payload_sha256,
            claim.signed_headers,
            claim.scope,
            claim.timestamp,
            self.secret,
        )
        if not hmac.compare_digest(expected.value, claim.signature):
            raise NotSigned(
                Refusal.MISMATCH,
                f"The key {claim.scope.access_key!r} has another secret here, or the request was "
                f"changed on its way, as by a proxy that rewrites Host. {_WAY_OUT}",
            )
        return expected

    def _announced(self) -> str:
        announced = self.request.headers.get(CONTENT_SHA256)
        if announced is not None:
            return announced
        if self.claim.seconds is None:
            raise NotSigned(Refusal.NO_PAYLOAD_HASH)
        return UNSIGNED


def scope_of(request: Request) -> Scope | None:
    """The key and service that the request claims, not verified: enough to find the service."""
    try:
        if "authorization" in request.headers:
            return _scope_in_header(request.headers["authorization"])
        return _claim(request).scope
    except NotSigned:
        return None


def session_token_of(request: Request) -> str:
    """The token of a temporary key, in the header or in a presigned URL."""
    if "authorization" in request.headers:
        return request.headers.get("x-amz-security-token", "")
    if "X-Amz-Security-Token=" not in request.query:
        return ""
    return dict(pairs_of(request.query)).get("X-Amz-Security-Token", "")


def candidate(request: Request, secret_of: Callable[[str], str | None], now: datetime) -> Candidate:
    """`NotSigned` if no body could make it valid."""
    claim = _claim(request)
    key_id = claim.scope.access_key
    secret = _secret(key_id, secret_of)
    _check_time(claim, now)
    _check_headers(request.headers, claim.signed_headers)
    return Candidate(request, claim, secret)


def verify(
    request: Request,
    payload_sha256: str | None,
    secret_of: Callable[[str], str | None],
    now: datetime,
) -> Signature:
    """Both steps at once, for callers that have the body already, or do not wait for it."""
    return candidate(request, secret_of, now).verified(payload_sha256)


def _check_headers(headers: Mapping[str, str], signed: tuple[str, ...]) -> None:
    for name in signed:
        if name not in headers:
            raise NotSigned(Refusal.MISMATCH, f"The signed header {name!r} did not arrive.")
    must = {name for name in headers if name.startswith("x-amz-")} | {"host"}
    if missing := must.difference(signed, _UNSIGNED_ALLOWED):
        names = ", ".join(sorted(missing))
        raise NotSigned(Refusal.UNSIGNED_HEADERS, f"Sign, or leave out: {names}.")


def _secret(key_id: str, secret_of: Callable[[str], str | None]) -> str:
    secret = secret_of(key_id)
    if secret is None:
        raise NotSigned(Refusal.UNKNOWN_KEY, f"No access key here is {key_id!r}. {_WAY_OUT}")
    return secret


def _scope_in_header(authorization: str) -> Scope:
    _, found, rest = authorization.partition("Credential=")
    if not found or not authorization.startswith(ALGORITHM):
        raise NotSigned(Refusal.MALFORMED, _NOT_V4)
    return _scope(rest.partition(",")[0].strip())


def _claim(request: Request) -> _Claim:
    given = _of_a_signature(request.query)
    is_presigned = _SIGNATURE in given
    if "authorization" in request.headers:
        if is_presigned:
            raise NotSigned(Refusal.SIGNED_TWICE)
        return _claim_in_header(request.headers)
    if is_presigned:
        return _claim_in_query(given)
    raise NotSigned(Refusal.MISSING, f"The request is not signed. {_WAY_OUT}")


def _of_a_signature(query: str) -> dict[str, str]:
    """The members `X-Amz-…`. A repeated one would be ambiguous."""
    given: dict[str, str] = {}
    seen: set[str] = set()
    for name, value in pairs_of(query):
        lower = name.lower()
        if lower.startswith("x-amz-"):
            if lower in seen:
                raise NotSigned(Refusal.MALFORMED_ADDRESS, f"{name!r} is there twice.")
            seen.add(lower)
            given[name] = value
    return given


def _claim_in_header(headers: Mapping[str, str]) -> _Claim:
    match = _HEADER.fullmatch(headers["authorization"].strip())
    if match is None:
        raise NotSigned(Refusal.MALFORMED, _NOT_V4)
    timestamp = headers.get("x-amz-date", "")
    if not timestamp and (date := headers.get("date")):
        timestamp = _from_http_date(date)
    signed = tuple(match["headers"].split(";"))
    return _Claim(_scope(match["credential"]), signed, match["signature"], timestamp)


def _claim_in_query(given: Mapping[str, str]) -> _Claim:
    try:
        if given["X-Amz-Algorithm"] != ALGORITHM:
            raise NotSigned(Refusal.MALFORMED_ADDRESS, f"Only {ALGORITHM} is understood.")
        expires, signature = given["X-Amz-Expires"], given[_SIGNATURE]
        claim = _Claim(
            _scope(given["X-Amz-Credential"]),
            tuple(given["X-Amz-SignedHeaders"].split(";")),
            signature,
            given["X-Amz-Date"],
            int(expires) if _SECONDS.fullmatch(expires) else -1,
        )
    except KeyError as error:
        raise NotSigned(Refusal.MALFORMED_ADDRESS, f"The address lacks {error}.") from error
    if claim.seconds is None or not 0 <= claim.seconds <= PRESIGNED_MOST_SECONDS:
        raise NotSigned(Refusal.MALFORMED_ADDRESS, "X-Amz-Expires is between 0 s and a week.")
    if _HEX.fullmatch(signature) is None:
        raise NotSigned(Refusal.MALFORMED_ADDRESS, f"{_SIGNATURE} is not 64 hexadecimal digits.")
    if claim.scope.service not in PRESIGNED_SERVICES:
        text = f"The service {claim.scope.service!r} takes no presigned address: sign in headers."
        raise NotSigned(Refusal.MALFORMED_ADDRESS, text)
    return claim


def _check_time(claim: _Claim, now: datetime) -> None:
    try:
        if _TIMESTAMP.fullmatch(claim.timestamp) is None:
            raise ValueError
        signed = datetime.fromisoformat(claim.timestamp)
    except ValueError:
        raise NotSigned(Refusal.MALFORMED, f"{claim.timestamp!r} is not a time stamp.") from None
    if claim.timestamp[:8] != claim.scope.date:
        raise NotSigned(Refusal.MISMATCH, "The scope is of another day than the time stamp.")
    skew = timedelta(seconds=_SKEW_SECONDS.get(claim.scope.service, _OTHER_SKEW_SECONDS))
    if signed - now > skew or (claim.seconds is None and now - signed > skew):
        apart = f"The request is of {claim.timestamp}, the server has {now:%Y%m%dT%H%M%SZ}."
        raise NotSigned(Refusal.SKEWED, apart)
    if claim.seconds is not None and now > (end := signed + timedelta(seconds=claim.seconds)):
        raise NotSigned(Refusal.EXPIRED, f"The address was good until {end:%Y%m%dT%H%M%SZ}.")


@lru_cache(maxsize=1024)
def _scope(credential: str) -> Scope:
    parts = credential.rsplit("/", 4)
    is_readable = _CREDENTIAL.fullmatch(credential) is not None
    if not is_readable or len(parts) != 5 or parts[4] != "aws4_request" or not all(parts):
        raise NotSigned(Refusal.MALFORMED, f"{credential!r} is not a credential scope.")
    return Scope(*parts[:4])


def _from_http_date(date: str) -> str:
    try:
        parsed = parsedate_to_datetime(date)
        return (
            parsed.replace(tzinfo=parsed.tzinfo or UTC).astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
        )
    except (ValueError, TypeError, OverflowError):
        raise NotSigned(Refusal.MALFORMED, f"{date!r} is not a date.") from None
