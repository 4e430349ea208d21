"""One access key at two servers of a team: processes of their own, on a real Postgres."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.postgres_server import PostgresServer
from tests.server_process import TRACKSIDE, ServerProcess
from tests.wait import until
from trackside.api.encryption import make_team_key


def run(home: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    ours = {name: text for name, text in os.environ.items() if not name.startswith("TRACKSIDE")}
    path = os.pathsep.join(path for path in sys.path if path)
    return subprocess.run(
        [*TRACKSIDE, *words],
        env={**ours, "TRACKSIDE_HOME": str(home), "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def client(server: ServerProcess, key_id: str, secret: str) -> Any:
    """Of a service that needs nothing of the database but the keys."""
    return boto3.client(
        "sts",
        endpoint_url=server.url,
        region_name="eu-central-1",
        aws_access_key_id=key_id,
        aws_secret_access_key=secret,
        config=Config(retries={"total_max_attempts": 1}),
    )


def answer(asked: Any) -> str:
    """`known`, or the code of the error."""
    try:
        asked.get_caller_identity()
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return "known"


@pytest.fixture
def shared(mortal_postgres: PostgresServer, tmp_path: Path) -> dict[str, str]:
    """The settings of a team's servers."""
    mortal_postgres.empty()
    make_team_key(tmp_path / "team.key")
    return {
        "TRACKSIDE_DATABASE": mortal_postgres.url,
        "TRACKSIDE_TEAM_KEY_FILE": str(tmp_path / "team.key"),
    }


def made(home: Path, *words: str, **variables: str) -> tuple[str, str]:
    """A key of `trackside keys`."""
    result = run(home, "keys", *words, **variables)
    assert result.returncode == 0, result.stderr
    id_line, secret_line = result.stdout.splitlines()
    return id_line.partition("=")[2], secret_line.partition("=")[2]


def test_a_key_is_good_at_every_server_of_a_team(
    shared: dict[str, str], tmp_path: Path, mortal_postgres: PostgresServer
):
    shared["TRACKSIDE_KEYS_GRACE"] = "5"
    # Each of these makes a key in the file of its home first, which moves when its server starts.
    with (
        ServerProcess(tmp_path / "a", **shared) as a,
        ServerProcess(tmp_path / "b", **shared) as b,
    ):
        assert answer(client(b, a.key.id, a.secret)) == "known"
        key, secret = made(tmp_path / "a", "create", "ci", **shared)
        at_a, at_b = client(a, key, secret), client(b, key, secret)
        until(lambda: answer(at_a) == answer(at_b) == "known")

        successor, other = made(tmp_path / "b", "rotate", key, "--overlap", "0", **shared)
        until(lambda: answer(at_a) != "known" != answer(at_b))
        at_a, at_b = client(a, successor, other), client(b, successor, other)
        until(lambda: answer(at_a) == answer(at_b) == "known")

        mortal_postgres.kill()
        until(lambda: answer(at_a) == answer(at_b) == "ServiceUnavailable")
        mortal_postgres.start()
        until(lambda: answer(at_a) == answer(at_b) == "known")

        assert run(tmp_path / "a", "keys", "revoke", successor, **shared).returncode == 0
        until(lambda: answer(at_a) != "known" != answer(at_b))


def test_a_server_without_the_team_s_key_does_not_start(shared: dict[str, str], tmp_path: Path):
    with ServerProcess(tmp_path / "a", **shared):
        pass
    words = ("server", "--listen", "127.0.0.1:0")
    missing = run(tmp_path / "b", *words, TRACKSIDE_DATABASE=shared["TRACKSIDE_DATABASE"])
    assert missing.returncode != 0
    assert "this one is not given the key that opens them" in missing.stderr

    make_team_key(tmp_path / "other.key")
    other = {**shared, "TRACKSIDE_TEAM_KEY_FILE": str(tmp_path / "other.key")}
    different = run(tmp_path / "b", *words, **other)
    assert different.returncode != 0
    assert "sealed with another team's key" in different.stderr

    alone = run(tmp_path / "a", "keys", "create", "late")
    assert alone.returncode != 0
    assert "are in the database" in alone.stderr
    assert "hush" not in alone.stderr
    assert run(tmp_path / "a", "env").returncode == 0  # this machine's own key is in its file
    assert run(tmp_path / "a", "queue").returncode == 0  # no job waits, so no limit is read
    done = run(tmp_path / "a", "gc", "--dry-run")  # what needs a part of it does without
    assert done.returncode == 0
    assert "left out. The access keys of" in done.stderr
