"""Runs the application on a socket: uvicorn, with what makes it quick where it is installed."""

import logging
import socket
import sys

import uvicorn

from trackside.api.app import App
from trackside.api.drain import DrainingServer
from trackside.api.http_protocol import guarded
from trackside.api.limits import raise_descriptor_limit

logger = logging.getLogger(__name__)

_BACKLOG = 1024
_KEEP_ALIVE_SECONDS = 75
"""Longer than clients keep a connection unused, so that they never send into a closing one."""
_SWITCH_SECONDS = 0.0005
"""How long a thread that computes keeps the interpreter while others wait for it. The event loop
takes it anew for each thing that happens on any connection."""
DRAIN_SECONDS = 30.0
"""How long requests have to end after the server was asked to."""


def make_server(app: App, *, drain_seconds: float = DRAIN_SECONDS) -> uvicorn.Server:
    """Within the limits of the app's gate, and of the descriptors that this process may have."""
    app.gate.keep_within(raise_descriptor_limit())
    sys.setswitchinterval(_SWITCH_SECONDS)
    config = uvicorn.Config(
        app,
        http=guarded(app.gate),
        h11_max_incomplete_event_size=2 * app.gate.limits.header_bytes,
        log_config=None,
        access_log=False,
        lifespan="on",
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )
    return DrainingServer(config, drain_seconds=drain_seconds, draining=app.drain)


def listen(host: str, port: int) -> socket.socket:
    """Port 0 is any free one; `getsockname` tells which."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen(_BACKLOG)
    return listener


def serve(app: App, host: str = "127.0.0.1", port: int = 7007) -> None:
    """Until SIGTERM or SIGINT, after which open requests have half a minute to end."""
    listener = listen(host, port)
    logger.info("listening on %s:%d", *listener.getsockname()[:2])
    make_server(app).run(sockets=[listener])
