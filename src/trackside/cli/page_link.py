"""A link that logs a browser in to a server's page, once."""

import time
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from urllib.parse import quote

from trackside.errors import KeyRefused, ServerError
from trackside.page.login_link import make_link
from trackside.profiles import Server, no_key
from trackside.remote.connections import Connections
from trackside.remote.error_responses import unreachable

_SESSION = "/ui/api/session"


def page_link(server: Server, job: str = "") -> str:
    """`job` is shown first. `ServerError` for a server without the page."""
    if server.key is None:
        raise KeyRefused(no_key(server.url))
    link = make_link(server.url, server.key.id, server.key.secret, _time_at(server.url))
    return f"{link}?job={quote(job, safe='')}" if job else link


def _time_at(url: str) -> float:
    """By the server's clock, which judges the link."""
    connections = Connections(url)
    headers = {"host": connections.host, "accept": "application/json"}
    try:
        response = connections.send("GET", _SESSION, headers, b"")
    except (OSError, HTTPException) as error:
        raise unreachable(url, str(error) or type(error).__name__) from error
    if not response.headers.get("content-type", "").startswith("application/json"):
        raise ServerError(f"The server at {url} has no page: it is of an earlier version.")
    try:
        return parsedate_to_datetime(response.headers["date"]).timestamp()
    except (KeyError, ValueError):
        return time.time()
