"""The page as one Starlette application, to be mounted at /ui: its files, its JSON API, login."""

import asyncio
import html
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from threading import Event
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

import trackside
from trackside.errors import MissingExtra, TensorBoardFailed, TracksideError
from trackside.jobs.jobs import Jobs
from trackside.page.access import Access
from trackside.page.answers import Workers, json_response, prepared, response_of
from trackside.page.call import Api, Body, Call, Query
from trackside.page.content import Content
from trackside.page.gate import (
    SAME_SITE,
    Gate,
    Visitor,
    check_origin,
    cookie_name,
    is_secure,
)
from trackside.page.live import LiveStreams
from trackside.page.problems import (
    NotAllowed,
    NotThere,
    PageError,
    as_json,
    status_of,
)
from trackside.page.request_body import LOGIN_MOST_BYTES, read_json
from trackside.page.security_headers import SecurityHeaders
from trackside.page.sessions import Sessions
from trackside.page.static_files import StaticFiles, takes_gzip
from trackside.page.tensorboard import TensorBoard, is_installed
from trackside.page.tensorboard_routes import TensorBoardRoutes
from trackside.system.fair_pool import FairPool

logger = logging.getLogger(__name__)

_SESSION_SECONDS = 400 * 86400
"""How long browsers keep the cookie; the server forgets idle sessions sooner."""

_NO_RESPONSE = 499
"""The status of a request whose client has gone."""
_LOOK = "The log of the server says where."

Endpoint = Callable[[Request], Awaitable[Response]]


class Page:
    def __init__(
        self,
        jobs: Jobs,
        access: Access,
        *,
        sessions: Sessions | None = None,
        path_prefix: str = "",
        is_login_always: bool = False,
        is_ending: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_ending` says when live updates must end, so that a server can."""
        self._access = access
        self.path_prefix = path_prefix
        self._gate = Gate(access, sessions, is_login_always=is_login_always)
        self.files = StaticFiles(path_prefix=path_prefix)
        self._quick = FairPool("page", threads=16, per_caller=8, waiting_per_caller=256)
        self._heavy = FairPool("page-heavy", threads=4, per_caller=2, waiting_per_caller=64)
        self._boards = FairPool("board", threads=8, per_caller=6, waiting_per_caller=64)
        """For requests to TensorBoard, which wait while it starts."""
        self._content = Content(jobs, access)
        self._streams = LiveStreams(is_ending)
        self._tensorboard_process = TensorBoard(jobs.settings)
        self._tensorboards = TensorBoardRoutes(jobs, self._tensorboard_process)
        self.api = [*self._content.routes()]
        self.app = Starlette(
            routes=[*self._routes()],
            middleware=[Middleware(SecurityHeaders)],
            exception_handlers={404: _no_route, 405: _no_route},
        )

    def close(self) -> None:
        self._quick.close()
        self._heavy.close()
        self._boards.close()
        self._streams.close()
        self._content.close()
        self._tensorboard_process.close()

    def _routes(self) -> Iterator[BaseRoute]:
        yield _route("/api/session", self._session)
        yield _route("/api/login", self._log_in, "POST")
        yield _route("/api/logout", self._log_out, "POST")
        yield _route("/api/live", self._live)
        yield _route("/login/{token}", self._open_link)
        yield _route("/login/{token}", self._confirm_link, "POST")
        for each in self.api:
            yield _route(f"/api/{each.path}", partial(self._answer, each), each.method)
        yield _route("/api/tensorboard", self._open_tensorboard, "POST")
        yield _route("/tensorboard", self._lead_to_tensorboard)
        yield _route("/tensorboard/{path:path}", self._tensorboard, "GET", "POST")
        yield _route("/api/{rest:path}", self._unknown, "GET", "POST")
        yield _route("/{path:path}", self._file)

    async def _session(self, request: Request) -> Response:
        check_origin(request)
        return json_response(self._shown(await self._gate.visitor(request)))

    async def _log_in(self, request: Request) -> Response:
        check_origin(request)
        body = Body(await read_json(request, LOGIN_MOST_BYTES))
        key_id, secret = body.text("key_id", most=256), body.text("secret", most=256)
        visitor, session = await asyncio.to_thread(self._gate.log_in, request, key_id, secret)
        return self._with_cookie(json_response(self._shown(visitor)), request, session)

    async def _open_link(self, request: Request) -> Response:
        """Over plain http browsers do not say whether a person or another site has opened a link,
        which may be that of somebody else's key: then a person confirms whose it is."""
        site = request.headers.get("sec-fetch-site")
        if site not in (None, *SAME_SITE):
            return _small_page("Copy the link to the browser's address bar to log in.", 403)
        if request.method == "HEAD" or "sec-purpose" in request.headers:
            return Response(status_code=204)
        if site is not None:
            return await self._log_in_by_link(request)
        try:
            token = request.path_params["token"]
            person = await asyncio.to_thread(self._gate.person_of_link, request, token)
        except PageError as error:
            return _small_page(f"{error.message} {error.advice}", error.status)
        form = '<form method="post"><button autofocus>Log in</button></form>'
        page = _small_page(f"This link logs you in as {person.name!r}.", 200, more=form)
        page.headers["referrer-policy"] = "same-origin"  # else the form's Origin is "null"
        return page

    async def _confirm_link(self, request: Request) -> Response:
        check_origin(request, must_be_named=True)
        return await self._log_in_by_link(request)

    async def _log_in_by_link(self, request: Request) -> Response:
        """Then leads to the page by a navigation of its own, with which browsers send the
        cookie."""
        job = request.query_params.get("job", "")
        base = html.escape(self.files.base(request) + (f"#/job/{quote(job, '')}" if job else ""))
        try:
            token = request.path_params["token"]
            _, session = await asyncio.to_thread(self._gate.log_in_by_link, request, token)
        except PageError as error:
            return _small_page(f"{error.message} {error.advice}", error.status)
        refresh = f'<meta http-equiv="refresh" content="0; url={base}">'
        more = f'<p><a href="{base}">Go on</a></p>'
        response = _small_page("You are logged in.", 200, refresh, more)
        return self._with_cookie(response, request, session)

    async def _log_out(self, request: Request) -> Response:
        visitor = await self._gate.visitor(request)
        self._gate.check_change(request, visitor)
        await asyncio.to_thread(self._gate.log_out, visitor)
        response = json_response({})
        response.delete_cookie(cookie_name(request), path=self.files.base(request))
        return response

    async def _answer(self, route: Api, request: Request) -> Response:
        check_origin(request)
        visitor = await self._gate.visitor(request)
        body: Mapping[str, Any] = {}
        if route.method == "POST":
            self._gate.check_change(request, visitor)
            body = await read_json(request)
        person = visitor.person
        if not person.rights.allow(route.needs):
            raise NotAllowed(
                f"Your key may {person.rights}; this needs one that may {route.needs}.",
                "Log in with another key.",
            )
        query = Query(request.query_params)
        call = Call(person, self._access, request.path_params, query, Body(body), Event())
        pool = self._heavy if route.is_heavy else self._quick
        workers = Workers(pool, person.name, call.stop)
        takes = takes_gzip(request)
        answer = await workers.unless_gone(request, lambda: prepared(route.run(call), takes))
        return response_of(answer, workers)

    async def _live(self, request: Request) -> Response:
        check_origin(request)
        visitor = await self._gate.visitor(request)
        query = Query(request.query_params)
        caller = visitor.session or visitor.person.name
        make = partial(self._content.feeds, visitor.person, query)
        return await self._streams.open(caller, make, partial(self._gate.is_valid, visitor))

    async def _open_tensorboard(self, request: Request) -> Response:
        check_origin(request)
        visitor = await self._gate.visitor(request)
        self._gate.check_change(request, visitor)
        workers = Workers(self._boards, visitor.person.name, Event())
        body = Body(await read_json(request))
        return await self._tensorboards.open(body, workers, self.files.base(request))

    async def _lead_to_tensorboard(self, request: Request) -> Response:
        return RedirectResponse(f"{self.files.base(request)}tensorboard/", 307)

    async def _tensorboard(self, request: Request) -> Response:
        check_origin(request)
        visitor = await self._gate.visitor(request)
        workers = Workers(self._boards, visitor.person.name, Event())
        try:
            return await self._tensorboards.forward(request, workers, self.files.base(request))
        except (MissingExtra, TensorBoardFailed) as error:
            return _small_page(error.message, status_of(error))

    async def _unknown(self, request: Request) -> Response:
        raise NotThere(f"The page's API has no {request.method} {request.path_params['rest']!r}.")

    async def _file(self, request: Request) -> Response:
        """Its own script finds out which part of the page is meant, from the fragment."""
        name = request.path_params["path"]
        return self.files.asset(request, name) if name else self.files.index(request)

    def _shown(self, visitor: Visitor) -> dict[str, Any]:
        return {
            "user": visitor.person.name,
            "rights": str(visitor.person.rights),
            "csrf": visitor.csrf,
            "version": trackside.__version__,
            "is_server": self._access.is_server,
            "tensorboard": is_installed(),
        }

    def _with_cookie(self, response: Response, request: Request, session: str) -> Response:
        response.set_cookie(
            cookie_name(request),
            session,
            max_age=_SESSION_SECONDS,
            path=self.files.base(request),
            secure=is_secure(request),
            httponly=True,
            samesite="strict",
        )
        return response


def _route(path: str, endpoint: Endpoint, *methods: str) -> Route:
    async def answered(request: Request) -> Response:
        """Every error becomes JSON."""
        try:
            return await endpoint(request)
        except TracksideError as error:
            status = status_of(error)
            if status == 500:
                logger.error("%s: %s", request.url.path, error, exc_info=error)
            return json_response(as_json(error), status)
        except ClientDisconnect:
            return Response(status_code=_NO_RESPONSE)
        except Exception:
            logger.exception("a request for %s broke the page", request.url.path)
            broken = {"code": "internal", "message": "The page broke.", "advice": _LOOK}
            return json_response({"error": broken}, 500)

    return Route(path, answered, methods=methods or ["GET"])


async def _no_route(request: Request, error: Exception) -> Response:
    missing = NotThere(f"The page has no {request.method} {request.url.path[:200]!r}.")
    return json_response(as_json(missing), missing.status)


def _small_page(text: str, status: int, head: str = "", more: str = "") -> HTMLResponse:
    """`text` is text; `head` and `more` are HTML."""
    return HTMLResponse(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Trackside</title>'
        '<link rel="icon" href="data:,">'  # else browsers ask for one
        f"{head}</head><body><p>{html.escape(text)}</p>{more}</body></html>",
        status,
    )
