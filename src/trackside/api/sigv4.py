"""Signature Version 4: who signed a request, that it arrived as it was signed, and the same for
what we pass on ourselves.

Knows nothing of HTTP frameworks nor of how errors are told; `errors.py` puts refusals into the
words of each service. The secrets come from `keys.py`.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import Enum
from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

ALGORITHM = "AWS4-HMAC-SHA256"
UNSIGNED = "UNSIGNED-PAYLOAD"
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
PRESIGNED_MOST_SECONDS = 7 * 24 * 3600

_SKEW_SECONDS = {"s3": 15 * 60}
_OTHER_SKEW_SECONDS = 5 * 60
_HEADER = re.compile(
    r"AWS4-HMAC-SHA256\s+Credential=(?P<credential>[^,\s]+)\s*,\s*"
    r"SignedHeaders=(?P<headers>[^,\s]+)\s*,\s*Signature=(?P<signature>[0-9a-f]{64})\s*"
)
_TIMESTAMP = re.compile(r"\d{8}T\d{6}Z", re.ASCII)
_SPACES = re.compile(r"\s+")
_SPACE_RUN = re.compile(r"\s\s|[^\S ]")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/\-_.~]+")


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
    def __init__(self, refusal: Refusal, detail: str = "") -> None:
        self.refusal = refusal
        super().__init__(detail or refusal.value)


@dataclass(frozen=True, slots=True)
class Request:
    """As it came over the wire."""

    method: str
    path: str
    """Percent-encoded as received, without the query."""
    query: str
    headers: Mapping[str, str]
    """Names in lower case; repeated ones joined by commas."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What the signature is good for."""

    access_key: str
    date: str
    region: str
    service: str

    @classmethod
    @lru_cache(maxsize=1024)
    def parse(cls, credential: str) -> "Scope":
        parts = credential.rsplit("/", 4)
        if len(parts) != 5 or parts[4] != "aws4_request" or not all(parts):
            raise NotSigned(Refusal.MALFORMED, f"{credential!r} is no credential scope.")
        return cls(*parts[:4])

    def __str__(self) -> str:
        return f"{self.date}/{self.region}/{self.service}/aws4_request"


@dataclass(frozen=True, slots=True)
class Signature:
    """One that is right: the scope, and what a signed stream of chunks goes on from."""

    scope: Scope
    timestamp: str
    key: bytes
    value: str


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
    secret = secret_of(claim.scope.access_key)
    if secret is None:
        raise NotSigned(Refusal.UNKNOWN_KEY, f"No access key is {claim.scope.access_key!r}.")
    _check_time(claim, now)
    if claim.seconds is not None and claim.scope.service == "s3":
        payload_sha256 = request.headers.get("x-amz-content-sha256", UNSIGNED)
    expected = signature_of(
        request, payload_sha256, claim.signed_headers, claim.scope, claim.timestamp, secret
    )
    if not hmac.compare_digest(expected.value, claim.signature):
        raise NotSigned(Refusal.MISMATCH)
    return expected


def signature_of(
    request: Request,
    payload_sha256: str,
    signed_headers: Sequence[str],
    scope: Scope,
    timestamp: str,
    secret: str,
) -> Signature:
    """What the owner of the secret signs such a request with."""
    canonical = _canonical(request, signed_headers, payload_sha256, twice=scope.service != "s3")
    key = signing_key(secret, scope)
    return Signature(scope, timestamp, key, sign(key, string_to_sign(timestamp, scope, canonical)))


@lru_cache(maxsize=1024)
def signing_key(secret: str, scope: Scope) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (scope.date, scope.region, scope.service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def string_to_sign(timestamp: str, scope: Scope, canonical: str) -> str:
    # Header values are the bytes that came, one character each.
    digest = hashlib.sha256(canonical.encode("latin-1")).hexdigest()
    return f"{ALGORITHM}\n{timestamp}\n{scope}\n{digest}"


def sign(key: bytes, text: str) -> str:
    signer = _signer(key).copy()
    signer.update(text.encode())
    return signer.hexdigest()


@lru_cache(maxsize=1024)
def _signer(key: bytes) -> hmac.HMAC:
    """To be copied: `hmac.digest` looks its algorithm up, and lets other threads in, each time."""
    return hmac.new(key, digestmod="sha256")


def _scope_in_header(authorization: str) -> Scope:
    _, found, rest = authorization.partition("Credential=")
    if not found or not authorization.startswith(ALGORITHM):
        raise NotSigned(Refusal.MALFORMED)
    return Scope.parse(rest.partition(",")[0].strip())


def _claim(request: Request) -> _Claim:
    if "authorization" in request.headers:
        return _claim_in_header(request.headers)
    if "X-Amz-Signature=" in request.query:
        return _claim_in_query(request.query)
    raise NotSigned(Refusal.MISSING)


def _claim_in_header(headers: Mapping[str, str]) -> _Claim:
    match = _HEADER.fullmatch(headers["authorization"].strip())
    if match is None:
        raise NotSigned(Refusal.MALFORMED, "The Authorization header is not Signature Version 4.")
    timestamp = headers.get("x-amz-date", "")
    if not timestamp and (date := headers.get("date")):
        timestamp = _from_http_date(date)
    signed = tuple(match["headers"].split(";"))
    return _Claim(Scope.parse(match["credential"]), signed, match["signature"], timestamp)


def _claim_in_query(query: str) -> _Claim:
    given = {name: value for name, value in _pairs(query) if name.startswith("X-Amz-")}
    try:
        if given["X-Amz-Algorithm"] != ALGORITHM:
            raise NotSigned(Refusal.MALFORMED_ADDRESS, f"Only {ALGORITHM} is understood.")
        seconds = int(given["X-Amz-Expires"])
        claim = _Claim(
            Scope.parse(given["X-Amz-Credential"]),
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
    if claim.seconds is not None and now > signed + timedelta(seconds=claim.seconds):
        raise NotSigned(Refusal.EXPIRED)


def _canonical(
    request: Request, signed_headers: Sequence[str], payload_sha256: str, *, twice: bool
) -> str:
    path = _encoded_path(request.path, twice=twice)
    lines = [request.method, path, _canonical_query(request.query)]
    for name in signed_headers:
        value = request.headers.get(name)
        if value is None:
            raise NotSigned(Refusal.MISMATCH, f"The signed header {name!r} did not arrive.")
        value = value.strip()
        lines.append(f"{name}:{_SPACES.sub(' ', value) if _SPACE_RUN.search(value) else value}")
    return "\n".join([*lines, "", ";".join(signed_headers), payload_sha256])


def _encoded_path(path: str, *, twice: bool) -> str:
    if _PLAIN_PATH.fullmatch(path):
        return path
    encoded = quote(unquote_to_bytes(path), safe="/-_.~") or "/"
    return quote(encoded, safe="/-_.~") if twice else encoded


def _canonical_query(query: str) -> str:
    if not query:
        return ""
    pairs = [(_encode(name), _encode(value)) for name, value in _pairs(query)]
    return "&".join(f"{name}={value}" for name, value in sorted(pairs) if name != "X-Amz-Signature")


def _pairs(query: str) -> list[tuple[str, str]]:
    """Decoded, a plus sign left alone: signers write a space as %20."""
    found = []
    for part in query.split("&"):
        if part:
            name, _, value = part.partition("=")
            found.append((_decode(name), _decode(value)))
    return found


def _decode(text: str) -> str:
    return unquote_to_bytes(text).decode("utf-8", "surrogateescape")


def _encode(text: str) -> str:
    return quote(text.encode("utf-8", "surrogateescape"), safe="-_.~")


def _from_http_date(date: str) -> str:
    try:
        parsed = parsedate_to_datetime(date)
        return (
            parsed.replace(tzinfo=parsed.tzinfo or UTC).astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
        )
    except ValueError:
        raise NotSigned(Refusal.MALFORMED, f"{date!r} is no date.") from None
