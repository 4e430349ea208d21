"""Where a process stands that makes no step: written when nothing at all happens, and not before.

Limits are a tenth of the usual ones and the waits are for conditions, so a busy machine is only
slower."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.wait import until
from trackside.capture.environment import CaptureEnvironment
from trackside.capture.hangs import kernel, stacks
from trackside.capture.hangs.look import Look, Others, look
from trackside.capture.hangs.progress import Progress
from trackside.capture.reading.hang_files import Standing, read_standings
from trackside.capture.reading.trial_folder import TrialFolder
from trackside.storage.locate import locate

TRAIN = """
import ctypes, os, queue, subprocess, sys, threading, time
from pathlib import Path
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from trackside.capture.hook import Hook

torch.set_num_threads(1)
LOCK = torch.multiprocessing.Lock()

class Blocked(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        LOCK.acquire()  # worker
        return torch.zeros(4)

def lock():
    threading.Event().wait()  # here

def sleeps():
    time.sleep(1e6)  # here

def loader():
    LOCK.acquire()
    next(iter(DataLoader(Blocked(), num_workers=1)))  # here

def holds_lock():
    while not list(Path(sys.argv[1]).glob("hangs/*.stacks")):
        time.sleep(0.05)
    ctypes.PyDLL(None).pause()  # here

def spins():
    is_done = False
    while not is_done:
        pass  # here

def computes():
    while True:
        torch.randn(100, 100) @ torch.randn(100, 100)

def prints():
    while True:
        print("still there", flush=True)
        time.sleep(0.05)

model = nn.Linear(4, 1)
hook = Hook(sys.argv[1], include_collections=["losses"])
hook.register_module(model)
for _ in range(8):
    model(torch.randn(2, 4)).sum().backward()
globals()[sys.argv[2]]()
"""


def line_of(comment: str, function: str) -> int:
    """In the script, the first so marked behind the function's name."""
    lines = TRAIN.splitlines()
    start = next(n for n, line in enumerate(lines) if function in line)
    return next(n for n, line in enumerate(lines, 1) if n > start and f"# {comment}" in line)


@contextmanager
def training(folder: Path, case: str) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    script = folder / "train.py"
    script.write_text(TRAIN)
    environ = {**os.environ, "TRACKSIDE_HANG_SECONDS": "0.5"}
    environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, str(script), str(folder / "trial"), case]
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            yield folder / "trial"
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # workers of loaders, too


def standing(trial: Path) -> Standing | None:
    found = read_standings(TrialFolder(locate(trial, home=trial))) if trial.exists() else []
    return found[0] if found else None


def state(trial: Path) -> str:
    found = standing(trial)
    return "" if found is None else found.state


@pytest.mark.parametrize(("case", "waits"), [("lock", "lock"), ("sleeps", "sleep")])
def test_a_wait_is_written_with_its_line(tmp_path: Path, case: str, waits: str):
    with training(tmp_path, case) as trial:
        until(lambda: state(trial) == "still", seconds=120)
        found = standing(trial)
    assert found is not None
    assert found.here.script is not None
    assert (found.here.waits, found.here.script.line) == (waits, line_of("here", f"def {case}"))
    assert (found.step, found.steps, found.rank) == (7, 8, None)


def test_of_a_data_loader_the_stack_of_its_worker_is_written(tmp_path: Path):
    with training(tmp_path, "loader") as trial:
        until(lambda: state(trial) == "still", seconds=120)
        found = standing(trial)
    assert found is not None
    assert found.here.waits == "data loader"
    (worker,) = (each for each in found.workers if each.script is not None)
    assert worker.script is not None
    assert worker.script.line == line_of("worker", "class Blocked")


def test_a_call_that_holds_the_interpreter_is_named_by_faulthandler(tmp_path: Path):
    with training(tmp_path, "holds_lock") as trial:
        until(lambda: state(trial) == "locked", seconds=120)
        found = standing(trial)
    assert found is not None
    assert found.here.script is not None
    assert found.here.script.line == line_of("here", "def holds_lock")


def test_a_loop_that_changes_nothing_spins(tmp_path: Path):
    with training(tmp_path, "spins") as trial:
        until(lambda: state(trial) == "spins", seconds=120)


def test_who_works_or_prints_is_busy(tmp_path: Path):
    """Both at once, since each is looked at for as long."""
    with (
        training(tmp_path / "one", "computes") as computing,
        training(tmp_path / "other", "prints") as printing,
    ):
        both = (computing, printing)
        until(lambda: [state(trial) for trial in both] == ["busy"] * 2, seconds=120)
        limits = [found.limit for found in map(standing, both) if found is not None]
        ends = time.monotonic() + 3 * max(limits)
        while time.monotonic() < ends:
            assert [state(trial) for trial in both] == ["busy"] * 2
            time.sleep(0.1)


def test_the_limit_is_made_of_the_job_s_own_steps():
    progress = Progress()
    assert progress.limit(10.0) == 60.0
    for step in range(9):
        progress.mark(step)
    assert progress.limit(10.0) == 10.0
    progress._gaps.extend([2.0] * 64)
    assert progress.limit(10.0) == 40.0
    progress.shown = 30.0
    assert progress.limit(10.0) == 60.0


def test_a_wait_is_open_if_something_outside_the_job_may_end_it():
    idle = {"name": "t", "waits": "lock", "frames": []}
    asks = {"name": "t", "waits": "network", "frames": []}
    assert Others([], []).is_open("sleep")
    assert not Others([idle], []).is_open("lock")
    assert Others([idle, asks], []).is_open("lock")
    assert not Others([asks], []).is_open("collective")
    assert Others([], [asks]).is_open("data loader")


def test_looks_tell_work_from_waiting():
    first = look()
    sum(range(3_000_000))
    second = look()
    assert second.sign_since(first)
    still = Look(second.at + 1, second.frames, "lock", second.use, second.moved, 0, None)
    assert still.sign_since(second) == ""


def test_the_kernel_says_what_a_thread_waits_for():
    released = threading.Event()
    threads = [
        threading.Thread(target=released.wait, daemon=True),
        threading.Thread(target=time.sleep, args=(60,), daemon=True),
    ]
    for thread in threads:
        thread.start()
    numbers = [thread.native_id or 0 for thread in threads]
    until(lambda: [kernel.wait_of(os.getpid(), n) for n in numbers] == ["lock", "sleep"])
    released.set()
    assert kernel.children(os.getpid()) == [] or all(kernel.tree(os.getpid()))


def test_only_children_that_share_the_file_are_asked_for_their_stacks():
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            assert stacks.ChildStacks().of(other.pid) == []
            assert other.poll() is None
        finally:
            other.kill()


def test_a_child_that_becomes_another_program_is_not_asked():
    """Until then it looks like any fork; the program would be ended by the signal."""
    asking = stacks.ChildStacks()
    pid = os.fork()
    if not pid:
        time.sleep(0.2)
        os.execvp("sleep", ["sleep", "60"])
    try:
        assert asking.lasting([pid]) == set()
        until(lambda: kernel.name_of(pid) == "sleep")
        assert os.waitpid(pid, os.WNOHANG) == (0, 0)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def test_the_search_can_be_switched_off_and_a_wrong_number_is_the_usual_one():
    def seconds(text: str) -> float:
        return CaptureEnvironment.load({"TRACKSIDE_HANG_SECONDS": text}).hang_seconds

    assert [seconds("0"), seconds("3"), seconds(""), seconds("soon")] == [0.0, 3.0, 10.0, 10.0]


def test_frames_of_libraries_are_not_the_script():
    frames: Any = stacks.frames_of(sys._getframe())
    assert frames[-1][2] == "test_frames_of_libraries_are_not_the_script"
    assert not stacks.is_of_library(frames[-1][0])
    assert stacks.is_of_library(json.__file__)
