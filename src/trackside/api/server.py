"""Runs the application on a socket by uvicorn, and drains it at the end: no new connections, open
requests are finished, then the process exits with 0."""

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from trackside.api.app import App
from trackside.api.http_protocol import guarded
from trackside.api.limits import raise_descriptor_limit

logger = logging.getLogger(__name__)

_BACKLOG = 1024
_KEEP_ALIVE_SECONDS = 75
"""Longer than clients keep an idle connection, so that they never send on a closing one."""
_SWITCH_SECONDS = 0.0005
"""How long a computing thread keeps the interpreter while others wait for it. The event loop needs
it for every event on any connection."""
DRAIN_SECONDS = 30.0
"""How long requests may take after the server was requested to stop."""
_POLL_SECONDS = 0.05
_LEAVE_SECONDS = 5.0
"""For cancelled requests to clean up; what hangs longer is left as after kill -9."""


def make_server(app: App, *, drain_seconds: float = DRAIN_SECONDS) -> uvicorn.Server:
    """Within the limits of the app's admission, and of the descriptors that this process may
    have."""
    app.admission.limit_descriptors(raise_descriptor_limit())
    sys.setswitchinterval(_SWITCH_SECONDS)
    config = uvicorn.Config(
        app,
        http=guarded(app.admission),
        h11_max_incomplete_event_size=2 * app.admission.limits.header_bytes,
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
    """Port 0 is any free one; `getsockname` returns which."""
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


class DrainingServer(uvicorn.Server):
    """On SIGTERM or SIGINT drains and returns from `run`; on a second one the process exits.

    Connections stay open while requests run, so that their clients can still read /health.
    """

    def __init__(
        self, config: uvicorn.Config, *, drain_seconds: float, draining: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._drain_seconds = drain_seconds
        self._draining = draining

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Unlike with uvicorn's they are not raised again at the end, which would end the process
        by a signal; and they stay installed while the rest of the program closes."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, self.handle_exit)
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            os._exit(0)  # everything important is on disk, as at any moment
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._draining()
        deadline = time.monotonic() + self._drain_seconds
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()
        if self.server_state.tasks:
            logger.info("draining; running requests: %d", len(self.server_state.tasks))
        await self._until(deadline, lambda: not self.server_state.tasks)
        for connection in list(self.server_state.connections):
            connection.shutdown()
        # A response may still be being sent to a slow client.
        await self._until(deadline, lambda: not self.server_state.connections)
        if self.server_state.connections or self.server_state.tasks:
            await self._cut_short()
        await self.lifespan.shutdown()

    async def _until(self, deadline: float, is_so: Callable[[], bool]) -> None:
        """Polls at least once more."""
        while not is_so():
            await asyncio.sleep(_POLL_SECONDS)
            if time.monotonic() >= deadline:
                return

    async def _cut_short(self) -> None:
        left = list(self.server_state.connections)
        seconds = self._drain_seconds
        logger.warning("stopped after %g s; busy connections: %d", seconds, len(left))
        # A thread that hangs in a store would prevent the process from exiting.
        backstop = threading.Timer(_LEAVE_SECONDS, os._exit, (0,))
        backstop.daemon = True
        backstop.start()
        for connection in left:
            connection.transport.abort()
        await self._until(time.monotonic(), lambda: not self.server_state.tasks)
        for task in list(self.server_state.tasks):
            task.cancel()
