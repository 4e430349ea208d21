"""`trackside tensorboard` brings up the real TensorBoard, live, or says in words why not."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cli.conftest import TRACKSIDE, Command
from tests.conftest import S3Server
from tests.wait import until
from trackside.curves.event_writer import SummaryWriter
from trackside.jobs.jobs import Jobs
from trackside.settings import Settings, environment

SCRIPT = """
import time
from pathlib import Path
from trackside.curves.event_writer import SummaryWriter
writer = SummaryWriter("/opt/ml/output/tensorboard/train")
for step in range(3):
    writer.add_scalar("loss", 1 / (1 + step), step)
writer.flush()
while not Path("/opt/ml/output/go-on").exists():
    time.sleep(0.05)
writer.add_scalar("loss", 0.0, 3)
writer.close()
"""


class Board:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line

    @property
    def url(self) -> str:
        def shown() -> str:
            assert self.process.poll() is None, self.said
            found = re.search(r"TensorBoard is at (\S+)", self.said)
            return found[1] if found else ""

        return until(shown, seconds=120)

    def get(self, path: str, *, experiment: str = "", **query: str) -> Any:
        below = f"experiment/{experiment}/data" if experiment else "data"
        address = f"{self.url}{below}/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(address) as got:
            return json.load(got)

    def values(self, run: str, tag: str) -> list[float]:
        try:
            points = self.get("plugin/scalars/scalars", run=run, tag=tag)
        except urllib.error.HTTPError:
            return []
        return [value for _, _, value in points]

    def end(self) -> int:
        children = psutil.Process(self.process.pid).children(recursive=True)
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(60)
        psutil.wait_procs(children, timeout=60)
        assert not any(child.is_running() for child in children)
        self._reader.join()
        return code


@pytest.fixture
def board() -> Iterator[Callable[..., Board]]:
    boards: list[Board] = []

    def start(*arguments: str, **variables: str) -> Board:
        process = subprocess.Popen(
            [*TRACKSIDE, "tensorboard", *arguments, "--no-open", "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **variables},
            start_new_session=True,
        )
        boards.append(Board(process))
        return boards[-1]

    yield start
    for each in boards:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()
        each._reader.join()
        assert each.process.stdout is not None
        each.process.stdout.close()


def test_folders_are_shown_side_by_side_as_they_grow(board: Callable[..., Board], tmp_path: Path):
    with SummaryWriter(tmp_path / "a") as writer, SummaryWriter(tmp_path / "b" / "eval") as other:
        writer.add_scalar("loss", 0.5, 1)
        other.add_scalar("acc", 0.25, 1)
        writer.flush()
        other.flush()
        shown = board("./a", str(tmp_path / "b"))
        assert shown.get("runs") == ["a", "b/eval"]
        tags = shown.get("plugin/scalars/tags")
        assert [*tags["a"], *tags["b/eval"]] == ["loss", "acc"]
        writer.add_scalar("loss", 0.125, 2)
        writer.flush()
        until(lambda: shown.values("a", "loss") == [0.5, 0.125])
    assert shown.get("environment")["data_location"].startswith(str(tmp_path))
    [alone] = re.findall(r"b alone: (\S+)", shown.said)
    [pattern] = urllib.parse.parse_qs(urllib.parse.urlsplit(alone).query)["runFilter"]
    assert [run for run in ("a", "b/eval", "b", "bb/eval") if re.search(pattern, run)] == [
        *("b/eval", "b")
    ]
    assert shown.end() == 0


def test_a_place_with_projector_files_is_shown_from_a_copy(
    board: Callable[..., Board], tmp_path: Path
):
    with SummaryWriter(tmp_path / "a" / "train") as writer:
        writer.add_scalar("loss", 0.5, 1)
        writer.flush()
        (tmp_path / "a" / "projector_config.pbtxt").touch()
        shown = board("./a")
        until(lambda: shown.values("a/train", "loss") == [0.5])
        writer.add_scalar("loss", 0.125, 2)
        writer.flush()
        until(lambda: shown.values("a/train", "loss") == [0.5, 0.125])
    [copy] = re.findall(r"a copy in (\S+),", shown.said)
    assert Path(copy, "a", "projector_config.pbtxt").exists()
    assert shown.end() == 0
    assert not Path(copy).exists()


def test_a_job_is_followed_from_its_folder_into_storage(
    board: Callable[..., Board], command: Command, workplace: Path
):
    (workplace / "train.py").write_text(SCRIPT)
    done = command("run", "train.py", "--name", "live", "--tensorboard", "s3://bucket/tb")
    assert done.returncode == 0, done.stderr
    shown = board("live")
    until(lambda: len(shown.values("live/train", "loss")) == 3)
    until(lambda: shown.values("live/system/algo-1", "cpu/total_percent"))
    ml = Settings.load().layout.job("live").host("algo-1", 1).ml
    (ml / "output" / "go-on").touch()
    jobs = Jobs(Settings.load(), environment())
    assert jobs.wait("live", timeout_seconds=120).state.secondary == "Completed"
    until(lambda: shown.get("environment")["data_location"].startswith("s3://bucket/tb/live"))
    until(lambda: shown.values("live/train", "loss") == [1.0, 0.5, pytest.approx(1 / 3), 0.0])
    assert shown.get("runs", experiment="live") == shown.get("runs")
    assert shown.end() == 0


def test_an_empty_place_is_reported(board: Callable[..., Board], workplace: Path):
    (workplace / "empty").mkdir()
    shown = board("./empty")
    assert shown.url
    assert f"empty: no event files yet at {str(workplace / 'empty')!r}" in shown.said


def test_tensorboard_ends_with_us_however_we_end(board: Callable[..., Board], workplace: Path):
    shown = board(str(workplace))
    assert shown.url
    [child] = psutil.Process(shown.process.pid).children()
    shown.process.kill()
    child.wait(60)


def test_an_unknown_job_is_reported_before_anything_starts(command: Command):
    done = command("tensorboard", "nobody")
    assert done.returncode == 2
    assert "No job is called 'nobody'" in done.stderr


def test_a_folder_of_the_name_of_no_job_is_shown(board: Callable[..., Board], workplace: Path):
    (workplace / "runs").mkdir()
    with SummaryWriter(str(workplace / "runs")) as writer:
        writer.add_scalar("loss", 1.0, 1)
    shown = board("runs")
    assert shown.values("runs", "loss") == [1.0]
    assert shown.end() == 0


def test_a_store_out_of_reach_is_exit_code_3(command: Command):
    done = command(
        *("tensorboard", "s3://bucket/tb", "--no-open"),
        TRACKSIDE_S3="",
        AWS_ENDPOINT_URL="http://127.0.0.1:9",
        AWS_ACCESS_KEY_ID="x",
        AWS_SECRET_ACCESS_KEY="x",
        AWS_REGION="us-east-1",
    )
    assert done.returncode == 3
    assert "s3://bucket/tb" in done.stderr
    assert "http://127.0.0.1:9" in done.stderr


def test_a_bucket_that_is_not_there_is_reported(command: Command, s3_server: S3Server):
    done = command("tensorboard", "s3://no-such-bucket-4711/tb", **s3_server.environment)
    assert done.returncode in (2, 3)
    assert "no-such-bucket-4711" in done.stderr


def test_a_port_that_is_taken_is_reported_in_tensorboard_s_words(command: Command, workplace: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = command("tensorboard", str(workplace), "--port", str(port), "--no-open")
    assert done.returncode == 2
    assert "TensorBoard did not start" in done.stderr
    assert str(port) in done.stderr


def test_without_the_package_the_way_to_it_is_named():
    code = (
        "import sys; sys.modules['tensorboard'] = None; from trackside.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "tensorboard", "./x"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "pip install 'trackside[tensorboard]'" in done.stderr
