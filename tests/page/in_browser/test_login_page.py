"""A team's server in a browser of another machine: logging in, and what each key may do."""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import program
from tests.page.in_browser.chromium import OPTIONS, Watched, tab
from tests.server_process import ServerProcess
from tests.views.many_jobs import ended_job
from trackside.api.keys import AccessKeys
from trackside.jobs.jobs import Jobs
from trackside.records.layout import Home
from trackside.records.rights import Rights
from trackside.settings import Settings

HOST = "train.example.org"
POST = """
async ([path, text, headers, mode]) => {
    const response = await fetch(path, {
        method: "POST", mode, body: JSON.stringify({ text }), credentials: "include", headers,
    });
    return [response.status, mode === "no-cors" ? null : await response.json()];
}
"""


@dataclass
class Team:
    server: ServerProcess
    browser: Browser
    """To it the server has another name than this machine's."""
    keys: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server.port}/ui/"

    def sign_in(self, page: Page, label: str) -> None:
        key_id, secret = self.keys[label]
        fill_in(page, key_id, secret)
        expect(page.locator(".user")).to_have_text(label)


@pytest.fixture(scope="module")
def team(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """With a job of each of two people, who may submit, and a reader."""
    home = Home(tmp_path_factory.mktemp("team") / "home")
    home.root.mkdir(mode=0o700)
    for name in ("ann", "bob"):
        ended_job(home, f"{name}-1", owner=name)
    settings = Settings.load({"TRACKSIDE_HOME": str(home.root), "TRACKSIDE_S3": "embedded"})
    Jobs(settings, {}).reindex()
    rules = "--host-resolver-rules=MAP *.example.org 127.0.0.1"
    browser = chromium.browser_type.launch(executable_path=program(), args=[*OPTIONS, rules])
    with ServerProcess(home.root) as server:
        team = Team(server, browser)
        keys = AccessKeys(home.server.root)
        for label, rights in {"ann": Rights.SUBMIT, "rita": Rights.READ}.items():
            key, secret = keys.create(label, rights)
            team.keys[label] = (key.id, secret)
        yield team
        browser.close()


def fill_in(page: Page, key_id: str, secret: str) -> None:
    page.get_by_label("Access key ID").fill(key_id)
    page.get_by_label("Secret").fill(secret)
    page.get_by_role("button", name="Sign in").click()


def forgive(watched: Watched, *statuses: int) -> None:
    """The browser itself reports responses that are no success, and a header that it heeds only
    over https."""
    wanted = [f"status of {status}" for status in statuses]
    wanted.append("Cross-Origin-Opener-Policy header has been ignored")
    watched.complaints[:] = [
        text for text in watched.complaints if not any(each in text for each in wanted)
    ]


def test_a_person_signs_in_and_out(team: Team):
    with tab(team.browser, team.url) as watched:
        page = watched.page
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        assert watched.violations() == []
        key_id, secret = team.keys["ann"]
        fill_in(page, key_id, secret[:-1] + "?")
        expect(page.get_by_role("alert")).to_be_visible()
        expect(page.get_by_role("link", name="ann-1")).to_have_count(0)
        team.sign_in(page, "ann")
        expect(page.get_by_role("link", name="bob-1")).to_be_visible()
        page.reload()
        expect(page.get_by_role("link", name="bob-1")).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        page.reload()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        expect(page.get_by_role("link", name="bob-1")).to_have_count(0)
        forgive(watched, 401, 403)


END = "fetch('api/logout', {method: 'POST', body: '{}', headers}).then((r) => r.status)"


def test_a_person_whose_session_ends_meanwhile_is_asked_to_sign_in(team: Team):
    with tab(team.browser, f"{team.url}#/job/ann-1") as watched:
        page = watched.page
        team.sign_in(page, "ann")
        expect(page.get_by_role("button", name="Run again…")).to_be_visible()
        headers = {"content-type": "application/json", "x-trackside-csrf": csrf_of(page)}
        assert page.evaluate(f"headers => {END}", headers) == 200
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        team.sign_in(page, "ann")
        expect(page.get_by_role("button", name="Run again…")).to_be_visible()
        forgive(watched, 401)


def test_a_link_signs_in_once(team: Team, tmp_path: Path):
    link = printed_link(team, "ann", tmp_path)
    with tab(team.browser, link) as watched:
        watched.page.get_by_role("button", name="Log in").click()
        expect(watched.page.locator(".user")).to_have_text("ann")
        assert watched.page.url.startswith(team.url)
        assert link.rpartition("/")[2] not in watched.page.url
        forgive(watched)
    with tab(team.browser, link) as watched:
        expect(watched.page.locator("body")).to_contain_text("was used before")
        expect(watched.page.get_by_role("link", name="ann-1")).to_have_count(0)
        forgive(watched, 401, 403)


def printed_link(team: Team, label: str, folder: Path) -> str:
    key_id, secret = team.keys[label]
    environ = {
        **team.server.environment(),
        "TRACKSIDE_ACCESS_KEY_ID": key_id,
        "TRACKSIDE_SECRET_ACCESS_KEY": secret,
        "TRACKSIDE_HOME": str(folder),
        "PYTHONPATH": ":".join(path for path in sys.path if path),
    }
    command = [sys.executable, "-m", "trackside.cli", "login", "--browser"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = re.search(r"http://\S+", done.stdout)
    assert found is not None
    return found[0].replace("127.0.0.1", HOST)


def test_a_reader_has_no_buttons_that_change_something(team: Team):
    with tab(team.browser, f"{team.url}#/job/ann-1") as watched:
        page = watched.page
        team.sign_in(page, "rita")
        tools = page.get_by_role("toolbar", name="Actions")
        expect(tools.get_by_role("button", name="Compare with…")).to_be_visible()
        for name in ("Tag", "Note", "Delete", "Stop", "Run again…"):
            expect(tools.get_by_role("button", name=name, exact=True)).to_have_count(0)
        forgive(watched, 401)


def test_one_who_submits_changes_only_own_jobs(team: Team):
    with tab(team.browser, f"{team.url}#/job/bob-1") as watched:
        page = watched.page
        team.sign_in(page, "ann")
        tools = page.get_by_role("toolbar", name="Actions")
        expect(tools.get_by_role("button", name="Run again…")).to_be_visible()
        for name in ("Tag", "Note", "Delete"):
            expect(tools.get_by_role("button", name=name, exact=True)).to_have_count(0)
        headers = {"content-type": "application/json", "x-trackside-csrf": csrf_of(page)}
        status, answer = page.evaluate(POST, ["api/jobs/bob-1/note", "mine", headers, "cors"])
        assert (status, answer["error"]["code"]) == (403, "not_allowed")
        page.goto(f"{team.url}#/job/ann-1")
        tools.get_by_role("button", name="Note").click()
        page.get_by_label("Note", exact=True).fill("Written by its owner.")
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".job-note")).to_have_text("Written by its owner.")
        forgive(watched, 401, 403)


def csrf_of(page: Page) -> str:
    return str(page.evaluate("fetch('api/session').then((r) => r.json()).then((s) => s.csrf)"))


@pytest.fixture
def evil_site(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "index.html").write_text("<p>You have won.</p>")
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://evil.example.org:{server.server_address[1]}"
        server.shutdown()
        thread.join()


FORM = """
([path, name, value]) => {
    const form = document.createElement("form");
    const input = document.createElement("input");
    Object.assign(form, { method: "post", action: path, enctype: "text/plain" });
    Object.assign(input, { name, value });
    form.append(input);
    document.body.append(form);
    form.submit();
}
"""
"""What needs no leave of the other site: its answer is shown, and its cookies are sent."""
NOTE = "fetch('api/jobs/ann-1').then((r) => r.json()).then((j) => j.row.note)"


def test_another_site_changes_nothing(team: Team, evil_site: str):
    """Neither with the cookie, which a host of the same domain makes the browser send, nor by a
    request that lacks the token."""
    with tab(team.browser, f"{team.url}#/job/ann-1") as watched:
        page = watched.page
        team.sign_in(page, "ann")
        path = f"{team.url}api/jobs/ann-1/note"
        plain = {"content-type": "application/json"}
        status, answer = page.evaluate(POST, [path, "no token", plain, "cors"])
        assert (status, answer["error"]["code"]) == (403, "stale_page")
        before = page.evaluate(NOTE)
        other = page.context.new_page()
        other.goto(evil_site)
        with other.expect_response(path) as refused:
            other.evaluate(FORM, [path, '{"text": "from elsewhere", "x": "', '"}'])
        sent = refused.value.request.all_headers()
        assert (sent["origin"], "cookie" in sent) == (evil_site, True)
        assert refused.value.json()["error"]["code"] == "from_elsewhere"
        assert page.evaluate(NOTE) == before
        forgive(watched, 401, 403)


def test_another_site_signs_nobody_in(team: Team, evil_site: str, tmp_path: Path):
    """With a key of its own, it would see what its victim runs there."""
    link = printed_link(team, "rita", tmp_path)
    key_id, secret = team.keys["rita"]
    login, given = f"{team.url}api/login", f'{{"key_id": "{key_id}", "secret": "{secret}", "x": "'
    context = team.browser.new_context()
    other = context.new_page()
    other.goto(evil_site)
    with other.expect_response(login) as refused:
        other.evaluate(FORM, [login, given, '"}'])
    assert refused.value.json()["error"]["code"] == "from_elsewhere"
    other.goto(evil_site)
    other.evaluate("url => fetch(url, { mode: 'no-cors' }).catch(() => null)", link)
    with other.expect_response(link):
        other.evaluate("url => { location = url }", link)
    assert context.cookies() == []
    expect(other.locator("body")).to_contain_text("logs you in as 'rita'")
    other.get_by_role("button", name="Log in").click()
    expect(other.locator(".user")).to_have_text("rita")
    context.close()
