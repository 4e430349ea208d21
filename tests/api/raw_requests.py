"""Requests signed and sent exactly as written: other clients would normalize them."""

import hashlib
import http.client
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

from trackside.sigv4 import ALGORITHM, UNSIGNED, Request, Scope, signature_of, signed_headers

REGION = "eu-central-1"


@dataclass(frozen=True)
class SignedClient:
    """Signs with one key, for the server at `url`."""

    url: str
    key_id: str
    secret: str

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    def signed(
        self,
        method: str,
        address: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        service: str = "s3",
        sha256: str | None = None,
    ) -> Request:
        """With all of its headers signed; `address` is path and query."""
        path, _, query = address.partition("?")
        now = datetime.now(UTC)
        request = Request(method, path, query, {"host": self.host, **(headers or {})})
        scope = Scope(self.key_id, f"{now:%Y%m%d}", REGION, service)
        payload = sha256 or hashlib.sha256(body).hexdigest()
        return Request(
            method, path, query, signed_headers(request, payload, scope, now, self.secret)
        )

    def presigned(
        self, method: str, address: str, *, service: str = "s3", sha256: str = UNSIGNED
    ) -> Request:
        path, _, query = address.partition("?")
        now = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        scope = Scope(self.key_id, now[:8], REGION, service)
        given = {
            "X-Amz-Algorithm": ALGORITHM,
            "X-Amz-Credential": f"{self.key_id}/{scope}",
            "X-Amz-Date": now,
            "X-Amz-Expires": "600",
            "X-Amz-SignedHeaders": "host",
        }
        own = "&".join(f"{name}={quote(value, safe='')}" for name, value in given.items())
        request = Request(method, path, f"{query}&{own}".lstrip("&"), {"host": self.host})
        value = signature_of(request, sha256, ["host"], scope, now, self.secret).value
        return Request(method, path, f"{request.query}&X-Amz-Signature={value}", request.headers)

    def request(
        self,
        method: str,
        address: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        service: str = "s3",
    ) -> tuple[int, bytes]:
        return send(self.url, self.signed(method, address, body, headers, service=service), body)


def send(url: str, request: Request, body: bytes = b"") -> tuple[int, bytes]:
    """The status, and the body of the answer."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    address = f"{request.path}?{request.query}" if request.query else request.path
    try:
        connection.putrequest(request.method, address, skip_host=True, skip_accept_encoding=True)
        for name, value in request.headers.items():
            connection.putheader(name, value.encode("latin-1"))
        if body and "content-length" not in request.headers:
            connection.putheader("content-length", str(len(body)))
        connection.endheaders(body or None)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
