"""Who gets in: this machine's user, access keys, one-time links; sessions; other sites."""

import base64
import http.client
import logging
import re
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.other_users import FIRST, needs_other_users, python_for_all
from tests.page.conftest import Browser, Team, team_server
from tests.wait import until
from trackside.jobs.jobs import Jobs
from trackside.page import peer
from trackside.page.login_limit import MOST_OF_CLIENT
from trackside.page.login_link import VALID_SECONDS, make_link, read_link
from trackside.page.sessions import Sessions
from trackside.records.rights import Rights
from trackside.settings import Settings

TYPED = {"Sec_Fetch_Site": "none"}
"""A browser's word that a person has opened the address; sent over https and to this machine."""


def link_path(key_id: str, secret: str, moment: float | None = None) -> str:
    return make_link("", key_id, secret, time.time() if moment is None else moment)


def test_the_user_of_this_machine_does_not_log_in(browser: Browser):
    session = browser.get("/ui/api/session").json
    assert session["rights"] == "admin"
    assert session["user"].startswith("local:")
    assert session["is_server"] is False
    assert not browser.cookie


def test_at_a_server_on_this_machine_its_user_is_admin(team: Team):
    session = Browser(team.port).open_session().json
    assert (session["rights"], session["is_server"]) == ("admin", True)


@pytest.mark.parametrize("host", ["evil.example.org", "127.0.0.1.evil.org:80", "", "10.0.0.1"])
def test_a_name_that_was_pointed_at_this_machine_is_refused(browser: Browser, host: str):
    reply = browser.get("/ui/api/jobs", Host=host)
    assert (reply.status, reply.code) == (403, "from_elsewhere")


def test_requests_through_a_proxy_are_not_those_of_this_machines_user(browser: Browser):
    assert browser.get("/ui/api/jobs", X_Forwarded_For="10.0.0.7").code == "not_allowed"


def test_everybody_may_have_to_log_in(jobs: Jobs, settings: Settings):
    with team_server(jobs, replace(settings, page_login="always")) as team:
        own = Browser(team.port)
        assert own.open_session().code == "login_needed"
        key, secret = team.keys.create("ann", Rights.SUBMIT)
        assert own.post("/ui/api/login", {"key_id": key.id, "secret": secret}).status == 200
        assert own.open_session().json["user"] == "ann"


@pytest.mark.parametrize(
    ("header", "status", "said"),
    [("Via", 401, "has to log in"), ("X_Forwarded_Proto", 200, "is taken for this machine's user")],
)
def test_a_proxy_that_replaces_the_host_is_reported_once(
    team: Team, caplog: pytest.LogCaptureFixture, header: str, status: int, said: str
):
    with caplog.at_level(logging.WARNING, "trackside.page"):
        for _ in range(2):
            assert Browser(team.port).get("/ui/api/jobs", **{header: "http"}).status == status
    [warning] = [each.getMessage() for each in caplog.records if "proxy" in each.getMessage()]
    assert said in warning
    assert "--page-login always" in warning


def test_another_user_of_this_machine_is_refused(
    browser: Browser, team: Team, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(peer, "uid_of", lambda *ends: 12345)
    assert browser.get("/ui/api/jobs").code == "not_allowed"
    assert Browser(team.port).get("/ui/api/jobs").code == "login_needed"


@needs_other_users
def test_a_process_of_another_user_is_refused(browser: Browser):
    code = (
        "import sys, urllib.request, urllib.error\n"
        "try: print(urllib.request.urlopen(sys.argv[1]).status)\n"
        "except urllib.error.HTTPError as error: print(error.code, error.read().decode())"
    )
    url = f"http://127.0.0.1:{browser.port}/ui/api/session"
    command = [python_for_all(), "-c", code, url]
    output = subprocess.run(command, user=FIRST, group=FIRST, capture_output=True, text=True)
    assert output.stdout.startswith("403 "), output.stderr
    assert "not_allowed" in output.stdout
    assert subprocess.run(command, capture_output=True, text=True).stdout == "200\n"


def test_the_user_of_a_connection_is_known_on_linux(browser: Browser):
    listener = ("127.0.0.1", browser.port)
    connection = http.client.HTTPConnection(*listener)
    connection.connect()
    own = connection.sock.getsockname()
    assert peer.uid_of(own, listener) == Path("/proc/self").stat().st_uid
    assert peer.uid_of((own[0], own[1]), ("127.0.0.1", 1)) is None
    connection.close()


def test_addresses_of_both_families_are_found(tmp_path: Path):
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
    row = "   0: {} {} 01 00000000:00000000 00:00000000 00000000  {} 0 9 1 0\n"
    four = row.format("0100007F:9C40", "0100007F:1B5F", 1001)
    six = row.format(
        "0000000000000000FFFF00000100007F:9C41", "0000000000000000FFFF00000100007F:1B5F", 1002
    )
    loop = row.format(
        "00000000000000000000000001000000:9C42", "00000000000000000000000001000000:1B5F", 1003
    )
    (tmp_path / "tcp").write_text(head + four + "   1: broken\n")
    (tmp_path / "tcp6").write_text(head + six + loop)
    own = ("127.0.0.1", 7007)
    assert peer.uid_of(("127.0.0.1", 40000), own, tmp_path) == 1001
    assert peer.uid_of(("::ffff:127.0.0.1", 40001), own, tmp_path) == 1002
    assert peer.uid_of(("::1", 40002), ("::1", 7007), tmp_path) == 1003
    assert peer.uid_of(("127.0.0.1", 40003), own, tmp_path) is None
    assert peer.uid_of(("127.0.0.1", 40000), own, tmp_path / "none") is None


def test_others_log_in_with_a_key_and_out_again(team: Team):
    browser = team.browser()
    reply = browser.open_session()
    assert (reply.status, reply.code) == (401, "login_needed")
    browser = team.logged_in("ann", Rights.SUBMIT)
    session = browser.open_session().json
    assert (session["user"], session["rights"]) == ("ann", "submit")
    assert browser.get("/ui/api/jobs").status == 200
    assert browser.post("/ui/api/logout").status == 200
    assert browser.get("/ui/api/jobs").code == "login_needed"


def test_the_cookie_is_for_this_page_alone(team: Team):
    key, secret = team.keys.create("ann", Rights.READ)
    given = {"key_id": key.id, "secret": secret}
    cookie = team.browser().post("/ui/api/login", given).headers["set-cookie"]
    for part in ("HttpOnly", "SameSite=strict", "Path=/ui/"):
        assert part in cookie
    assert "Secure" not in cookie
    forwarded = {"X_Forwarded_Proto": "https", "X_Forwarded_Prefix": "/team"}
    cookie = team.browser().post("/ui/api/login", given, **forwarded).headers["set-cookie"]
    assert "Secure" in cookie
    assert "Path=/team/ui/" in cookie


def test_wrong_keys_are_refused_limited_and_logged_without_secrets(
    team: Team, caplog: pytest.LogCaptureFixture
):
    key, secret = team.keys.create("ann", Rights.READ)
    browser = team.browser()
    with caplog.at_level(logging.INFO, "trackside.page"):
        for _ in range(MOST_OF_CLIENT):
            wrong = browser.post("/ui/api/login", {"key_id": key.id, "secret": "hush-hush"})
            assert wrong.code == "login_refused"
        refused = browser.post("/ui/api/login", {"key_id": key.id, "secret": secret})
        assert (refused.status, refused.code) == (429, "too_many_logins")
        other = Browser(team.port, {**browser.headers, "x-forwarded-for": "203.0.113.8"})
        assert other.post("/ui/api/login", {"key_id": key.id, "secret": secret}).status == 200
    assert "203.0.113.7" in caplog.text
    assert "hush-hush" not in caplog.text
    assert secret not in caplog.text


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"key_id": "TSK"},
        {"key_id": "TSK", "secret": 1},
        {"key_id": "TSK", "secret": "\ud83d"},
        {"key_id": "TSK", "secret": "x" * 300},
    ],
)
def test_logins_of_another_form_are_refused(team: Team, body: dict[str, Any]):
    assert team.browser().post("/ui/api/login", body).code == "bad_request"
    large = {"key_id": "TSK", "secret": "x" * 10_000}
    assert team.browser().post("/ui/api/login", large).code == "too_large"


def test_programs_give_their_key_with_each_request(team: Team):
    key, secret = team.keys.create("ci", Rights.READ)
    right = base64.b64encode(f"{key.id}:{secret}".encode()).decode()
    program = Browser(team.port, {**team.browser().headers, "authorization": f"Basic {right}"})
    assert program.open_session().json["user"] == "ci"
    assert program.get("/ui/api/jobs").status == 200
    wrong = base64.b64encode(f"{key.id}:x".encode()).decode()
    assert program.get("/ui/api/jobs", authorization=f"Basic {wrong}").code == "login_refused"
    assert program.get("/ui/api/jobs", authorization="Basic !").code == "login_refused"


def test_a_link_logs_in_once(team: Team):
    key, secret = team.keys.create("ann", Rights.SUBMIT)
    path = link_path(key.id, secret)
    for unused in ({"Sec_Fetch_Site": "cross-site"}, {"Sec_Purpose": "prefetch"}):
        team.browser().get(path, **unused)
    browser = team.browser()
    reply = browser.get(f"{path}?job=bert-77", **TYPED)
    assert reply.status == 200
    assert b'content="0; url=/ui/#/job/bert-77"' in reply.body
    assert "script" not in reply.body.decode()
    assert browser.open_session().json["user"] == "ann"
    again = team.browser().get(path, **TYPED)
    assert again.status == 403
    assert b"used before" in again.body


def test_over_plain_http_a_person_confirms_whose_link_it_is(team: Team):
    """Browsers do not say there whether another site has opened it."""
    key, secret = team.keys.create("<mallory>", Rights.SUBMIT)
    path = link_path(key.id, secret)
    browser = team.browser()
    asked = browser.get(path)
    assert (asked.status, browser.cookie) == (200, "")
    assert b"as &#x27;&lt;mallory&gt;&#x27;" in asked.body
    assert asked.headers["referrer-policy"] == "same-origin"
    for origin in ({}, {"origin": "null"}, {"origin": "http://evil.example.org"}):
        assert browser.ask("POST", path, origin).code == "from_elsewhere"
    assert not browser.cookie
    own = {"origin": "http://train.example.org"}
    assert b"You are logged in" in browser.ask("POST", path, own).body
    assert browser.open_session().json["user"] == "<mallory>"
    assert b"used before" in team.browser().ask("POST", path, own).body


def test_links_that_are_old_forged_or_of_another_key_are_refused(team: Team):
    key, secret = team.keys.create("ann", Rights.SUBMIT)
    now = time.time()
    old = link_path(key.id, secret, now - VALID_SECONDS - 10)
    forged = link_path(key.id, secret + "x")
    unknown = link_path("TSNOBODY", secret)
    far = link_path(key.id, secret, now + 86400)
    for path in (old, forged, unknown, far, "/ui/login/x", "/ui/login/%FF"):
        assert team.browser().get(path).status == 403, path


def test_a_link_is_read_back_and_no_other_text_is():
    link = make_link("https://a", "TSK", "secret", 1000.0)
    token = link.removeprefix("https://a/ui/login/")
    found = read_link(token, lambda key: "secret", 1000.0)
    assert found is not None
    assert (found.key_id, found.expires) == ("TSK", 1000 + VALID_SECONDS)
    assert "secret" not in link
    assert read_link(token, lambda key: None, 1000.0) is None
    assert read_link(token[:-2], lambda key: "secret", 1000.0) is None
    assert read_link("A" * 10_000, lambda key: "secret", 1000.0) is None


def test_the_secret_of_a_link_is_not_in_the_access_log(
    team: Team, caplog: pytest.LogCaptureFixture
):
    key, secret = team.keys.create("ann", Rights.READ)
    path = link_path(key.id, secret)
    with caplog.at_level(logging.INFO, "trackside.access"):
        team.browser().get(path)
    assert path.rpartition("/")[2] not in caplog.text


def test_a_session_ends_with_its_key(team: Team):
    key, secret = team.keys.create("ann", Rights.READ)
    browser = team.browser()
    assert browser.post("/ui/api/login", {"key_id": key.id, "secret": secret}).status == 200
    assert browser.get("/ui/api/jobs").status == 200
    team.keys.rotate(key.id, overlap_seconds=-1)
    assert browser.get("/ui/api/jobs").code == "login_needed"


def test_a_restart_of_the_server_logs_nobody_out_and_keeps_links_used(jobs: Jobs):
    with team_server(jobs) as team:
        key, secret = team.keys.create("ann", Rights.READ)
        path = link_path(key.id, secret)
        browser = team.browser()
        assert browser.get(path, **TYPED).status == 200
    with team_server(jobs) as team:
        again = Browser(team.port, browser.headers, browser.cookie)
        assert again.open_session().json["user"] == "ann"
        assert team.browser().get(path, **TYPED).status == 403
        stored = team.home.server.page_sessions.read_text()
        assert browser.cookie.partition("=")[2] not in stored


def test_idle_sessions_end_and_a_damaged_file_only_logs_out(tmp_path: Path):
    now = [1000.0]
    path = tmp_path / "sessions.json"
    sessions = Sessions(path, lambda: now[0], idle_seconds=100)
    named = sessions.create("TSK")
    now[0] += 90
    assert sessions.find(named) is not None
    now[0] += 90  # since the last request
    assert sessions.find(named) is not None
    now[0] += 101
    assert sessions.find(named) is None
    named = sessions.create("TSK")
    assert Sessions(path, lambda: now[0]).find(named) is not None
    for damage in ("{", '{"sessions": [1, {"digest": 2}], "used": 3}', "[]"):
        path.write_text(damage)
        assert Sessions(path, lambda: now[0]).find(named) is None


def test_changes_need_the_token_of_the_session(browser: Browser, team: Team):
    for caller in (browser, team.logged_in("ann", Rights.ADMIN)):
        for token in ("", "0" * 64):
            reply = caller.post("/ui/api/series", {}, x_trackside_csrf=token)
            assert (reply.status, reply.code) == (403, "stale_page")


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example.org"},
        {"origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_other_sites_may_neither_change_nor_read_nor_log_in(
    browser: Browser, team: Team, headers: dict[str, str]
):
    key, secret = team.keys.create("mallory", Rights.ADMIN)
    given = {"key_id": key.id, "secret": secret}
    refused = team.browser().post("/ui/api/login", given, **headers)
    assert (refused.code, "set-cookie" in refused.headers) == ("from_elsewhere", False)
    for caller in (browser, team.logged_in("ann", Rights.ADMIN)):
        assert caller.post("/ui/api/series", {}, **headers).code == "from_elsewhere"
        assert caller.get("/ui/api/jobs", **headers).code == "from_elsewhere"
        assert caller.get("/ui/api/live?jobs=1", **headers).code == "from_elsewhere"


def test_bodies_are_json_objects_of_a_bounded_size(browser: Browser):
    form = browser.post("/ui/api/series", b"a=1", content_type="text/plain")
    assert form.code == "bad_request"
    for body in (b"{", b"[]", b"1", b"[" * 100_000):
        assert browser.post("/ui/api/series", body).code == "bad_request"
    large = browser.post("/ui/api/series", b'{"a": "' + b"x" * (5 << 20) + b'"}')
    assert (large.status, large.code) == (413, "too_large")


def test_signed_requests_are_for_buckets_whatever_the_page_is_called(jobs: Jobs):
    settings = replace(jobs.settings, path_prefix="/team-1")
    with team_server(jobs, settings) as team:
        key, secret = team.keys.create("ann", Rights.ADMIN)
        client = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{team.port}",
            region_name="us-east-1",
            aws_access_key_id=key.id,
            aws_secret_access_key=secret,
        )
        client.create_bucket(Bucket="team-1")
        client.put_object(Bucket="team-1", Key="ui/api/session", Body=b"mine")
        found = client.get_object(Bucket="team-1", Key="ui/api/session")["Body"].read()
        assert found == b"mine"
        assert [each["Name"] for each in client.list_buckets()["Buckets"]] == ["team-1"]
        with pytest.raises(client.exceptions.ClientError, match="InvalidBucketName"):
            client.get_object(Bucket="ui", Key="api/session")
        assert Browser(team.port).get("/team-1/ui/api/session").json["is_server"] is True


def test_browsers_are_led_to_the_page_and_other_clients_are_not(team: Team):
    browser = team.browser()
    reply = browser.get("/", accept="text/html,*/*")
    assert (reply.status, reply.headers["location"]) == (307, "/ui/")
    other = browser.get("/", accept="*/*")
    assert other.status == 403
    assert re.search(rb"<Code>\w+</Code>", other.body)


def test_people_are_named_in_the_access_log_and_keep_their_connections(
    team: Team, caplog: pytest.LogCaptureFixture
):
    browser = team.logged_in("ann", Rights.READ)
    (key,) = [each for each in team.keys.all() if each.label == "ann"]
    with caplog.at_level(logging.INFO, "trackside.access"):
        assert browser.get("/ui/api/jobs").status == 200
        until(lambda: f"key={key.id}" in caplog.text)
        assert team.browser().get("/ui/api/jobs").status == 401
        until(lambda: "GET /ui/api/jobs - 401" in caplog.text)
    assert re.search(r"GET /ui/api/jobs - 401 .* key=- ", caplog.text)
