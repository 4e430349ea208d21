"""Signature Version 4, verified: who signed a request, and that it arrived as it was signed.

The canonical form is `trackside.sigv4`'s, the secrets come from `keys.py`, and each service puts
refusals into its own words. Knows nothing of HTTP frameworks.
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
_CREDENTIAL_MOST = 512
"""Characters: what anybody sends as one is kept for a while."""

_SKEW_SECONDS = {"s3": 15 * 60}
_OTHER_SKEW_SECONDS = 5 * 60
_HEADER = re.compile(
    r"AWS4-HMAC-SHA256\s+Credential=(?P<credential>[^,\s]+)\s*,\s*"
    r"SignedHeaders=(?P<headers>[^,\s]+)\s*,\s*Signature=(?P<signature>[0-9a-f]{64})\s*"
)
_NOT_V4 = "The Authorization header is not Signature Version 4."
_WAY_OUT = (
    "`trackside keys list` on the server's machine shows the keys there are; "
    '`eval "$(trackside env)"` sets up a shell with one.'
)
_TIMESTAMP = re.compile(r"\d{8}T\d{6}Z", re.ASCII)


class Refusal(Enum):
    """Why a request is not let in."""

    MISSING = "no signature"
    MALFORMED = "the signature cannot be read"
    MALFORMED_ADDRESS = "the presigned address cannot be read"
    UNKNOWN_KEY = "nobody has this access key"
    MISMATCH = "the signature is wrong"
    SKEWED = "the clocks differ too much"
    EXPIRED = "the presigned address is over"


class NotSigned(Exception):
    """With a sentence for people, where there is more to say than the refusal itself."""

    def __init__(self, refusal: Refusal, detail: str = "") -> None:
        self.refusal = refusal
        super().__init__(detail)


@dataclass(frozen=True, slots=True)
class _Claim:
    """What the request says about its own signature, in the header or in the query."""

    scope: Scope
    signed_headers: tuple[str, ...]
    signature: str
    timestamp: str
    seconds: int | None = None
    """How long a presigned address is good for."""


def scope_of(request: Request) -> Scope | None:
    """Whom and what the request claims to be for, not verified: enough to find the service."""
    try:
        if "authorization" in request.headers:
            return _scope_in_header(request.headers["authorization"])
        return _claim(request).scope
    except NotSigned:
        return None


def verify(
    request: Request,
    payload_sha256: str,
    secret_of: Callable[[str], str | None],
    now: datetime,
) -> Signature:
    """The signature when it is right, else `NotSigned`.

    `payload_sha256` is what was signed for the body: S3's header, or the hash of the body itself.
    """
    claim = _claim(request)
    key_id = claim.scope.access_key
    secret = _secret(key_id, secret_of)
    _check_time(claim, now)
    if claim.seconds is not None and claim.scope.service == "s3":
        payload_sha256 = request.headers.get("x-amz-content-sha256", UNSIGNED)
    for name in claim.signed_headers:
        if name not in request.headers:
            raise NotSigned(Refusal.MISMATCH, f"The signed header {name!r} did not arrive.")
    expected = signature_of(
        request, payload_sha256, claim.signed_headers, claim.scope, claim.timestamp, secret
    )
    if not hmac.compare_digest(expected.value, claim.signature):
        raise NotSigned(
            Refusal.MISMATCH,
            f"The key {key_id!r} has another secret here, or the request was changed on its way, "
            f"as by a proxy that rewrites Host. {_WAY_OUT}",
        )
    return expected


def check_claim(request: Request, secret_of: Callable[[str], str | None], now: datetime) -> str:
    """As much of `verify` as takes no body: whose key it claims, if there is one, and of now."""
    claim = _claim(request)
    _secret(claim.scope.access_key, secret_of)
    _check_time(claim, now)
    return claim.scope.access_key


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
    if "authorization" in request.headers:
        return _claim_in_header(request.headers)
    if "X-Amz-Signature=" in request.query:
        return _claim_in_query(request.query)
    raise NotSigned(Refusal.MISSING, f"Nobody has signed the request. {_WAY_OUT}")


def _claim_in_header(headers: Mapping[str, str]) -> _Claim:
    match = _HEADER.fullmatch(headers["authorization"].strip())
    if match is None:
        raise NotSigned(Refusal.MALFORMED, _NOT_V4)
    timestamp = headers.get("x-amz-date", "")
    if not timestamp and (date := headers.get("date")):
        timestamp = _from_http_date(date)
    signed = tuple(match["headers"].split(";"))
    return _Claim(_scope(match["credential"]), signed, match["signature"], timestamp)


def _claim_in_query(query: str) -> _Claim:
    given = {name: value for name, value in pairs_of(query) if name.startswith("X-Amz-")}
    try:
        if given["X-Amz-Algorithm"] != ALGORITHM:
            raise NotSigned(Refusal.MALFORMED_ADDRESS, f"Only {ALGORITHM} is understood.")
        seconds = int(given["X-Amz-Expires"])
        claim = _Claim(
            _scope(given["X-Amz-Credential"]),
            tuple(given["X-Amz-SignedHeaders"].split(";")),
            given["X-Amz-Signature"],
            given["X-Amz-Date"],
            seconds,
        )
    except (KeyError, ValueError) as error:
        raise NotSigned(
            Refusal.MALFORMED_ADDRESS, f"The address lacks or garbles {error}."
        ) from error
    if not 0 <= seconds <= PRESIGNED_MOST_SECONDS:
        raise NotSigned(Refusal.MALFORMED_ADDRESS, "X-Amz-Expires is between 0 s and a week.")
    return claim


def _check_time(claim: _Claim, now: datetime) -> None:
    try:
        if _TIMESTAMP.fullmatch(claim.timestamp) is None:
            raise ValueError
        signed = datetime.fromisoformat(claim.timestamp)
    except ValueError:
        raise NotSigned(Refusal.MALFORMED, f"{claim.timestamp!r} is no time stamp.") from None
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
    if len(credential) > _CREDENTIAL_MOST:
        raise NotSigned(Refusal.MALFORMED, "The credential scope is too long.")
    parts = credential.rsplit("/", 4)
    if len(parts) != 5 or parts[4] != "aws4_request" or not all(parts):
        raise NotSigned(Refusal.MALFORMED, f"{credential!r} is no credential scope.")
    return Scope(*parts[:4])


def _from_http_date(date: str) -> str:
    try:
        parsed = parsedate_to_datetime(date)
        return (
            parsed.replace(tzinfo=parsed.tzinfo or UTC).astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
        )
    except ValueError:
        raise NotSigned(Refusal.MALFORMED, f"{date!r} is no date.") from None
