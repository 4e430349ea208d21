"""The web pages next to the AWS services: one Starlette application, its routes listed in one
place.

`App` sends a request here when it has no signature and a route matches its path and method.
"""

import asyncio
import base64
import binascii
import hmac
import ipaddress
from collections.abc import Mapping

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from trackside.api.health import Health
from trackside.api.keys import AccessKeys, KeysUnavailable
from trackside.api.telemetry import CONTENT_TYPE, Telemetry

_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
_NOT_STORED = {"cache-control": "no-store"}


def make_pages(health: Health, telemetry: Telemetry, keys: AccessKeys) -> Starlette:
    pages = _Pages(health, telemetry, keys)
    return Starlette(
        routes=[
            Route("/health", pages.ready),
            Route("/health/live", pages.alive),
            Route("/metrics", pages.metrics),
        ]
    )


class _Pages:
    def __init__(self, health: Health, telemetry: Telemetry, keys: AccessKeys) -> None:
        self._health = health
        self._telemetry = telemetry
        self._keys = keys
        self._scrape: asyncio.Future[bytes] | None = None

    async def ready(self, request: Request) -> Response:
        """503 when requests should go elsewhere, with the reasons. Needs no key."""
        report = await self._health.report()
        status = 200 if report["status"] == "ok" else 503
        return JSONResponse(report, status, headers=_NOT_STORED)

    async def alive(self, request: Request) -> Response:
        """A server that answers this need not be restarted, whatever else is wrong."""
        return JSONResponse({"status": "ok"}, headers=_NOT_STORED)

    async def metrics(self, request: Request) -> Response:
        """For clients on this machine, and for those with an access key.

        Concurrent requests share one scrape, and so one thread.
        """
        peer = request.client.host if request.client else ""
        if not (is_local(request.headers, peer) or has_key(request.headers, self._keys)):
            text = "Ask from this machine, or with an access key by HTTP basic authentication.\n"
            headers = {"www-authenticate": 'Basic realm="trackside"'}
            return PlainTextResponse(text, 401, headers)
        if self._scrape is None or self._scrape.done():
            self._scrape = asyncio.ensure_future(asyncio.to_thread(self._telemetry.scrape))
        text_format = await asyncio.shield(self._scrape)
        return Response(text_format, headers={"content-type": CONTENT_TYPE, **_NOT_STORED})


def is_local(headers: Mapping[str, str], peer: str) -> bool:
    """Whether the client is on this machine, not behind a proxy on it: a proxy passes on the Host
    header of its client, as signatures would be wrong otherwise."""
    host = headers.get("host", "")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    is_forwarded = any(header in headers for header in _FORWARDED)
    return _is_loopback(peer) and _is_loopback(name.strip("[]")) and not is_forwarded


def has_key(headers: Mapping[str, str], keys: AccessKeys) -> bool:
    """In the form that Prometheus sends: the key's id and secret as user and password."""
    scheme, _, encoded = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return False
    try:
        name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return False
    try:
        secret = keys.secret_of(name)
    except KeysUnavailable:
        return False
    return secret is not None and hmac.compare_digest(secret.encode(), password.encode())


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
