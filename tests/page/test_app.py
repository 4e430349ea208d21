"""The page's own files, its headers, and the form of its errors."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.page.conftest import Browser, serving
from trackside.jobs.jobs import Jobs
from trackside.page import static_files


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files as the build puts them."""
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(
        '<!doctype html><html><head><base href="./"><script src="assets/a-1.js"></script></head>'
    )
    (folder / "assets" / "a-1.js").write_text("let a = 1;")
    (folder / "assets" / "a-1.js.gz").write_bytes(gzip.compress(b"let a = 1;"))
    (folder / "icon.svg").write_text("<svg/>")
    (folder / "secret").write_text("no")
    monkeypatch.setattr(static_files, "FOLDER", folder)
    return folder


@pytest.fixture
def page(built: Path, jobs: Jobs) -> Iterator[Browser]:
    with serving(jobs) as browser:
        yield browser


def test_a_browser_is_led_to_the_page(page: Browser):
    for path in ("/", "/ui"):
        reply = page.get(path)
        assert (reply.status, reply.headers["location"]) == (307, "/ui/")


def test_the_page_names_its_own_path(page: Browser, jobs: Jobs):
    assert b'<base href="/ui/">' in page.get("/ui/").body
    assert b'<base href="/team/ui/">' in page.get("/ui/", X_Forwarded_Prefix="/team/").body
    hostile = page.get("/ui/", X_Forwarded_Prefix='/"><script>')
    assert b'<base href="/ui/">' in hostile.body
    with serving(jobs, path_prefix="/lab/x") as prefixed:
        for path in ("/ui/", "/lab/x/ui/"):
            assert b'<base href="/lab/x/ui/">' in prefixed.get(path).body
        assert prefixed.get("/lab/x/ui/api/jobs").json["total"] == 0


def test_assets_are_kept_for_ever_and_sent_packed(page: Browser):
    plain = page.get("/ui/assets/a-1.js")
    assert (plain.status, plain.body) == (200, b"let a = 1;")
    assert "immutable" in plain.headers["cache-control"]
    assert plain.headers["content-type"].startswith("text/javascript")
    packed = page.get("/ui/assets/a-1.js", Accept_Encoding="gzip, br")
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == b"let a = 1;"
    assert page.get("/ui/icon.svg").headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "path",
    ["assets/b.js", "secret", "../app.py", "%2e%2e/app.py", "assets/%2e%2e/secret", "assets//etc"],
)
def test_no_other_file_is_sent(page: Browser, path: str):
    assert page.get(f"/ui/{path}").code == "not_there"


def test_without_its_files_the_page_says_how_to_build_them(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(static_files, "FOLDER", tmp_path / "none")
    with serving(jobs) as browser:
        reply = browser.get("/ui/")
    assert reply.status == 503
    assert b"pip install ." in reply.body


def test_every_response_forbids_what_the_page_does_not_do(page: Browser):
    for path in ("/ui/", "/ui/assets/a-1.js", "/ui/api/session", "/ui/api/nothing"):
        headers = page.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    assert page.get("/ui/api/session").headers["cache-control"] == "no-store"


def test_errors_are_json_and_name_the_value(browser: Browser):
    assert browser.get("/ui/api/nothing").code == "not_there"
    for query, value in (("limit=x", "'x'"), ("limit=0", "0"), ("offset=-1", "-1")):
        reply = browser.get(f"/ui/api/jobs?{query}")
        assert (reply.status, reply.code) == (400, "bad_request")
        assert value in reply.json["error"]["message"]
