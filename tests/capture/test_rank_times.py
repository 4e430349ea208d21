"""Step times of every process of a group: bounded, also of those that save nothing."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from torch import nn
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from trackside.capture.reading.rank_times import WorkerTimes, read_rank_times
from trackside.capture.reading.trial_folder import TrialFolder
from trackside.capture.steps import rank_times
from trackside.capture.steps.rank_times import RankTimes
from trackside.storage.locate import locate

DDP = """
import sys, time, torch, torch.distributed as dist
from torch import nn
from trackside.capture.hook import Hook
from trackside.capture.selection.save_config import SaveConfig

def train(out_dir, workers, vitals):
    model = nn.parallel.DistributedDataParallel(nn.Linear(64, 1))
    hook = Hook(
        out_dir,
        save_config=SaveConfig(save_interval=1),
        include_collections=["losses"],
        include_workers=workers,
        vitals=vitals,
    )
    hook.register_module(model)
    hook.follow_training()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(8):
        if dist.get_rank() == 1:
            time.sleep(0.2)  # the other one waits for it
        optimizer.zero_grad()
        model(torch.randn(8, 64)).square().mean().backward()
        optimizer.step()
        if step == 3:
            model.eval()
            with torch.no_grad():
                model(torch.randn(8, 64))
            model.train()
    hook.close()
    assert hook.failures.count == 0, hook.failures._kinds

dist.init_process_group("gloo")
torch.set_num_threads(1)
for number in range(1, len(sys.argv), 3):
    train(*sys.argv[number : number + 3])
dist.destroy_process_group()
"""
"""One training after another: its arguments are folder, workers and vitals of each."""


def run_two(script: str, *arguments: str) -> None:
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    environ = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    environ |= {"MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    with ExitStack() as running:
        processes = [
            running.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", script, *arguments],
                    env={**environ, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                )
            )
            for rank in range(2)
        ]
        try:
            assert [process.wait(300) for process in processes] == [0, 0]
        finally:
            for process in processes:
                process.kill()


def times_in(folder: Path) -> list[WorkerTimes]:
    return read_rank_times(TrialFolder(locate(folder, home=folder)))


def test_every_rank_records_its_steps_and_how_long_it_waits(tmp_path: Path):
    """And without vitals nothing. One group of processes does it all: most time is its start."""
    one, every, off = (tmp_path / name for name in ("one", "all", "off"))
    run_two(DDP, *(str(one), "one", "on"), *(str(every), "all", "on"), *(str(off), "one", "off"))
    check_times(one)
    check_times(every)
    assert off.exists()
    assert times_in(off) == []


def check_times(folder: Path) -> None:
    first, second = times_in(folder)
    assert (first.worker, second.worker) == ("worker_0", "worker_1")
    for each in (first, second):
        # Step 3, before the evaluation, and the last one have no training step after them.
        assert each.first.tolist() == [0, 1, 2, 5, 6, 7]
        assert (each.longest >= 0.19).all()
    measured = np.isfinite(first.wait) & np.isfinite(second.wait)
    assert measured.sum() >= 3
    assert np.median(first.wait[measured]) > np.median(second.wait[measured])
    assert np.median(first.wait[measured]) > 0.1


class Clock:
    """Of `time.perf_counter`."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(rank_times, "time", clock)
    monkeypatch.setattr(rank_times, "MOST_ROWS", 8)
    return clock


def test_a_long_training_is_summed_up(clock: Clock):
    written: list[str] = []
    times = RankTimes("worker_3", 4, written.append)
    model = nn.Linear(1, 1)
    for step in range(1001):
        times.begin(model, step, trains=True)
        clock.now += 5.0 if step == 777 else 0.5
    times.close()
    content = json.loads(written[-1])
    assert (content["worker"], content["num_workers"]) == ("worker_3", 4)
    rows = content["rows"]
    assert len(rows) <= 8
    assert sum(row[2] for row in rows) == 1000
    assert sum(row[3] for row in rows) == pytest.approx(504.5)
    assert [row[4] for row in rows if row[0] <= 777 <= row[1]] == [5.0]
    assert all(after[0] == before[1] + 1 for before, after in zip(rows, rows[1:], strict=False))


def test_evaluation_does_not_count(clock: Clock):
    written: list[str] = []
    times = RankTimes("worker_0", 2, written.append)
    model = nn.Linear(1, 1)
    for step, trains in enumerate([True, True, False, False, True, True, True]):
        times.begin(model, step, trains=trains)
        clock.now += 1.0
    times.close()
    assert [row[:2] for row in json.loads(written[-1])["rows"]] == [[0, 0], [4, 4], [5, 5]]


def test_a_disk_that_is_full_does_not_hurt(clock: Clock):
    def refuse(text: str) -> None:
        raise OSError("no space left")

    times = RankTimes("worker_0", 2, refuse)
    for step in range(5):
        times.begin(nn.Linear(1, 1), step, trains=True)
    times.close()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"rows": 1}',
        b'{"rows": [[1, 2]]}',
        b'{"rows": [["a", 1, 1, 1, 1, 1, 1]]}',
        b'{"rows": [[0, 0, 1, NaN, 1, 1, 1]]}',
        b'{"rows": [[0, 0, 1, 1e999, 1, 1, 1]]}',
        b"\xff",
    ],
)
def test_a_damaged_file_is_left_out(tmp_path: Path, content: bytes):
    folder = tmp_path / "ranks"
    folder.mkdir()
    good = {"host": "h", "rows": [[0, 0, 1, 2.0, 2.0, 0, 0]]}
    (folder / "worker_10.json").write_text(json.dumps(good))
    (folder / "worker_9.json").write_text(json.dumps(good))
    (folder / "worker_1.json").write_bytes(content)
    (folder / ".trackside-1.part").write_text("half")
    (folder / "other.txt").write_text("")
    assert [each.worker for each in times_in(tmp_path)] == ["worker_9", "worker_10"]
