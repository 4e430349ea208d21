"""A real TensorBoard on a location that is being synced: both its loaders, and from S3."""

import json
import os
import shlex
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import S3Server
from tests.wait import until
from trackside.curves.event_file import EventFile
from trackside.storage.locate import locate
from trackside.supervisor.event_sync import EventSync

pytestmark = pytest.mark.timeout(600)
EAGER = ("--reload_interval", "1", "--samples_per_plugin", "scalars=100000")


class TensorBoard:
    def __init__(self, url: str) -> None:
        self._url = url

    def steps(self, run: str, tag: str) -> list[int]:
        query = urllib.parse.urlencode({"run": run, "tag": tag})
        with suppress(urllib.error.URLError, TimeoutError):  # not loaded yet
            url = f"{self._url}data/plugin/scalars/scalars?{query}"
            with urllib.request.urlopen(url, timeout=30) as answer:
                return [step for _, step, _ in json.load(answer)]
        return []

    def runs(self) -> list[str]:
        return list(self._get("data/runs") or [])

    def tags(self, run: str) -> set[str]:
        """Of its scalars."""
        return set((self._get("data/plugin/scalars/tags") or {}).get(run, {}))

    def _get(self, path: str) -> Any:
        with (
            suppress(urllib.error.URLError, TimeoutError),
            urllib.request.urlopen(f"{self._url}{path}", timeout=30) as answer,
        ):
            return json.load(answer)
        return None

    def wait_for(self, run: str, steps: list[int]) -> None:
        until(lambda: self.steps(run, "loss") == steps, seconds=120)


@contextmanager
def tensorboard(*flags: str, env: Mapping[str, str]) -> Iterator[TensorBoard]:
    command = [sys.executable, "-m", "tensorboard.main", *flags]
    with started(command, {**os.environ, **env}) as page:
        yield page


@contextmanager
def started(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[TensorBoard]:
    """The page of a TensorBoard that is started by this command, at a port of its own."""
    with subprocess.Popen(
        [*command, "--port", "0"], stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if "http://" in line:
                    yield TensorBoard("http" + line.partition("http")[2].split()[0])
                    break
            else:
                pytest.fail("TensorBoard ended before it listened")
        finally:
            process.terminate()
            process.stderr.read()


def documented_command() -> tuple[dict[str, str], list[str]]:
    """Variables and flags of the command that docs/tensorboard.md gives for other stores."""
    page = (Path(__file__).parents[2] / "docs" / "tensorboard.md").read_text()
    [block] = [block for block in page.split("```text\n") if block.startswith("AWS_ACCESS_KEY_ID=")]
    words = shlex.split(block.partition("```")[0].replace("\\\n", " "))
    at = words.index("tensorboard")
    return dict(word.split("=", 1) for word in words[:at]), words[at + 1 :]


def write_and_sync(file: EventFile, sync: EventSync, steps: range) -> None:
    for step in steps:
        file.add(("loss", step / 2, step, 1.7e9 + step))
    file.flush()
    sync.tick()


@pytest.mark.parametrize("loader", ["true", "false"])
def test_both_loaders_follow_two_writers_of_a_run_live(tmp_path: Path, loader: str):
    source, bucket = tmp_path / "source", tmp_path / "bucket"
    sync = EventSync("tensorboard", source, locate(bucket, home=tmp_path), "algo-1")
    first, second = EventFile(source / "run"), EventFile(source / "run")
    write_and_sync(first, sync, range(10))
    with tensorboard("--logdir", str(bucket), "--load_fast", loader, *EAGER, env={}) as page:
        page.wait_for("run", [*range(10)])
        write_and_sync(second, sync, range(10, 20))
        page.wait_for("run", [*range(20)])
        write_and_sync(first, sync, range(20, 30))
        page.wait_for("run", [*range(30)])


@pytest.mark.parametrize("is_lost", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_tensorboard_follows_a_job_in_s3_with_the_documented_command(
    tmp_path: Path,
    s3_server: S3Server,
    bucket: str,
    monkeypatch: pytest.MonkeyPatch,
    is_lost: bool,
):
    """`is_lost`: the supervisor is replaced by another while the page is open."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    location = f"s3://{bucket}/tb/JOB/tensorboard-output"
    sync = EventSync("tensorboard", tmp_path, locate(location, home=tmp_path), "algo-1")
    file = EventFile(tmp_path / "run")
    write_and_sync(file, sync, range(10))
    variables, flags = documented_command()
    assert variables.keys() == s3_server.environment.keys()
    shown = [flag.replace("s3://bucket/", f"s3://{bucket}/") for flag in flags]
    assert location in shown
    with tensorboard(*shown, env=s3_server.environment) as page:
        page.wait_for("run", [*range(10)])
        if is_lost:
            sync = EventSync("tensorboard", tmp_path, locate(location, home=tmp_path), "algo-1")
        for number in range(1, 4):
            write_and_sync(file, sync, range(number * 10, number * 10 + 10))
        page.wait_for("run", [*range(40)])


def test_no_checksum_is_stored_that_would_break_a_ranged_read(
    tmp_path: Path, s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
):
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    place = locate(f"s3://{bucket}/tb", home=tmp_path)
    write_and_sync(EventFile(tmp_path), EventSync("x", tmp_path, place, "algo-1"), range(3))
    client = s3_server.client()
    [stored] = client.list_objects_v2(Bucket=bucket)["Contents"]
    head = client.head_object(Bucket=bucket, Key=stored["Key"], ChecksumMode="ENABLED")
    assert not [name for name in head if name.startswith("Checksum")]
