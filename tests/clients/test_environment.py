"""What a client's environment becomes, and what it becomes again."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from trackside.clients.environment import (
    BEFORE,
    SITE,
    Access,
    Change,
    GiveBack,
    Keep,
    Set,
    changes,
    restored,
)

ACCESS = Access("http://127.0.0.1:7007", "TSKEY", "hush", "eu-central-1", Path("/x/config.yaml"))


class Shell(dict[str, str]):
    """What programs that are started from it find; it keeps some for itself."""

    def __init__(self, environ: dict[str, str], kept: dict[str, str] | None = None) -> None:
        super().__init__(environ)
        self.kept = dict(kept or {})

    def then(self, changes: Sequence[Change]) -> "Shell":
        after = Shell(self, self.kept)
        for change in changes:
            before = after.pop(change.name, "")
            if isinstance(change, Set):
                after[change.name] = change.value
            elif isinstance(change, Keep):
                after[change.name] = after.kept[change.name] = before
            elif isinstance(change, GiveBack) and change.name in after.kept:
                after[change.name] = after.kept.pop(change.name)
        return after


@pytest.mark.parametrize(
    "before",
    [
        {},
        {"PATH": "/bin", "PYTHONPATH": "/a:/b"},
        {
            "AWS_ACCESS_KEY_ID": "AKIA",
            "AWS_SECRET_ACCESS_KEY": "secret of mine",
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
    once = Shell(before).then(changes(ACCESS, before))
    again = once.then(changes(ACCESS, once))
    assert again == once
    after = again.then(restored(again))
    assert after == before
    assert after.kept == {}


KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIA-mine",
    "AWS_SECRET_ACCESS_KEY": "secret-mine",
    "AWS_SECURITY_TOKEN": "old-token-mine",
    "AWS_SESSION_TOKEN": "token-mine",
}


def test_no_program_started_from_there_finds_the_user_s_own_keys():
    now = Shell(KEYS).then(changes(ACCESS, KEYS))
    assert "mine" not in json.dumps(now)
    assert now.kept == KEYS
    assert now.then(restored(now)) == KEYS


def test_a_shell_started_from_there_is_left_without_the_user_s_keys_when_it_undoes_it():
    child = Shell(dict(Shell(KEYS).then(changes(ACCESS, KEYS))))
    assert child.then(restored(child)) == {}
    again = child.then(changes(ACCESS, child))
    assert again.kept == {}, "the server's key is nobody's own"


def test_nothing_of_another_account_stays_beside_our_keys():
    before = {
        "AWS_PROFILE": "work",
        "AWS_SESSION_TOKEN": "t",
        "AWS_ENDPOINT_URL_S3": "http://minio:9000",
        "AWS_ENDPOINT_URL_STS": "https://sts.amazonaws.com",
    }
    now = Shell(before).then(changes(ACCESS, before))
    assert not set(before) & set(now)


def test_a_shell_that_was_never_set_up_has_nothing_to_undo():
    assert restored({"AWS_PROFILE": "work", "PYTHONPATH": "/a"}) == []
    assert restored({"AWS_PROFILE": "work", BEFORE: "no JSON"}) == []


def test_what_was_added_to_the_path_since_stays():
    now = Shell({"PYTHONPATH": "/a"}).then(changes(ACCESS, {"PYTHONPATH": "/a"}))
    now["PYTHONPATH"] = f"/new:{now['PYTHONPATH']}"
    assert now.then(restored(now))["PYTHONPATH"] == "/new:/a"


def test_requests_to_the_server_use_no_proxy():
    before = {"http_proxy": "http://proxy:3128", "no_proxy": "intranet"}
    assert Shell(before).then(changes(ACCESS, before))["no_proxy"] == "intranet,127.0.0.1"
    assert "no_proxy" not in Shell({}).then(changes(ACCESS, {}))


def test_secrets_are_not_shown():
    assert "hush" not in repr([ACCESS, *changes(ACCESS, {})])
    assert (SITE / "sitecustomize.py").is_file()
