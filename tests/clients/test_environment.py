"""What a client's environment becomes, and what it becomes again."""

from pathlib import Path

import pytest

from trackside.clients.environment import BEFORE, SITE, Access, changes, restored

ACCESS = Access("http://127.0.0.1:7007", "TSKEY", "hush", "eu-central-1", Path("/x/config.yaml"))


def applied(environ: dict[str, str], change: dict[str, str | None]) -> dict[str, str]:
    merged = {**environ, **change}
    return {name: value for name, value in merged.items() if value is not None}


@pytest.mark.parametrize(
    "before",
    [
        {},
        {"PATH": "/bin", "PYTHONPATH": "/a:/b"},
        {
            "AWS_PROFILE": "work",
            "AWS_REGION": "us-west-2",
            "AWS_SESSION_TOKEN": "it's mine",
            "AWS_ENDPOINT_URL_S3": "http://minio:9000",
            "HTTP_PROXY": "http://proxy:3128",
            "NO_PROXY": "intranet",
        },
    ],
)
def test_undoing_leaves_what_was_there_before(before: dict[str, str]):
    once = applied(before, changes(ACCESS, before))
    again = applied(once, changes(ACCESS, once))
    assert again == once
    assert applied(again, restored(again)) == before


def test_nothing_of_another_account_stays_beside_our_keys():
    before = {
        "AWS_PROFILE": "work",
        "AWS_SESSION_TOKEN": "t",
        "AWS_ENDPOINT_URL_S3": "http://minio:9000",
        "AWS_ENDPOINT_URL_STS": "https://sts.amazonaws.com",
    }
    now = applied(before, changes(ACCESS, before))
    assert not set(before) & set(now)


def test_a_shell_that_was_never_set_up_has_nothing_to_undo():
    assert restored({"AWS_PROFILE": "work", "PYTHONPATH": "/a"}) == {}
    assert restored({"AWS_PROFILE": "work", BEFORE: "no JSON"}) == {}


def test_what_was_added_to_the_path_since_stays():
    now = applied({"PYTHONPATH": "/a"}, changes(ACCESS, {"PYTHONPATH": "/a"}))
    now["PYTHONPATH"] = f"/new:{now['PYTHONPATH']}"
    assert applied(now, restored(now))["PYTHONPATH"] == "/new:/a"


def test_the_server_is_not_asked_through_a_proxy():
    now = changes(ACCESS, {"http_proxy": "http://proxy:3128", "no_proxy": "intranet"})
    assert now["no_proxy"] == "intranet,127.0.0.1"
    assert "no_proxy" not in changes(ACCESS, {})


def test_secrets_are_not_shown():
    assert "hush" not in repr(ACCESS)
    assert (SITE / "sitecustomize.py").is_file()
