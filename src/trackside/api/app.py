"""All services at one address: finds the service of a request, verifies it, sends the response.

Plain ASGI; pages for browsers and monitoring are an application beside it (`pages`).
"""

import asyncio
import hashlib
import logging
import random
import re
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Mapping,
    MutableMapping,
)
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Match

from trackside.api import access_log
from trackside.api.admission import Admission, Connection, Cut, connection_of
from trackside.api.call import (
    Call,
    Closing,
    Exchange,
    Reply,
    Service,
    ServiceError,
    too_busy,
)
from trackside.api.fair_pool import CALLER
from trackside.api.keys import AccessKey, KeyRing, KeysUnavailable, UnknownKey
from trackside.api.limits import Limits
from trackside.api.protocols import not_offered
from trackside.api.request_body import Body, BodyMemory, Receive
from trackside.api.sessions import Session, Sessions
from trackside.api.sigv4 import NotSigned, Refusal, candidate, scope_of, session_token_of
from trackside.page.access import Person
from trackside.page.gate import PERSON
from trackside.sigv4 import Request

logger = logging.getLogger(__name__)

_TARGETS = {
    "sagemaker": "SageMaker",
    "logs": "Logs_20140328",
    "monitoring": "GraniteServiceVersion20100801",
}
"""The first part of X-Amz-Target, by the service's name in a credential scope."""
_FORMS = {"monitoring": "monitoring-form"}
"""Services that speak JSON with a target header, and their older form protocol without one."""

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_IN_HEADERS = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_RETRY_SECONDS = "5"
_NO_RESPONSE = 499
"""The status of a request whose client disconnected, or that was cancelled."""


class App:
    def __init__(
        self,
        services: Mapping[str, Service],
        keys: KeyRing,
        pages: Starlette | None = None,
        *,
        sessions: Sessions | None = None,
        admission: Admission | None = None,
        watch: Callable[[Exchange], None] = lambda exchange: None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._services = services
        """By the service's name in a credential scope."""
        self._keys = keys
        self._sessions = sessions
        """Temporary keys, where they are given."""
        self._pages = pages
        """What can be read without a signature."""
        self._watch = watch
        """Called with each request when it is over."""
        self._clock = clock
        self.admission = admission or Admission(Limits())
        self._memory = BodyMemory(self.admission.limits.body_memory)
        self.is_draining = False

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        if scope["type"] != "http":
            return
        request = _request(scope)
        request_id = f"{random.getrandbits(128):032x}"
        peer = (scope.get("client") or ("",))[0]
        exchange = Exchange(status=_NO_RESPONSE)
        connection = connection_of(scope)
        body = Body(receive, request.headers, exchange, self.admission, self._memory)
        try:
            page = self._page(scope, request)
            if len(scope["headers"]) > self.admission.limits.header_lines:
                reply = self._too_many_headers()
            elif page is not None:
                await self._send_page(page, scope, receive, send, body, request_id)
                return
            else:
                reply = await self._respond(request, body, request_id, connection)
            await body.skip_small()
            if self._is_last(body, connection):
                reply = replace(reply, headers={**reply.headers, "connection": "close"})
            exchange.status = reply.status
            await _send(reply, request, request_id, body, receive, send)
        except asyncio.CancelledError:
            if not self.is_draining:
                raise
            logger.warning("request %s took too long to end with the server", request_id)
        finally:
            body.release()
            self._watch(exchange)
            access_log.log_request(request, request_id, exchange, peer)

    @property
    def bodies_held(self) -> int:
        """Bytes of them in memory."""
        return self._memory.num_bytes

    def drain(self) -> None:
        """From now on, every response closes its connection."""
        self.is_draining = True

    def _is_last(self, body: Body, connection: Connection | None) -> bool:
        """Whether the connection is closed after this response."""
        is_extra = connection is not None and connection.is_extra
        return self.is_draining or body.is_unread or is_extra

    def _page(self, scope: MutableMapping[str, Any], request: Request) -> Starlette | None:
        """The pages, if one of them is requested: a signed request is for a bucket with the same
        name as a page."""
        if self._pages is None or scope_of(request) is not None:
            return None
        is_one = any(route.matches(scope)[0] is Match.FULL for route in self._pages.routes)
        return self._pages if is_one else None

    async def _send_page(
        self,
        page: Starlette,
        scope: MutableMapping[str, Any],
        receive: Receive,
        send: Send,
        body: Body,
        request_id: str,
    ) -> None:
        if scope["method"] in ("GET", "HEAD"):
            await body.skip_small()
        added = [(b"x-amzn-requestid", request_id.encode())]
        if self._is_last(body, connection_of(scope)):
            added.append((b"connection", b"close"))

        async def send_counted(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                body.exchange.status = message["status"]
                self._note_person(scope, body)
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            elif scope["method"] != "HEAD":
                body.exchange.bytes_out += len(message.get("body", b""))
            await send(message)

        await page(scope, receive, send_counted)

    def _note_person(self, scope: MutableMapping[str, Any], body: Body) -> None:
        """Somebody who is logged in to the page counts as one with a signature."""
        person: Person | None = scope.get(PERSON)
        connection = connection_of(scope)
        if person is not None:
            body.exchange.key_id = person.key_id
            if connection is not None:
                self.admission.mark_signed(connection)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        for service in self._services.values():
            if isinstance(service, Closing):
                service.close()
        await send({"type": "lifespan.shutdown.complete"})

    def _too_many_headers(self) -> Reply:
        self.admission.cuts[Cut.HEADERS_LARGE] += 1
        text = f"More than {self.admission.limits.header_lines} headers.\n"
        return Reply(431, text.encode(), {"content-type": "text/plain", "connection": "close"})

    async def _respond(
        self, request: Request, body: Body, request_id: str, connection: Connection | None
    ) -> Reply:
        name = service_name(request)
        service = self._services.get(name)
        if service is None:
            offered = sorted(self._services.keys() - _FORMS.values())
            return not_offered(request, name, offered, request_id)
        body.exchange.service = name
        try:
            if connection is not None and connection.is_extra:
                raise too_busy("This server has too many open connections.")
            call = await self._verified(request, service, body, request_id)
            if connection is not None:
                self.admission.mark_signed(connection)
            return _sendable(await service.handle(call))
        except ServiceError as error:
            return service.refused(error, request_id)
        except NotSigned as error:
            return service.refused(service.not_signed(error), request_id)
        except KeysUnavailable as error:
            return service.refused(_keys_unavailable(error), request_id)
        except Exception:
            logger.exception("request %s broke the server", request_id)
            text = f"The server's log has more about {request_id}."
            return service.refused(ServiceError("InternalFailure", text, 500), request_id)

    async def _verified(
        self, request: Request, service: Service, body: Body, request_id: str
    ) -> Call:
        session = self._session(request)
        secret_of = (lambda _: session.secret) if session else self._keys.secret_of
        found = candidate(request, secret_of, self._clock())
        whole, sha256 = b"", None
        if not service.streams:
            # Last, since a large one takes memory.
            whole = await body.whole(found.claim.scope.access_key)
            sha256 = hashlib.sha256(whole).hexdigest()
        signature = found.verified(sha256)
        _check_target(request, signature.scope.service)
        caller = self._caller(session.parent if session else signature.scope.access_key)
        body.exchange.key_id = caller.id
        CALLER.set(caller.label)
        chunks = body.chunks() if service.streams else None
        return Call(request, caller, signature, whole, chunks, request_id, body.exchange)

    def _session(self, request: Request) -> Session | None:
        """Of a request with a temporary key."""
        token = session_token_of(request)
        if self._sessions is None or not token:
            return None
        scope = scope_of(request)
        return self._sessions.find(token, scope.access_key) if scope else None

    def _caller(self, key_id: str) -> AccessKey:
        try:
            return self._keys.get(key_id)
        except UnknownKey as error:  # it expired at this moment
            raise NotSigned(Refusal.UNKNOWN_KEY, str(error)) from None


def _keys_unavailable(error: KeysUnavailable) -> ServiceError:
    """Clients retry by themselves."""
    headers = {"retry-after": _RETRY_SECONDS}
    return ServiceError("ServiceUnavailable", str(error), 503, headers)


def service_name(request: Request) -> str:
    """The service that the signature is for; nothing else decides it.

    An unsigned request is rejected; its other headers only decide in which protocol.
    """
    scope = scope_of(request)
    target = request.headers.get("x-amz-target", "")
    if scope is not None:
        return scope.service if target else _FORMS.get(scope.service, scope.service)
    start = target.partition(".")[0]
    return next((name for name, each in _TARGETS.items() if each == start), "s3")


def _check_target(request: Request, service: str) -> None:
    """The header is signed, like all of its kind; it must name the same service."""
    target = request.headers.get("x-amz-target")
    if target is None:
        return
    if target.partition(".")[0] != _TARGETS.get(service):
        text = f"X-Amz-Target is {target!r}, and the signature is for the service {service!r}."
        raise ServiceError("UnknownOperationException", text, 404)


def _sendable(reply: Reply) -> Reply:
    """An invalid header would break the connection after the status line was sent."""
    if _IN_HEADERS.fullmatch("".join(reply.headers.values())) is None:
        raise ValueError(f"a response has headers that cannot be sent: {dict(reply.headers)!r}")
    return reply


def _request(scope: MutableMapping[str, Any]) -> Request:
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    path = scope["raw_path"].decode("latin-1").partition("?")[0]
    return Request(scope["method"], path, scope["query_string"].decode("latin-1"), headers)


async def _send(
    reply: Reply,
    request: Request,
    request_id: str,
    body: Body,
    receive: Receive,
    send: Send,
) -> None:
    headers = {"x-amzn-requestid": request_id, **reply.headers}
    if isinstance(reply.body, bytes):
        headers.setdefault("content-length", str(len(reply.body)))
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": raw})
    if not isinstance(reply.body, bytes):
        await _stream(reply.body, body.exchange, receive, send)
        return
    data = b"" if request.method == "HEAD" else reply.body
    body.exchange.bytes_out += len(data)
    if body.is_unread:
        await send({"type": "http.response.body", "body": data, "more_body": True})
        await body.linger()
        data = b""
    await send({"type": "http.response.body", "body": data})


async def _stream(
    body: AsyncGenerator[bytes, None], exchange: Exchange, receive: Receive, send: Send
) -> None:
    """Until all is sent or the client has disconnected: `send` would ignore the rest silently."""
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        async with aclosing(body):
            async for chunk in body:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                exchange.bytes_out += len(chunk)
                if gone.done():
                    return
        await send({"type": "http.response.body", "body": b""})
    finally:
        gone.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
