"""`trackside ui` and `trackside login --browser`, as users run them."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import TRACKSIDE, Command
from tests.jobs.conftest import make_spec
from tests.server_process import ServerProcess
from tests.wait import until
from trackside.jobs.jobs import Jobs
from trackside.settings import Settings


@contextmanager
def opened(*arguments: str, **options: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """The process, and the address that it prints."""
    with subprocess.Popen(
        [*TRACKSIDE, "ui", "--no-open", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **options},
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            found = re.search(r"http://\S+", line)
            assert found, line
            yield process, found[0]
        finally:
            process.kill()


def fetched(url: str | urllib.request.Request) -> Any:
    with urllib.request.urlopen(url, timeout=60) as response:
        return json.loads(response.read())


def test_the_page_opens_on_this_machines_jobs_with_no_server_running(jobs: Jobs):
    jobs.submit(make_spec("one"))
    with opened("--port", "0", "on") as (process, url):
        assert url.endswith("/ui/#/job/one")
        found = fetched(f"{url.partition('#')[0]}api/jobs")
        assert [row["name"] for row in found["rows"]] == ["one"]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_a_real_job_is_run_again_with_changes(command: Command, tmp_path: Path):
    (tmp_path / "train.py").write_text("import sys; print('given', sys.argv[1:])")
    assert command("run", "train.py", "-p", "lr=0.1", "--name", "first", "--wait").returncode == 0
    with opened("--port", "0") as (_, url):
        token = fetched(f"{url}api/session")["csrf"]
        headers = {"content-type": "application/json", "x-trackside-csrf": token}
        body = json.dumps({"hyperparameters": {"lr": "0.7"}, "name": "second"}).encode()
        request = urllib.request.Request(f"{url}api/jobs/first/again", body, headers)
        assert fetched(request) == {"name": "second"}

        def row() -> Any:
            return fetched(f"{url}api/jobs/second")["row"]

        until(lambda: row()["status"] == "Completed")
        lines = fetched(f"{url}api/jobs/second/log")["lines"]
        assert "given ['--lr', '0.7']" in [line["text"] for line in lines]


def test_a_second_one_shows_the_first_ones_page(command: Command):
    with opened("--port", "0") as (process, url):
        second = command("ui", "--no-open")
        assert second.returncode == 0
        assert f"runs already at {url}" in second.stdout
        process.kill()  # nothing is left behind
        process.wait()
        with opened("--port", "0") as (_, third):
            assert fetched(f"{third}api/session")["rights"] == "admin"


def test_the_next_free_port_is_taken():
    with opened() as (_, first):
        other = os.environ["TRACKSIDE_HOME"] + " 2"
        with opened(TRACKSIDE_HOME=other) as (_, second):
            assert first != second
            for url in (first, second):
                assert fetched(f"{url}api/session")["is_server"] is False


def test_an_address_that_others_reach_is_refused(command: Command):
    refused = command("ui", "--host", "0.0.0.0", "--no-open")
    assert refused.returncode == 2
    assert "trackside server" in refused.stderr
    wrong = command("ui", "--no-open", "--path-prefix", "no slash")
    assert wrong.returncode == 2
    assert "'no slash'" in wrong.stderr


def test_without_its_packages_it_says_what_to_install(command: Command, tmp_path: Path):
    (tmp_path / "hiding").mkdir()
    (tmp_path / "hiding" / "sitecustomize.py").write_text(
        "import importlib.util\n"
        "find = importlib.util.find_spec\n"
        "def without(name, *rest): return None if name == 'starlette' else find(name, *rest)\n"
        "importlib.util.find_spec = without\n"
    )
    path = f"{tmp_path / 'hiding'}{os.pathsep}{os.environ['PYTHONPATH']}"
    failed = command("ui", "--no-open", PYTHONPATH=path)
    assert failed.returncode == 2
    assert "pip install 'trackside[ui]'" in failed.stderr


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "server home") as server:
        yield server


def link_in(text: str) -> str:
    found = re.search(r"http://\S+/ui/login/\S+", text)
    assert found, text
    return found[0]


def test_a_configured_server_is_opened_by_a_link(
    command: Command, server: ServerProcess, monkeypatch: pytest.MonkeyPatch
):
    server.use(monkeypatch)
    assert server.secret not in (text := command("ui", "--no-open").stdout)
    logged_in = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    link = link_in(text)
    with logged_in.open(link, timeout=60) as response:
        assert b"logs you in as" in response.read()
    confirmed = urllib.request.Request(link, data=b"", headers={"Origin": server.url})
    with logged_in.open(confirmed, timeout=60) as response:
        assert b"You are logged in" in response.read()
    with logged_in.open(f"{server.url}/ui/api/session", timeout=60) as response:
        assert json.loads(response.read())["user"] == "tests"


def test_login_prints_a_link_for_the_present_server(
    command: Command, server: ServerProcess, monkeypatch: pytest.MonkeyPatch
):
    nothing = command("login", "--browser")
    assert nothing.returncode == 2
    assert "trackside ui" in nothing.stderr
    assert command("login").returncode == 2
    server.use(monkeypatch)
    stored = command("login", server.url, "--browser")
    assert stored.returncode == 0
    assert link_in(stored.stdout).startswith(server.url)
    for name in server.environment():
        monkeypatch.delenv(name)
    assert link_in(command("login", "--browser").stdout).startswith(server.url)
    (Settings.load().home / "profiles.json").unlink()
    own = command("login", "--browser", TRACKSIDE_HOME=str(server.home))
    assert link_in(own.stdout).startswith(server.url)


def test_a_server_without_the_page_is_named(command: Command):
    code = (
        "import http.server\n"
        "class Old(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self): self.send_response(403); self.end_headers()\n"
        "    def log_message(self, *unused): pass\n"
        "server = http.server.HTTPServer(('127.0.0.1', 0), Old)\n"
        "print(server.server_port, flush=True)\n"
        "server.serve_forever()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as old:
        assert old.stdout is not None
        url = f"http://127.0.0.1:{old.stdout.readline().strip()}"
        key = {"TRACKSIDE_ACCESS_KEY_ID": "a", "TRACKSIDE_SECRET_ACCESS_KEY": "b"}
        failed = command("ui", "--no-open", TRACKSIDE_URL=url, **key)
        old.kill()
    assert failed.returncode == 2
    assert "has no page" in failed.stderr


def test_the_server_prints_the_pages_address():
    with subprocess.Popen(
        [*TRACKSIDE, "server", "--listen", "127.0.0.1:0", "--path-prefix", "/lab/"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        url = lines[0].rpartition(" ")[2].strip()
        assert f"{url}/lab/ui/" in lines[1]
        until(lambda: fetched(f"{url}/lab/ui/api/session")["is_server"])
        process.terminate()
        assert process.wait(60) == 0
