"""The web pages next to the AWS services: one Starlette application, its routes listed in one
place.

`App` sends a request here when it has no signature and a route matches its path and method.
"""

import asyncio
import base64
import binascii
import hmac
from collections.abc import Mapping, MutableMapping
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Mount, Route

from trackside.api.health import Health
from trackside.api.keys import AccessKeys, KeysUnavailable
from trackside.api.telemetry import CONTENT_TYPE, Telemetry
from trackside.page.app import Page
from trackside.page.peer import is_local

_NOT_STORED = {"cache-control": "no-store"}


def make_pages(
    health: Health, telemetry: Telemetry, keys: AccessKeys, page: Page | None = None
) -> Starlette:
    pages = _Pages(health, telemetry, keys)
    return Starlette(
        routes=[
            Route("/health", pages.ready),
            Route("/health/live", pages.alive),
            Route("/metrics", pages.metrics),
            *([] if page is None else page_routes(page)),
        ]
    )


def page_routes(page: Page) -> list[BaseRoute]:
    """At /ui and, for a proxy that passes its prefix on, below that."""

    async def lead(request: Request) -> Response:
        return RedirectResponse(page.files.base(request), 307)

    found: list[BaseRoute] = [_Home("/", lead)]
    for prefix in dict.fromkeys(["", page.path_prefix]):
        found += [Route(f"{prefix}/ui", lead), Mount(f"{prefix}/ui", page.app)]
    return found


class _Home(Route):
    """The server's root, for browsers; other clients of it mean the list of buckets."""

    def matches(self, scope: MutableMapping[str, Any]) -> tuple[Match, MutableMapping[str, Any]]:
        accepted = Headers(scope=scope).get("accept", "") if scope["type"] == "http" else ""
        is_browser = "text/html" in accepted
        return super().matches(scope) if is_browser else (Match.NONE, {})


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
