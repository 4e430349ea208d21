"""Everything in TRACKSIDE_HOME is its owner's alone, whatever the umask; elsewhere the umask rules.

Jobs are started as people start them: by the CLI, with and without a server.
"""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Machine
from tests.job_processes import end_processes_of, until_they_have_left
from tests.server_process import TRACKSIDE, ServerProcess
from tests.toolkit.test_install import wheel
from tests.wait import until

OTHERS = 0o077
PARTS = {"buckets", "ending", "index.sqlite", "jobs", "overlays"}

SMALL = """
import os, sys

umask = os.umask(0)
os.umask(umask)
print(f"umask: {umask:03o}")
with open("/opt/ml/model/weights", "w") as file:
    file.write("weights")
print("weights:", oct(os.stat("/opt/ml/model/weights").st_mode & 0o777))
"""
FULL = """
import os, stat

for folder, folders, files in os.walk("/opt/ml"):
    for name in (".", *folders, *files):
        status = os.lstat(os.path.join(folder, name))
        if status.st_mode & 0o077 and not stat.S_ISLNK(status.st_mode):
            print("open:", os.path.join(folder, name), oct(status.st_mode))

import torch
import privatetest  # of requirements.txt
from torch.utils.tensorboard import SummaryWriter

with open("/opt/ml/input/data/training_0") as pipe:
    print("pipe:", pipe.read())
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
writer = SummaryWriter("/opt/ml/output/tensorboard")
for step in range(3):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(torch.ones(4, 2)), torch.zeros(4, 1))
    loss.backward()
    optimizer.step()
    writer.add_scalar("loss", loss.item(), step)
writer.close()
os.makedirs("/opt/ml/checkpoints/deep")
for path in ("/opt/ml/checkpoints/deep/1", "/opt/ml/output/data/x"):
    with open(path, "w") as file:
        file.write(path)
"""
WAITING = """
import os, time
print("waiting", flush=True)
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.02)
"""
ALL_PARTS = (
    *("--input-mode", "Pipe", "--rule", "all", "--capture", "losses", "--every", "1"),
    *("--checkpoint-uri", "s3://bucket/checkpoints", "--tensorboard", "s3://bucket/curves"),
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where jobs run, of which none goes on after the test."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    yield tmp_path / "trackside home"
    end_processes_of(tmp_path / "trackside home")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "train.py").write_text(SMALL)
    return folder


@pytest.fixture
def full(source: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Options of a job that uses all that a job can have."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (source / "train.py").write_text(FULL + SMALL)
    wheel(source / "wheels", "privatetest")
    (source / "requirements.txt").write_text("--find-links wheels\nprivatetest\n")
    (source.parent / "data").mkdir()
    (source.parent / "data" / "file").write_text("content")
    return (*ALL_PARTS, "--channel", f"training={source.parent / 'data'}")


def run_job(home: Path, source: Path, umask: int, *options: str) -> str:
    """Its log, when all its processes have left."""
    done = subprocess.run(
        [
            *(*TRACKSIDE, "run", "train.py", "--source-dir", ".", "--name", "job", "--wait"),
            *options,
        ],
        cwd=source,
        umask=umask,
        capture_output=True,
        text=True,
    )
    until_they_have_left(home / "jobs")
    return done.stdout + done.stderr


def open_to_others(home: Path) -> list[str]:
    return [
        f"{path.relative_to(home)} {stat.filemode(path.lstat().st_mode)}"
        for path in (home, *home.rglob("*"))
        if path.lstat().st_mode & OTHERS and not path.is_symlink()
    ]


@pytest.mark.parametrize("umask", [0o000, pytest.param(0o022, marks=pytest.mark.nightly)])
def test_a_job_leaves_nothing_in_the_home_that_others_can_read(
    home: Path, source: Path, full: tuple[str, ...], umask: int
):
    log = run_job(home, source, umask, *full)
    assert f"umask: {umask:03o}" in log, log
    assert f"weights: {oct(0o666 & ~umask)}" in log
    assert "open:" not in log, log
    subprocess.run([*TRACKSIDE, "jobs"], umask=umask, check=True)
    assert {path.name for path in home.iterdir()} == PARTS
    assert (home / "buckets/bucket/checkpoints/deep/1").is_file()
    assert open_to_others(home) == []


def test_what_a_failed_job_keeps_is_behind_closed_folders(home: Path, source: Path):
    """Files of the script's own have the modes that it gave them."""
    (source / "train.py").write_text(SMALL + "sys.exit(3)")
    log = run_job(home, source, 0)
    kept = home / "jobs" / "job" / "hosts" / "algo-1" / "1" / "ml"
    assert (kept / "model" / "weights").stat().st_mode & 0o777 == 0o666, log
    own = ("/ml/model/weights ", "/ml/output/failure ")
    assert [line for line in open_to_others(home) if not any(name in line for name in own)] == []


def test_a_job_of_a_server_leaves_nothing_that_others_can_read(
    home: Path, source: Path, full: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    before = os.umask(0)
    try:
        server = ServerProcess(home)
        server.start()
    finally:
        os.umask(before)
    try:
        server.use(monkeypatch)
        log = run_job(home, source, 0o022, *full)
        assert "umask: 000" in log, log  # the server's, on whose machine it runs
        assert "open:" not in log, log
        assert open_to_others(home) == []  # also while the index is in use
    finally:
        server.__exit__(None, None, None)


def test_what_the_user_wants_elsewhere_has_the_user_s_umask(
    home: Path, source: Path, tmp_path: Path
):
    shared = tmp_path / "shared"
    log = run_job(home, source, 0o002, "--output", shared.as_uri())
    found = {path: path.stat().st_mode & 0o777 for path in (shared, *shared.rglob("*"))}
    assert shared / "job" / "output" / "model.tar.gz" in found, log
    assert {mode for path, mode in found.items() if path.is_dir()} == {0o775}
    assert {mode for path, mode in found.items() if path.is_file()} == {0o664}
    for command in (["artifacts", "job", "--download", "down"], ["report", "job", "-o", "page"]):
        subprocess.run([*TRACKSIDE, *command], cwd=tmp_path, umask=0o002, check=True)
    downloaded = [path for path in (tmp_path / "down").rglob("*") if path.is_file()]
    assert downloaded
    assert {path.stat().st_mode & 0o777 for path in (*downloaded, tmp_path / "page")} == {0o664}


def test_a_home_that_was_open_is_closed_at_the_next_start_and_said_once(home: Path):
    (home / "jobs").mkdir(parents=True)
    for path in (home, home / "jobs"):
        path.chmod(0o755)
    first, second = (
        subprocess.run([*TRACKSIDE, "jobs"], capture_output=True, text=True) for _ in range(2)
    )
    assert "was readable by other users (mode 0755)" in first.stderr
    assert second.stderr == ""
    assert open_to_others(home) == []


def test_a_supervisor_that_is_started_again_still_knows_the_user_s_umask(
    machine: Machine, tmp_path: Path
):
    """Init, which starts it, has ours."""
    before = os.umask(0o002)
    try:
        job = machine.submit(WAITING, OutputDataConfig={"S3OutputPath": str(tmp_path / "shared")})
    finally:
        os.umask(before)
    job.wait_for_line("waiting")
    first = job.supervisor_pid()
    os.kill(first, signal.SIGKILL)
    until(lambda: job.supervisor_pid() != first)
    machine.go.touch()
    assert job.wait().state.status == "Completed"
    until_they_have_left(job.folder.root)
    assert (tmp_path / "shared/job-1/output/model.tar.gz").stat().st_mode & 0o777 == 0o664
    assert open_to_others(machine.settings.home) == []
