"""Signing in to a server's page, and TensorBoard behind it, as browsers do it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Response, expect

from tests.jobs.conftest import make_spec
from tests.page.conftest import Team, team_server
from tests.page.in_browser.chromium import WAIT_MS, tab
from tests.views.curves.conftest import stored_curves, write
from trackside.jobs.jobs import Jobs
from trackside.page.login_link import make_link
from trackside.records.rights import Rights

ELSEWHERE: dict[str, Any] = {"extra_http_headers": {"X-Forwarded-For": "203.0.113.7"}}
"""A browser of another machine, behind the server's proxy."""


@pytest.fixture
def team(jobs: Jobs) -> Iterator[Team]:
    jobs.submit(make_spec("one"))
    jobs.wait("one")
    write(stored_curves(jobs, "one"), {"loss": [(step, 1.0) for step in range(9)]}).close()
    with team_server(jobs) as team:
        yield team


@contextmanager
def elsewhere(chromium: Browser, url: str) -> Iterator[Page]:
    """A tab that may complain: a refused request is an error in its console."""
    context = chromium.new_context(**ELSEWHERE)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    page.goto(url)
    yield page
    context.close()


def test_a_link_signs_in_and_leads_to_the_job(chromium: Browser, team: Team):
    url = f"http://127.0.0.1:{team.port}"
    key, secret = team.keys.create("ann", Rights.SUBMIT)
    link = f"{make_link(url, key.id, secret, time.time())}?job=one"
    with tab(chromium, link, **ELSEWHERE) as watched:
        expect(watched.page.get_by_role("heading", name="one")).to_be_visible()
        assert watched.page.url.endswith("/ui/#/job/one")
        (cookie,) = watched.page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/ui/")
        watched.page.reload()
        expect(watched.page.get_by_text("ann").first).to_be_visible()
    with elsewhere(chromium, link) as page:
        expect(page.get_by_text("was used before")).to_be_visible()


def test_a_key_signs_in_and_out(chromium: Browser, team: Team):
    key, secret = team.keys.create("ann", Rights.READ)
    with elsewhere(chromium, f"http://127.0.0.1:{team.port}/") as page:
        page.get_by_label("Access key ID").fill(key.id)
        page.get_by_label("Secret").fill(secret)
        page.get_by_label("Secret").press("Enter")
        expect(page.get_by_role("link", name="one", exact=True)).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("Access key ID")).to_be_visible()
        page.reload()
        expect(page.get_by_label("Access key ID")).to_be_visible()


def test_tensorboard_draws_the_selection(chromium: Browser, team: Team):
    browser = team.logged_in("ann", Rights.READ)
    path = browser.post("/ui/api/tensorboard", {"jobs": ["one"]}).json["path"]
    key, secret = team.keys.create("ann", Rights.READ)
    url = f"http://127.0.0.1:{team.port}"
    with elsewhere(chromium, make_link(url, key.id, secret, time.time())) as page:
        expect(page.get_by_role("link", name="one", exact=True)).to_be_visible()
        failed: list[str] = []

        def heed(response: Response) -> None:
            if not response.ok:
                failed.append(response.url)

        page.on("response", heed)
        page.goto(f"{url}{path}")
        expect(page.get_by_text("loss").first).to_be_visible()
        expect(page.get_by_text("one", exact=True).first).to_be_visible()
        assert failed == []
