"""S3 backed by another store: a request that our keys allow is signed again for the store and
forwarded.

The store's response, also an error, is returned unchanged. Bodies are streamed, and not changed.
"""

import re
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from trackside.api.call import Call, Reply, ServiceError
from trackside.api.s3.aws_chunked import ChunkSigner
from trackside.api.s3.errors import error_reply, not_signed, s3_error
from trackside.api.s3.presigned_body import SHA256, check_body_is_bound, has_body
from trackside.api.s3.relayed_body import hashed, re_signed, re_signed_size
from trackside.api.s3.required_rights import needed_rights
from trackside.api.s3.target import Target, decoded, read_target
from trackside.api.s3.upstream_client import UpstreamClient, UpstreamCredentials
from trackside.api.s3.upstream_connection import StoreUnavailable
from trackside.api.s3.verified_body import SIGNED_STREAMS, announced_size, trailer_named
from trackside.api.sigv4 import CONTENT_SHA256
from trackside.sigv4 import (
    ALGORITHM,
    UNSIGNED,
    Request,
    Scope,
    Signature,
    encoded_name,
    encoded_path,
    signature_of,
)
from trackside.storage.credentials import S3Access
from trackside.storage.instance_credentials import Keys, keys_for

_RETRY_SECONDS = 2
_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_REPLACED_HEADERS = {
    CONTENT_SHA256,
    "x-amz-cf-id",
    "x-amz-date",
    # Clients know the account of our STS, not the store's.
    "x-amz-expected-bucket-owner",
    "x-amz-security-token",
    "x-amz-source-expected-bucket-owner",
}
"""S3 headers that are meant for this server: left out, or replaced for the store."""
_HTTP_HEADERS = frozenset(
    {
        "accept", "accept-encoding", "cache-control", "content-disposition", "content-encoding",
        "content-language", "content-length", "content-md5", "content-type", "expect", "expires",
        "if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since",
        "origin", "range", "referer", "user-agent", "via",
    }
)  # fmt: skip
"""Forwarded unchanged, signed or not. Stores have headers of their own, too; they would obey those
because we sign, though nothing here has checked them."""
_METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE")
_PRESIGNED_PARAMETERS = frozenset(
    f"x-amz-{name}"
    for name in (
        "algorithm", "credential", "date", "expires", "security-token", "signature",
        "signedheaders",
    )
)  # fmt: skip
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class S3Relay:
    """The `Service` for a store that is elsewhere: AWS, MinIO, Ceph."""

    streams = True

    def __init__(
        self,
        access: S3Access,
        environ: Mapping[str, str] | None = None,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`environ` names sources of credentials that are not in `access`."""
        self._keys = UpstreamCredentials(partial(keys_for, access, environ or {}))
        self._region = access.region
        self._client = UpstreamClient(access.endpoint or _aws_endpoint(access.region))
        self._clock = clock
        self._name = f"1.1 trackside-{secrets.token_hex(8)}"
        """By which it knows a request that it has passed on itself."""

    async def handle(self, call: Call) -> Reply:
        target = read_target(call)
        _check(target)
        if self._name in call.request.headers.get("via", ""):
            text = f"The store at {self._client.endpoint} leads back to this server: name another."
            raise s3_error("InvalidRequest", text)
        request, body = self._signed(target, await self._keys.get())
        address = f"{request.path}?{request.query}" if request.query else request.path
        try:
            response = await self._client.request(request.method, address, request.headers, body)
        except StoreUnavailable as error:
            text = f"The store at {self._client.endpoint} does not answer: {error}. Try again."
            raise s3_error(
                "ServiceUnavailable", text, {"retry-after": str(_RETRY_SECONDS)}
            ) from error
        headers = {n: v for n, v in response.headers.items() if n not in _HOP_BY_HOP}
        return Reply(response.status, response.body, headers)

    def close(self) -> None:
        self._client.close()

    def refused(self, error: ServiceError, request_id: str) -> Reply:
        return error_reply(error, request_id)

    def not_signed(self, error: Exception) -> ServiceError:
        return not_signed(error)

    def _signed(self, target: Target, keys: Keys) -> tuple[Request, AsyncIterator[bytes] | None]:
        """The request for the store: its path and query in the form that was checked."""
        call = target.call
        passed = _forwarded(call.request)
        now = self._clock().strftime("%Y%m%dT%H%M%SZ")
        via = ", ".join(filter(None, [passed.headers.get("via"), self._name]))
        headers = {"host": self._client.host, **passed.headers, "via": via, "x-amz-date": now}
        if keys.token is not None:
            headers["x-amz-security-token"] = keys.token
        if has_body(target) and "content-length" not in headers:
            headers["transfer-encoding"] = "chunked"
        scope = Scope(keys.id, now[:8], self._region, "s3")
        names = sorted(name for name in headers if _is_signed(name))
        path = self._client.base_path + encoded_path(call.request.path)
        request = Request(call.request.method, path, passed.query, headers)
        sha256 = headers[CONTENT_SHA256]
        signature = signature_of(request, sha256, names, scope, now, keys.secret)
        headers["authorization"] = (
            f"{ALGORITHM} Credential={keys.id}/{scope}, "
            f"SignedHeaders={';'.join(names)}, Signature={signature.value}"
        )
        return request, _body(call, signature, headers) if has_body(target) else None


@dataclass(frozen=True, slots=True)
class _Forwarded:
    query: str
    headers: dict[str, str]


def _check(target: Target) -> None:
    """The caller must have the rights for what the store would do."""
    call = target.call
    level = "OBJECT" if target.key else "BUCKET" if target.bucket else "SERVICE"
    if call.request.method not in _METHODS:
        raise s3_error("MethodNotAllowed")
    call.exchange.operation = f"REST.{call.request.method}.{level}"
    needed = needed_rights(target)
    if not call.caller.rights.allow(needed):
        text = f"This key has the rights {call.caller.rights!s}; this needs {needed!s}."
        raise s3_error("AccessDenied", text)
    check_body_is_bound(target)


def _forwarded(request: Request) -> _Forwarded:
    """The headers of a request that are not meant for us."""
    given = {name: value for name, value in request.headers.items() if _is_forwarded(name)}
    parts = [part.partition("=") for part in request.query.split("&") if part]
    if "authorization" not in request.headers:
        parts, hoisted = _without_signature(parts)
        given |= {name: value for name, value in hoisted.items() if _is_forwarded(name)}
    sha256 = request.headers.get(CONTENT_SHA256, UNSIGNED)
    given[CONTENT_SHA256] = sha256
    if sha256 in SIGNED_STREAMS:
        size, trailer = announced_size(request.headers), trailer_named(request.headers)
        given["content-length"] = str(re_signed_size(size or 0, trailer))
    query = "&".join(
        f"{encoded_name(decoded(name))}{equals}{encoded_name(decoded(value))}"
        for name, equals, value in parts
    )
    return _Forwarded(query, given)


def _is_forwarded(name: str) -> bool:
    return name in _HTTP_HEADERS or (name.startswith("x-amz-") and name not in _REPLACED_HEADERS)


def _without_signature(
    parts: list[tuple[str, str, str]],
) -> tuple[list[tuple[str, str, str]], dict[str, str]]:
    """A presigned query as a plain one, and the headers that its signer had moved into it."""
    kept, hoisted = [], {}
    for part in parts:
        name, value = decoded(part[0]).lower(), decoded(part[2])
        if not name.startswith("x-amz-"):
            kept.append(part)
        elif name not in _PRESIGNED_PARAMETERS:
            if _CONTROL.search(name + value):
                raise s3_error("InvalidArgument", f"{name}={value!r} cannot be a header.")
            hoisted[name] = value.encode("utf-8", "surrogateescape").decode("latin-1")
    return kept, hoisted


def _is_signed(name: str) -> bool:
    return name in ("host", "content-md5", "content-type") or name.startswith("x-amz-")


def _body(call: Call, signature: Signature, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
    assert call.chunks is not None
    form = headers[CONTENT_SHA256]
    if form in SIGNED_STREAMS:
        size, trailer = announced_size(call.request.headers), trailer_named(call.request.headers)
        signers = ChunkSigner(call.signature), ChunkSigner(signature)
        return re_signed(call.chunks, *signers, size or 0, trailer)
    chunks = hashed(call.chunks, form) if SHA256.fullmatch(form) else call.chunks
    return chunks if "content-length" in headers else _http_chunks(chunks)


async def _http_chunks(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """HTTP's chunked encoding, for an unknown length."""
    async for chunk in chunks:
        yield b"%x\r\n%b\r\n" % (len(chunk), chunk)
    yield b"0\r\n\r\n"


def _aws_endpoint(region: str) -> str:
    return f"https://s3.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"
