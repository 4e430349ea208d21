"""Signature Version 4 as both sides write it: what of a request is signed, and with what.

`api/sigv4.py` verifies, `remote/` signs. Knows nothing of connections nor of who has which key.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

ALGORITHM = "AWS4-HMAC-SHA256"
UNSIGNED = "UNSIGNED-PAYLOAD"
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()

_SPACES = re.compile(r"\s+")
_SPACE_RUN = re.compile(r"\s\s|[^\S ]")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/\-_.~]+")


@dataclass(frozen=True, slots=True)
class Request:
    """As it goes over the wire."""

    method: str
    path: str
    """Percent-encoded, without the query."""
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

    def __str__(self) -> str:
        return f"{self.date}/{self.region}/{self.service}/aws4_request"


@dataclass(frozen=True, slots=True)
class Signature:
    """One that is right: the scope, and what a signed stream of chunks goes on from."""

    scope: Scope
    timestamp: str
    key: bytes
    value: str


def signature_of(
    request: Request,
    payload_sha256: str,
    signed_headers: Sequence[str],
    scope: Scope,
    timestamp: str,
    secret: str,
) -> Signature:
    """What the owner of the secret signs such a request with. All `signed_headers` are in it."""
    canonical = _canonical(request, signed_headers, payload_sha256, twice=scope.service != "s3")
    key = signing_key(secret, scope)
    return Signature(scope, timestamp, key, sign(key, string_to_sign(timestamp, scope, canonical)))


def signed_headers(
    request: Request, payload_sha256: str, scope: Scope, now: datetime, secret: str
) -> dict[str, str]:
    """The request's own headers, `host` among them, and those that prove who sent it."""
    headers = {
        **request.headers,
        "x-amz-date": f"{now:%Y%m%dT%H%M%SZ}",
        "x-amz-content-sha256": payload_sha256,
    }
    names = sorted(headers)
    whole = Request(request.method, request.path, request.query, headers)
    signature = signature_of(whole, payload_sha256, names, scope, headers["x-amz-date"], secret)
    credential = f"{scope.access_key}/{scope}"
    authorization = (
        f"{ALGORITHM} Credential={credential}, SignedHeaders={';'.join(names)}, "
        f"Signature={signature.value}"
    )
    return {**headers, "authorization": authorization}


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


def pairs_of(query: str) -> list[tuple[str, str]]:
    """Decoded, a plus sign left alone: signers write a space as %20."""
    found = []
    for part in query.split("&"):
        if part:
            name, _, value = part.partition("=")
            found.append((_decode(name), _decode(value)))
    return found


def encoded_path(path: str) -> str:
    """The one form of a path: each character that need not be encoded is not."""
    if _PLAIN_PATH.fullmatch(path):
        return path
    return quote(unquote_to_bytes(path), safe="/-_.~") or "/"


def encoded_name(text: str) -> str:
    """A name or a value of a query, in its one form."""
    return quote(text.encode("utf-8", "surrogateescape"), safe="-_.~")


@lru_cache(maxsize=1024)
def _signer(key: bytes) -> hmac.HMAC:
    """To be copied: `hmac.digest` looks its algorithm up, and lets other threads in, each time."""
    return hmac.new(key, digestmod="sha256")


def _canonical(
    request: Request, signed_headers: Sequence[str], payload_sha256: str, *, twice: bool
) -> str:
    path = encoded_path(request.path)
    if twice and "%" in path:
        path = path.replace("%", "%25")
    lines = [request.method, path, _canonical_query(request.query)]
    for name in signed_headers:
        value = request.headers[name].strip()
        lines.append(f"{name}:{_SPACES.sub(' ', value) if _SPACE_RUN.search(value) else value}")
    return "\n".join([*lines, "", ";".join(signed_headers), payload_sha256])


def _canonical_query(query: str) -> str:
    if not query:
        return ""
    pairs = [(encoded_name(name), encoded_name(value)) for name, value in pairs_of(query)]
    return "&".join(f"{name}={value}" for name, value in sorted(pairs) if name != "X-Amz-Signature")


def _decode(text: str) -> str:
    return unquote_to_bytes(text).decode("utf-8", "surrogateescape")
