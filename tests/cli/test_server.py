"""The server as users start it: a process, its keys, and the shell of a client."""

import json
import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from tests.cli.conftest import TRACKSIDE, Command
from trackside.cli.access import access_keys, own_key
from trackside.settings import Settings


@pytest.fixture
def server() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*TRACKSIDE, "server", "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


def address(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    return server.stdout.readline().split()[-1]


def exported(command: Command) -> dict[str, str]:
    """As a shell would have them after `eval`."""
    lines = command("env").stdout
    shown = subprocess.run(
        ["bash", "-c", f"{lines}\nenv -0"], capture_output=True, check=True, env={}
    )
    pairs = (entry.partition("=") for entry in shown.stdout.decode().split("\0") if entry)
    return {name: value for name, _, value in pairs}


def test_a_client_set_up_by_env_finds_the_server(server, command: Command, monkeypatch):
    url = address(server)
    environment = exported(command)
    assert environment["AWS_ENDPOINT_URL"] == url
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert boto3.client("sagemaker").list_training_jobs()["TrainingJobSummaries"] == []
    config = Path(environment["SAGEMAKER_USER_CONFIG_OVERRIDE"]).read_text()
    assert "TelemetryOptOut: true" in config
    assert "unset AWS_ENDPOINT_URL\n" in command("env", "--reset").stdout
    assert not Path(environment["SAGEMAKER_USER_CONFIG_OVERRIDE"]).exists()


def test_env_s_default_bucket_is_where_the_server_s_jobs_put_what_they_make(
    request: pytest.FixtureRequest, command: Command, monkeypatch
):
    def config() -> str:
        return Path(exported(command)["SAGEMAKER_USER_CONFIG_OVERRIDE"]).read_text()

    assert "DefaultS3Bucket: 'trackside'\n" in config()  # no server answers yet
    monkeypatch.setenv("TRACKSIDE_OUTPUT", "s3://team/runs of 'us'/")
    address(request.getfixturevalue("server"))
    monkeypatch.delenv("TRACKSIDE_OUTPUT")
    assert "DefaultS3Bucket: 'team'\n" in config()
    assert "DefaultS3ObjectKeyPrefix: 'runs of ''us'''\n" in config()
    chosen = command("env", "--bucket", "mine").stdout
    assert "sagemaker-config.mine.yaml" in chosen


def test_env_leads_to_the_server_that_our_own_clients_use(command: Command, monkeypatch):
    monkeypatch.setenv("TRACKSIDE_URL", "https://train.example.com")
    refused = command("env")
    assert refused.returncode == 3
    assert "trackside login https://train.example.com" in refused.stderr
    monkeypatch.setenv("TRACKSIDE_ACCESS_KEY_ID", "TSK1")
    monkeypatch.setenv("TRACKSIDE_SECRET_ACCESS_KEY", "hush")
    environment = exported(command)
    names = "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"
    found = tuple(environment[name] for name in names)
    assert found == ("https://train.example.com", "TSK1", "hush")


def test_sigterm_ends_it_after_the_requests_at_hand(server):
    url = address(server)
    with urllib.request.urlopen(f"{url}/health/live") as answer:
        assert answer.status == 200
    server.send_signal(signal.SIGTERM)
    assert server.wait(60) == 0
    assert server.stderr is not None
    log = server.stderr.read()
    assert "GET /health/live" in log
    assert "Traceback" not in log


def test_an_address_for_others_needs_a_key(command: Command):
    done = command("server", "--listen", "0.0.0.0:0")
    assert done.returncode == 2
    assert "there is no access key" in done.stderr


@pytest.mark.parametrize("listen", ["7007", ":7007", "localhost:", "localhost:http"])
def test_an_address_that_is_none_is_wrong_usage(command: Command, listen: str):
    done = command("server", "--listen", listen)
    assert done.returncode == 2
    assert "HOST:PORT" in done.stderr


def test_an_address_that_is_taken_is_named_with_the_way_out(command: Command):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = command("server", "--listen", f"127.0.0.1:{port}")
    assert done.returncode == 2
    assert f"at '127.0.0.1:{port}': Address already in use" in done.stderr
    assert "--listen HOST:PORT" in done.stderr


def test_who_makes_a_second_key_of_one_name_is_told_what_that_means(command: Command):
    first = command("keys", "create", "ci")
    assert first.stderr == ""
    key = first.stdout.splitlines()[0].partition("=")[2]
    second = command("keys", "create", "ci", "--json")
    assert json.loads(second.stdout)["id"] != key
    assert second.stderr.startswith(f"Note: {key} is called 'ci' too, and both are one owner")


def test_another_key_of_this_machine_s_name_is_not_taken_for_its_own(command: Command):
    command("keys", "create", "this machine", "--rights", "read")
    keys = access_keys(Settings.load())
    assert own_key(keys).rights == "admin"
    assert own_key(keys) == own_key(keys)
    assert len(keys.all()) == 2


def test_a_name_that_no_key_may_have_is_wrong_input(command: Command):
    refused = command("keys", "create", "local:root")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "A key cannot be called 'local:root'" in refused.stderr


def test_keys_are_made_listed_rotated_and_revoked(command: Command):
    made = command("keys", "create", "ci", "--rights", "read").stdout
    key, secret = (line.partition("=")[2] for line in made.splitlines())
    listed = command("keys", "list").stdout
    assert key in listed
    assert secret not in listed
    rotated = command("keys", "rotate", key, "--overlap", "1").stdout
    successor = rotated.splitlines()[0].partition("=")[2]
    assert command("keys", "revoke", key).returncode == 0
    remaining = command("keys", "list", "--json").stdout
    assert successor in remaining
    assert key not in remaining
    assert command("keys", "revoke", key).returncode == 2


def test_a_server_in_a_client_s_shell_does_not_become_its_own_store(command: Command):
    environment = {
        **os.environ,
        **exported(command),
        "AWS_ENDPOINT_URL": "http://127.0.0.1:7999",
    }
    code = (
        "import os\nfrom trackside.storage.credentials import *\n"
        "keep_to_embedded_buckets('http://127.0.0.1:7999'); print(s3_access())\n"
        "os.environ.pop('TRACKSIDE_S3'); os.environ['AWS_ENDPOINT_URL_S3'] = 'http://minio:9000'\n"
        "keep_to_embedded_buckets('http://127.0.0.1:7999'); print(s3_access().endpoint)"
    )
    shown = subprocess.run(
        [TRACKSIDE[0], "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert shown.stdout.split() == ["None", "http://minio:9000"]
