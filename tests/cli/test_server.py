"""The server as users start it: a process, its keys, and the shell of a client."""

import json
import os
import signal
import socket
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import boto3
import click
import pytest

import trackside
from tests.cli.conftest import TRACKSIDE, Command
from tests.other_users import FIRST, SECOND, needs_other_users, packages_for_all, python_for_all
from trackside.api.keys import AccessKeys, Rights
from trackside.cli.access import access_keys
from trackside.cli.server import advertised
from trackside.records.layout import Home
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


def test_who_makes_a_second_key_of_one_name_is_reported_what_that_means(command: Command):
    first = command("keys", "create", "ci")
    assert first.stderr == ""
    key = first.stdout.splitlines()[0].partition("=")[2]
    second = command("keys", "create", "ci", "--json")
    assert json.loads(second.stdout)["id"] != key
    assert second.stderr.startswith(f"Note: {key} is called 'ci' too, and both are one owner")


def test_another_key_of_this_machine_s_name_is_not_taken_for_its_own(command: Command):
    command("keys", "create", "this machine", "--rights", "read")
    keys = access_keys(Settings.load())
    assert keys.own_key().rights == "admin"
    assert keys.own_key() == keys.own_key()
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
        "keep_to_embedded_buckets('http://10.0.0.5:7', 'http://127.0.0.1:7999');print(s3_access())\n"
        "os.environ.pop('TRACKSIDE_S3'); os.environ['AWS_ENDPOINT_URL_S3'] = 'http://minio:9000'\n"
        "keep_to_embedded_buckets('http://127.0.0.1:7999'); print(s3_access().endpoint)"
    )
    shown = subprocess.run(
        [TRACKSIDE[0], "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert shown.stdout.split() == ["None", "http://minio:9000"]


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("10.0.0.5", "http://10.0.0.5:7007"),
        ("10.0.0.5:80", "http://10.0.0.5:80"),
        ("machine.example.com", "http://machine.example.com:7007"),
        ("fd00::1", "http://[fd00::1]:7007"),
        ("[fd00::1]:80", "http://[fd00::1]:80"),
        ("https://trackside.example.com/", "https://trackside.example.com"),
    ],
)
def test_an_advertised_address_is_a_url(given: str, url: str):
    assert advertised(given, 7007) == url


@pytest.mark.parametrize(
    "given", ["0.0.0.0", "[::]:80", "host:port", "ftp://host", "http://host/path", "http://"]
)
def test_an_address_that_no_job_could_reach_is_refused(given: str):
    with pytest.raises(click.UsageError, match="--advertise"):
        advertised(given, 7007)


def test_jobs_get_the_advertised_address(tmp_path: Path, command: Command):
    (tmp_path / "train.py").write_text("import os; print('at', os.environ['AWS_ENDPOINT_URL'])")
    with started("--advertise", "localhost") as server:
        url = address(server)
        try:
            run = ("run", str(tmp_path / "train.py"), "--name", "job", "--wait")
            done = command(*run, TRACKSIDE_URL=url)
        finally:
            server.kill()
    assert done.returncode == 0, done.stderr
    assert f"at {url.replace('127.0.0.1', 'localhost')}" in done.stdout


# Who runs the scripts


def make_key(home: Path, label: str, rights: Rights) -> None:
    AccessKeys(Home(home).server.root).create(label, rights)


def said_at_start(process: subprocess.Popen[str]) -> str:
    """All that it wrote to standard error before it listened, and then ended."""
    assert process.stdout is not None
    process.stdout.readline()
    process.terminate()
    return process.communicate()[1]


def started(*options: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*TRACKSIDE, "server", "--listen", "127.0.0.1:0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )


def test_submit_keys_whose_scripts_can_read_the_server_s_secrets_are_named_once(tmp_path: Path):
    home = tmp_path / "trackside home"
    for label, rights in (("ci", "submit"), ("boss", "admin"), ("team", "submit"), ("r", "read")):
        make_key(home, label, Rights(rights))
    with started() as server:
        [line] = [line for line in said_at_start(server).splitlines() if "WARNING" in line]
    assert "scripts of the submit keys 'ci', 'team' run as this server's own user" in line
    assert "master.key, own_key.json" in line
    assert "--run-as USER" in line


def test_without_submit_keys_nobody_is_warned(tmp_path: Path):
    make_key(tmp_path / "trackside home", "boss", Rights.ADMIN)
    with started() as server:
        assert "WARNING" not in said_at_start(server)


@needs_other_users
def test_keys_that_have_a_user_are_not_warned_of(tmp_path: Path):
    for label in ("ci", "team"):
        make_key(tmp_path / "trackside home", label, Rights.SUBMIT)
    python = {"TRACKSIDE_PYTHON": python_for_all()}
    with started("--run-as", f"ci={FIRST}", **python) as server:
        said = said_at_start(server)
    assert "submit keys 'team' run as" in said
    with started("--run-as", f"ci={FIRST}", "--run-as", str(SECOND), **python) as server:
        assert "WARNING" not in said_at_start(server)
    with started(**python, TRACKSIDE_RUN_AS=f"ci={FIRST},{SECOND}") as server:
        assert "WARNING" not in said_at_start(server)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("root", "names 'root', which is root"),
        ("nobody-of-that-name", "whom this system does not know"),
        ("ci=", "has 'ci='"),
    ],
)
def test_a_user_that_jobs_cannot_run_as_is_refused_at_the_start(
    command: Command, option: str, words: str
):
    refused = command("server", "--listen", "127.0.0.1:0", "--run-as", option)
    assert refused.returncode == 2
    assert words in refused.stderr
    assert "Traceback" not in refused.stderr


@needs_other_users
def test_a_server_of_a_plain_user_warns_too_and_cannot_run_jobs_as_others():
    packages = packages_for_all("uvicorn")
    if not packages:
        pytest.skip("needs a copy of the server's packages that every user may read")
    source = Path(trackside.__file__).parents[1]
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, FIRST, FIRST)
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join([str(source), packages]),
            "TRACKSIDE_HOME": f"{folder}/home",
            "HOME": folder,
        }

        def trackside_command(*arguments: str) -> subprocess.Popen[str]:
            return subprocess.Popen(
                [python_for_all(), "-m", "trackside.cli", *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
                cwd=folder,
                user=FIRST,
                group=FIRST,
                extra_groups=[],
            )

        with trackside_command("keys", "create", "ci", "--rights", "submit") as keys:
            assert keys.wait() == 0
        listen = ("server", "--listen", "127.0.0.1:0")
        with trackside_command(*listen) as server:
            assert "scripts of the submit keys 'ci' run as" in said_at_start(server)
        with trackside_command(*listen, "--run-as", str(SECOND)) as server:
            said = server.communicate()[1]
        assert server.returncode != 0
        assert said == (
            f"Error: Scripts are to run as user '{SECOND}', and only root on Linux can do that. "
            "Start the server as root, or leave --run-as (TRACKSIDE_RUN_AS) away.\n"
        )
