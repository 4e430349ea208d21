"""The routes of TensorBoard below /ui/tensorboard/JOBS/, behind the same login as the page.

TensorBoard's own page shows one experiment, and calls it `defaultExperimentId`; here that is the
selection in the address.
"""

from collections.abc import Sequence
from functools import partial
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from trackside.jobs.jobs import Jobs
from trackside.page.answers import Workers, json_response
from trackside.page.call import Body
from trackside.page.problems import FromElsewhere, NotThere
from trackside.page.request_body import read_body
from trackside.page.tensorboard import TensorBoard
from trackside.texts.shown_names import shown_name

JOBS_MOST = 100
"""Their names are in the address."""
_DEFAULT = "experiment/defaultExperimentId/"
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; object-src 'none'; base-uri 'self'"
)
"""Where TensorBoard sends none of its own."""
_ALWAYS = "frame-ancestors 'self'; form-action 'self'"
_FONTS = b"(/font-roboto/"
"""As its page names them, without regard to the path at which it is."""


class TensorBoardRoutes:
    def __init__(self, jobs: Jobs, tensorboard: TensorBoard) -> None:
        self._jobs = jobs
        self._tensorboard = tensorboard

    async def open(self, body: Body, workers: Workers, base: str) -> Response:
        """Starts it; the path at which it shows these jobs."""
        names = body.names("jobs", most=JOBS_MOST)
        await workers.run(partial(self._check, names))
        await workers.run(self._tensorboard.start)
        selection = ",".join(map(shown_name, names))
        return json_response({"path": f"{base}tensorboard/{_quoted(selection)}/"})

    async def forward(self, request: Request, workers: Workers, base: str) -> Response:
        """TensorBoard changes nothing, so its own requests need no token of the session."""
        if request.method == "POST" and not _is_own(request):
            raise FromElsewhere("Only TensorBoard itself may ask so.")
        selection, slash, path = request.path_params["path"].partition("/")
        if not selection:
            raise NotThere("TensorBoard is for some jobs.", "Select them on the page.")
        if not slash:
            return RedirectResponse(f"{base}tensorboard/{_quoted(selection)}/", 307)
        asked = asked_path(selection, path)
        if query := request.url.query:
            asked = f"{asked}?{query}"
        headers = dict(request.headers)
        if not path:
            headers.pop("accept-encoding", None)
        found = await workers.run(
            partial(self._tensorboard.ask, request.method, asked, headers, await read_body(request))
        )
        policy = found.headers.get("content-security-policy") or _POLICY
        policy = f"{policy.rstrip('; ')}; {_ALWAYS}"
        body = found.body if path else found.body.replace(_FONTS, _FONTS.replace(b"/", b"", 1))
        return Response(body, found.status, {**found.headers, "content-security-policy": policy})

    def _check(self, names: Sequence[str]) -> None:
        """`JobNotFound` for one that there is not: TensorBoard would show an empty page."""
        for name in names:
            self._jobs.curve_places(name)


def asked_path(selection: str, path: str) -> str:
    """What TensorBoard is asked for. `NotThere` for another selection than that of the address."""
    rest = path.removeprefix(_DEFAULT)
    if rest.startswith("experiment/"):
        raise NotThere(f"TensorBoard shows {selection!r} here.")
    quoted = quote(unquote(rest), safe="/")
    if rest != path or rest.startswith("data/"):
        return f"experiment/{_quoted(selection)}/{quoted}"
    return quoted


def _quoted(selection: str) -> str:
    return quote(selection, safe=",")


def _is_own(request: Request) -> bool:
    """`check_origin` has compared them; a browser sends at least one of the two."""
    return "origin" in request.headers or "sec-fetch-site" in request.headers
