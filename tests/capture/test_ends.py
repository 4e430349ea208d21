"""How processes of a group ended, as far as they cannot say so themselves."""

import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trackside.capture.hangs.ends import leave_children, note_ends_of_children, step_mirror
from trackside.capture.reading.hang_files import Standing, read_standings
from trackside.capture.reading.trial_folder import TrialFolder
from trackside.storage.locate import locate

WAITS = "input()\nimport os; os.kill(os.getpid(), 9)"
DDP = """
import os, signal, sys, time
from pathlib import Path
import torch
from torch import distributed, nn
from trackside.capture.hangs.ends import note_ends_of_children
from trackside.capture.hook import Hook

OUT = Path(sys.argv[1])

def train(rank):
    torch.set_num_threads(1)
    meeting = OUT.parent / "meeting"
    distributed.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=2)
    os.environ["RANK"] = str(rank)
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 1))
    hook = Hook(OUT)
    hook.register_module(model)
    hook.follow_training()
    watched = 0
    for step in range(100_000):
        model(torch.ones(2, 4)).sum().backward()
        time.sleep(0.01)
        watched += len(list(OUT.glob("hangs/*.step"))) == 2
        if rank == 1 and watched > 5:
            os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    note_ends_of_children(OUT)
    torch.multiprocessing.spawn(train, nprocs=2)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "hangs").mkdir()
    note_ends_of_children(tmp_path)
    yield tmp_path
    leave_children()


def trains(folder: Path, pid: int) -> Path:
    """Makes it a process that is watched; returns where its end is noted."""
    place = folder / "hangs" / f"{socket.gethostname()}-{pid}.json"
    place.write_text("{}")
    return place.with_suffix(".exit")


def test_a_program_that_is_killed(folder: Path):
    program = subprocess.Popen([sys.executable, "-c", WAITS], stdin=subprocess.PIPE)
    noted = trains(folder, program.pid)
    program.communicate(b"go\n")
    assert program.returncode == -signal.SIGKILL
    assert json.loads(noted.read_text())["code"] == -signal.SIGKILL


def test_processes_of_multiprocessing(folder: Path):
    context = multiprocessing.get_context("fork")
    may_end = context.Event()
    for code in (3, 0):
        process = context.Process(target=lambda code=code: may_end.wait() and os._exit(code))
        process.start()
        assert process.pid is not None
        noted = trains(folder, process.pid)
        may_end.set()
        process.join()
        assert process.exitcode == code
        assert noted.exists() == (code != 0)


def test_other_programs_are_left_alone(folder: Path):
    assert (
        subprocess.run([sys.executable, "-c", "raise SystemExit(4)"], check=False).returncode == 4
    )
    assert list((folder / "hangs").iterdir()) == []


def test_the_last_step_stays(tmp_path: Path):
    path = tmp_path / "a.step"
    mirror = step_mirror(path)
    for step in (0, 1, 70_000):
        mirror(step)
    assert int.from_bytes(path.read_bytes(), "little") == 70_000


def test_a_rank_that_is_killed_is_known_with_its_step(tmp_path: Path):
    script = tmp_path / "train.py"
    script.write_text(DDP)
    out = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, str(script), str(out)], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    found = {each.rank: each for each in read_standings(TrialFolder(locate(str(out), home=out)))}
    killed: Standing = found[1]
    assert (killed.exit_code, killed.num_workers) == (-signal.SIGKILL, 2), done.stderr
    assert killed.step > 0
