"""The server of `trackside ui`: the page alone, on loopback, for the user who started it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from trackside.jobs.jobs import Jobs
from trackside.page.app import Page
from trackside.page.this_machine import ThisMachine

_END_SECONDS = 3
"""For open requests, after a signal to end."""


def make_server(jobs: Jobs, *, path_prefix: str = "") -> uvicorn.Server:
    """It ends at SIGINT or SIGTERM."""
    page = Page(
        jobs,
        ThisMachine(jobs),
        path_prefix=path_prefix,
        is_ending=lambda: server.should_exit,
    )

    async def home(request: Request) -> Response:
        return RedirectResponse(page.files.base(request), 307)

    routes: list[BaseRoute] = [Route("/", home)]
    for prefix in dict.fromkeys(["", path_prefix]):
        routes += [Route(f"{prefix}/ui", home), Mount(f"{prefix}/ui", page.app)]
    config = uvicorn.Config(
        Starlette(routes=routes, lifespan=_closing(page)),
        log_config=None,
        access_log=False,
        lifespan="on",
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_END_SECONDS,
    )
    server = uvicorn.Server(config)
    return server


def _closing(page: Page) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def live(app: Starlette) -> AsyncIterator[None]:
        yield
        page.close()

    return live
