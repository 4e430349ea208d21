"""A Chromium that Playwright drives, and what it complains about."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.browser import program

WAIT_MS = 60_000
"""The machine may stall; a page that never shows what is expected fails after this."""
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
AXE = Path(__file__).parents[3] / "web" / "node_modules" / "axe-core" / "axe.min.js"


@contextmanager
def chromium_started() -> Iterator[Browser]:
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program(), args=[*OPTIONS])
        yield browser
        browser.close()


@dataclass
class Watched:
    """A tab, and everything in it that must not happen."""

    page: Page
    origin: str
    complaints: list[str] = field(default_factory=list)
    num_bytes: int = 0

    def heed(self) -> None:
        self.page.set_default_timeout(WAIT_MS)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console: {message.text} ({message.location.get('url')})")

    def _request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if (
            parts.scheme not in ("data", "blob")
            and f"{parts.scheme}://{parts.netloc}" != self.origin
        ):
            self.complaints.append(f"leaves the origin: {request.url}")

    def violations(self) -> list[str]:
        """What axe-core says about accessibility, in words."""
        self.page.evaluate(AXE.read_text())
        found: dict[str, Any] = self.page.evaluate("axe.run(document)")
        return [
            f"{each['id']}: {each['help']}: {[node['html'][:200] for node in each['nodes'][:3]]}"
            for each in found["violations"]
        ]

    def is_too_wide(self) -> bool:
        """Whether the page scrolls sideways."""
        return bool(
            self.page.evaluate(
                "document.documentElement.scrollWidth > document.documentElement.clientWidth"
            )
        )


@contextmanager
def tab(browser: Browser, url: str, **options: Any) -> Iterator[Watched]:
    """At `url`; fails at the end if the page complained or asked another host for anything."""
    parts = urlsplit(url)
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    try:
        watched = Watched(context.new_page(), f"{parts.scheme}://{parts.netloc}")
        watched.heed()
        watched.page.goto(url)
        yield watched
        assert watched.complaints == [], watched.complaints
    finally:
        context.close()
