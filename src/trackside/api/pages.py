"""The pages beside the services: /health for anybody, /metrics for this machine and for who has a
key."""

import asyncio
import base64
import binascii
import hmac
import ipaddress
from collections.abc import Mapping

from trackside.api.app import Page
from trackside.api.call import Reply
from trackside.api.exposition import CONTENT_TYPE
from trackside.api.health import Health
from trackside.api.keys import AccessKeys, KeysUnavailable
from trackside.api.telemetry import Telemetry
from trackside.sigv4 import Request

_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


def pages(health: Health, telemetry: Telemetry, keys: AccessKeys) -> Mapping[str, Page]:
    async def ready(request: Request, peer: str) -> Reply:
        return await health.ready()

    async def alive(request: Request, peer: str) -> Reply:
        return await health.alive()

    written: asyncio.Future[bytes] | None = None

    async def metrics(request: Request, peer: str) -> Reply:
        """Who asks while the page is written gets the same: many at once take no more threads."""
        nonlocal written
        if not (is_of_this_machine(request, peer) or has_key(request, keys)):
            text = b"Ask from this machine, or with an access key by HTTP basic authentication.\n"
            headers = {"www-authenticate": 'Basic realm="trackside"', "content-type": "text/plain"}
            return Reply(401, text, headers)
        if written is None or written.done():
            written = asyncio.ensure_future(asyncio.to_thread(telemetry.told))
        body = await asyncio.shield(written)
        return Reply(200, body, {"content-type": CONTENT_TYPE, "cache-control": "no-store"})

    return {"/health": ready, "/health/live": alive, "/metrics": metrics}


def is_of_this_machine(request: Request, peer: str) -> bool:
    """Not what a proxy on this machine hands on: a proxy keeps the Host that its client asked for,
    or no signature would be right."""
    host = request.headers.get("host", "")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    is_handed_on = any(header in request.headers for header in _FORWARDED)
    return _is_loopback(peer) and _is_loopback(name.strip("[]")) and not is_handed_on


def has_key(request: Request, keys: AccessKeys) -> bool:
    """By the form that Prometheus speaks: the key's id and secret as user and password."""
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
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
