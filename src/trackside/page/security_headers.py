"""Headers of every response: what a browser may do with it."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

CONTENT_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "font-src 'self'",
        "base-uri 'self'",
        "frame-ancestors 'self'",
        "frame-src 'self'",
        "form-action 'self'",
    ]
)
"""No inline script or style, no eval, nothing from elsewhere."""
_HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class SecurityHeaders:
    """Middleware: adds those that a response has not set itself."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message.get("headers", ())}
                added = [
                    (name.encode(), value.encode())
                    for name, value in _HEADERS.items()
                    if name.encode() not in given
                ]
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        await self._app(scope, receive, send_with_headers)
