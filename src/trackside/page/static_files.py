"""The files that are built from web/: index.html, and assets with a hash in their names.

Where they are missing, a plain page says how to build them.
"""

import html
import re
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response

from trackside.page.path_prefix import is_prefix
from trackside.page.problems import NotThere

FOLDER = Path(__file__).parent / "static"
_FOR_EVER = "public, max-age=31536000, immutable"
_CHECKED = "no-cache"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_BASE = re.compile(r"<base\b[^>]*>", re.IGNORECASE)
_HEAD = re.compile(r"<head\b[^>]*>", re.IGNORECASE)
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
NOT_BUILT = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Trackside</title></head>
<body><h1>The page is not built</h1>
<p>This installation of Trackside has no files of the page: they are built from the folder
<code>web</code> of a clone. Run <code>pip install .</code> there, or <code>make page</code> for an
editable installation, and reload. The JSON API of the page works without them.</p>
</body></html>
"""


class StaticFiles:
    def __init__(self, *, path_prefix: str = "") -> None:
        """`path_prefix` is what a reverse proxy has before /ui."""
        self._folder = FOLDER
        self._prefix = path_prefix

    def base(self, request: Request) -> str:
        """The page's own path as browsers see it; a proxy names what it has before it in a
        header."""
        given = request.headers.get("x-forwarded-prefix", "").rstrip("/")
        return f"{given if is_prefix(given) else self._prefix}/ui/"

    def index(self, request: Request) -> Response:
        headers = {"cache-control": _CHECKED}
        try:
            text = (self._folder / "index.html").read_text("utf-8")
        except FileNotFoundError:
            return HTMLResponse(NOT_BUILT, 503, headers)
        return HTMLResponse(with_base(text, self.base(request)), headers=headers)

    def asset(self, request: Request, name: str) -> Response:
        path = self._folder / name
        kind = _TYPES.get(path.suffix)
        if kind is None or not _NAME.fullmatch(name) or not path.is_file():
            raise NotThere(f"No file of the page is called {name!r}.", "Reload the page.")
        headers = {
            "cache-control": _FOR_EVER if name.startswith("assets/") else _CHECKED,
            "vary": "accept-encoding",
        }
        packed = path.with_name(path.name + ".gz")
        if takes_gzip(request) and packed.is_file():
            return FileResponse(
                packed, media_type=kind, headers={**headers, "content-encoding": "gzip"}
            )
        return FileResponse(path, media_type=kind, headers=headers)


def takes_gzip(request: Request) -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")


def with_base(text: str, base: str) -> str:
    """Relative addresses in the page are below this path, whatever page is shown."""
    tag = f'<base href="{html.escape(base)}">'
    if _BASE.search(text):
        return _BASE.sub(lambda _: tag, text, count=1)
    return _HEAD.sub(lambda found: found[0] + tag, text, count=1)
