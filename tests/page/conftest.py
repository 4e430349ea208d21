"""The page of a real server, asked over its socket."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from tests.job_processes import end_processes_of
from tests.jobs.conftest import ENVIRON, STAND_IN
from tests.wait import until
from trackside.api.keys import AccessKeys
from trackside.api.server import listen, make_server
from trackside.api.services import Services
from trackside.jobs.jobs import Jobs
from trackside.page import ui_address, ui_server
from trackside.records.layout import Home
from trackside.records.rights import Rights
from trackside.settings import Settings


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Of an error."""
        return str(self.json["error"]["code"])


@dataclass
class Browser:
    """Keeps a cookie and the CSRF token, as the page's script does."""

    port: int
    headers: dict[str, str] = field(default_factory=dict)
    cookie: str = ""
    csrf: str = ""

    def get(self, path: str, **headers: str) -> Reply:
        return self.ask("GET", path, headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Reply:
        """To the API; as a script of the page would."""
        own = {"content-type": "application/json", "x-trackside-csrf": self.csrf}
        own["origin"] = f"http://{self.headers.get('host', f'127.0.0.1:{self.port}')}"
        data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        return self.ask("POST", path, {**own, **headers}, data)

    def ask(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> Reply:
        sent = {**self.headers, **headers}
        sent = {name.replace("_", "-"): value for name, value in sent.items()}
        if self.cookie:
            sent["cookie"] = self.cookie
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body or None, sent)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            reply = Reply(response.status, found, response.read())
        finally:
            connection.close()
        if "set-cookie" in reply.headers:
            self.cookie = reply.headers["set-cookie"].partition(";")[0]
        return reply

    def open_session(self) -> Reply:
        reply = self.get("/ui/api/session")
        if reply.status == 200:
            self.csrf = reply.json["csrf"]
        return reply


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    monkeypatch.setenv("TRACKSIDE_S3", "embedded")
    settings = Settings.load({"TRACKSIDE_HOME": str(tmp_path / "home; echo 'x'")})
    yield settings
    end_processes_of(settings.home)


@pytest.fixture
def jobs(settings: Settings) -> Jobs:
    """With stand-ins for supervisors."""
    environ = {**ENVIRON, "TRACKSIDE_S3": "embedded"}
    return Jobs(settings, environ, supervisor_command=STAND_IN)


@pytest.fixture
def browser(jobs: Jobs) -> Iterator[Browser]:
    """At the page of `trackside ui`, with its session open."""
    with serving(jobs) as browser:
        assert browser.open_session().status == 200
        yield browser


@dataclass
class Team:
    """A server with access keys; browsers of other machines, as its proxy shows them."""

    port: int
    keys: AccessKeys
    home: Home

    def browser(self) -> Browser:
        """Of somebody who has to log in."""
        return Browser(self.port, {"host": "train.example.org", "x-forwarded-for": "203.0.113.7"})

    def logged_in(self, label: str, rights: Rights) -> Browser:
        key, secret = self.keys.create(label, rights)
        browser = self.browser()
        reply = browser.post("/ui/api/login", {"key_id": key.id, "secret": secret})
        assert reply.status == 200, reply.body
        browser.csrf = reply.json["csrf"]
        return browser


@pytest.fixture
def team(jobs: Jobs) -> Iterator[Team]:
    with team_server(jobs) as team:
        yield team


@contextmanager
def team_server(jobs: Jobs, settings: Settings | None = None) -> Iterator[Team]:
    """Everything that `trackside server` answers."""
    keys = AccessKeys(jobs.settings.layout.server.root)
    with Services(settings or jobs.settings, keys, {}, jobs=jobs) as services:
        # Whatever stays open for longer than a test waits is noticed.
        server = make_server(services.app, drain_seconds=3600)
        with running(server, listen("127.0.0.1", 0)) as port:
            yield Team(port, keys, jobs.settings.layout)


@contextmanager
def serving(jobs: Jobs, **options: Any) -> Iterator[Browser]:
    listener = ui_address.bound("127.0.0.1", 0)
    server = ui_server.make_server(jobs, **options)
    with running(server, listener) as port:
        yield Browser(port)


@contextmanager
def running(server: uvicorn.Server, listener: Any) -> Iterator[int]:
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    until(lambda: server.started)
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join(60)
    assert not thread.is_alive()
