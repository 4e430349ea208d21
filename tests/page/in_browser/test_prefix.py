"""The page behind a reverse proxy, below a path of it."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

from tests.page.in_browser.chromium import tab
from tests.page.in_browser.site import site_started

PREFIX = "/team/ml"
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding"}


@dataclass
class Proxy:
    """Hands over what is below the prefix, with or without it; nothing else is there."""

    target: int
    strips: bool
    outside: list[str] = field(default_factory=list)
    """Paths that were asked for and are not below the prefix."""
    port: int = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                proxy.answer(self)

            do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        if not handler.path.startswith(f"{PREFIX}/"):
            self.outside.append(handler.path)
            handler.send_error(404)
            return
        path = handler.path.removeprefix(PREFIX) if self.strips else handler.path
        body = handler.rfile.read(int(handler.headers.get("content-length", 0)))
        connection = http.client.HTTPConnection("127.0.0.1", self.target)
        try:
            connection.request(handler.command, path, body or None, dict(handler.headers))
            hand_over(connection.getresponse(), handler)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the browser has left
        finally:
            connection.close()


def hand_over(response: http.client.HTTPResponse, handler: BaseHTTPRequestHandler) -> None:
    """Each part as soon as it is there."""
    handler.send_response(response.status)
    for name, value in response.getheaders():
        if name.lower() not in _HOP_BY_HOP | {"server", "date"}:
            handler.send_header(name, value)
    handler.send_header("connection", "close")
    handler.end_headers()
    while part := response.read1(1 << 16):
        handler.wfile.write(part)
        handler.wfile.flush()


@pytest.mark.parametrize(
    "strips", [pytest.param(False, marks=pytest.mark.nightly), True], ids=["kept", "stripped"]
)
def test_the_page_works_below_a_path(chromium: Browser, tmp_path: Path, strips: bool):
    go = tmp_path / "go"
    with site_started(tmp_path, "--path-prefix", f"{PREFIX}/") as site:
        assert urlsplit(site.url).path == f"{PREFIX}/ui/"
        proxy = Proxy(urlsplit(site.url).port or 0, strips)
        site.train("live-1", "-p", "steps=20", "-p", f"wait-for={go}", wait=False)
        with proxy.running():
            url = f"http://127.0.0.1:{proxy.port}{PREFIX}/ui/"
            with tab(chromium, url) as watched:
                page = watched.page
                asked: list[str] = []
                page.on("request", lambda request: asked.append(urlsplit(request.url).path))
                page.get_by_role("link", name="live-1").click()
                expect(page.get_by_role("group", name="loss", exact=True).first).to_be_visible()
                page.get_by_role("tab", name="Logs").click()
                log = page.locator(".log-view")
                expect(log).to_contain_text("waiting at step 30")
                page.reload()
                expect(log).to_contain_text("waiting at step 50")
                go.touch()
                expect(page.locator("main")).to_contain_text("Completed")
                page.get_by_role("button", name="Note").click()
                page.get_by_label("Note", exact=True).fill("Through a proxy.")
                page.get_by_role("button", name="Save").click()
                expect(page.locator(".job-note")).to_have_text("Through a proxy.")
                assert f"{PREFIX}/ui/api/live" in asked
                assert [path for path in asked if not path.startswith(f"{PREFIX}/ui/")] == []
        assert proxy.outside == []
