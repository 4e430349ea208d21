"""Heat maps show every extreme, rows as the model has them, and only what was asked for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import trackside.capture as tc
from tests.job_processes import end_processes_of
from tests.jobs.conftest import ENVIRON, STAND_IN, make_spec, run_to_end
from tests.rules.recording import Recording
from tests.views.tensor_jobs import finished_job, running_job, trial_of
from trackside.capture.reading.cube import Cube
from trackside.errors import InvalidPattern, NoTensors
from trackside.jobs.jobs import Jobs
from trackside.page.feeds import TensorsFeed
from trackside.rules.report.heat_cells import heat_grid
from trackside.settings import Settings
from trackside.views.curves.binary_frame import decode
from trackside.views.tensors import open_trials
from trackside.views.tensors.heat_map import (
    NOT_FINITE,
    NOT_SAVED,
    NUM_LEVELS,
    ZERO,
    HeatMaps,
    HeatRequest,
)
from trackside.views.tensors.open_trials import OpenTrials


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    monkeypatch.setenv("TRACKSIDE_S3", "embedded")
    settings = Settings.load({"TRACKSIDE_HOME": str(tmp_path / "home")})
    yield Jobs(settings, ENVIRON, supervisor_command=STAND_IN)
    end_processes_of(settings.home)


@pytest.fixture
def maps(jobs: Jobs) -> HeatMaps:
    return HeatMaps(OpenTrials(jobs.settings.layout))


def heat(maps: HeatMaps, record: Any, kind: str = "gradients", **request: Any) -> Any:
    [item] = decode(maps.heat(record, HeatRequest(kind, **request)))
    item["cells"] = item["arrays"]["cells"].reshape(len(item["names"]), -1)
    return item


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.z_first = nn.Linear(8, 8)
        self.act = nn.ReLU()
        self.a_second = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.a_second(self.act(self.z_first(x)))
        return out


def train(folder: Path, **options: Any) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), *[Block() for _ in range(11)], nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    every = {"every": 1, "collections": ["gradients", "weights", "biases", "losses"], **options}
    with tc.watch(model, out_dir=folder, **every):
        for _ in range(5):
            optimizer.zero_grad()
            scores = model(torch.randn(16, 4))
            nn.functional.cross_entropy(scores, torch.randint(0, 3, (16,))).backward()
            optimizer.step()


@pytest.mark.parametrize("reductions", [(), ("l2", "max")])
def test_the_maps_of_a_training(jobs: Jobs, maps: HeatMaps, reductions: tuple[str, ...]):
    record = finished_job(jobs)
    train(trial_of(jobs, record), reductions=reductions)
    tensors = maps.tensors(record)
    kinds = {kind["kind"]: kind for kind in tensors.pop("kinds")}
    assert tensors == {
        "workers": ["worker_0"],
        "modes": ["TRAIN"],
        "first_step": 0,
        "last_step": 4,
    }
    assert {name: kind["count"] for name, kind in kinds.items()} == {
        "gradients": 48,
        "weights": 24,
        "biases": 24,
        "activations": 35,
        "update_ratio": 1,
        "losses": 1,
    }
    assert kinds["activations"]["figures"] == ["std", "dead_share", "zero_share"]
    assert kinds["gradients"]["figure"] == ("l2" if reductions else "abs_mean")
    item = heat(maps, record)
    blocks = [f"{number}.{part}" for number in range(1, 12) for part in ("z_first", "a_second")]
    layers = ["0", *blocks, "12"]
    parts = [f"{layer}.{part}" for layer in layers for part in ("weight", "bias")]
    assert item["names"] == [f"gradient/Sequential_{part}" for part in parts]
    assert item["cells"].shape == (48, 5)
    assert item["cells"].max() <= 250
    assert item["arrays"]["steps"].tolist() == [0, 1, 2, 3, 4]
    assert (item["log"], item["diverging"]) == (True, False)
    activations = heat(maps, record, "activations")
    assert [name.split("/")[2] for name in activations["names"][:4]] == [
        "0",
        "1.z_first",
        "1.act",
        "1.a_second",
    ]
    shares = heat(maps, record, "activations", figure="zero_share")
    assert (len(shares["names"]), shares["log"]) == (11, False)
    ratio = heat(maps, record, "update_ratio")
    assert ratio["diverging"]
    assert (ratio["dark"] + ratio["bright"]) / 2 == pytest.approx(-3)
    signed = heat(maps, record, "weights", figure="max")
    assert not signed["log"]


def test_every_code_of_a_cell(jobs: Jobs, maps: HeatMaps):
    record = finished_job(jobs)
    recording = Recording(trial_of(jobs, record))
    values = {"a": [1.0, 10.0, 0.0, float("nan")], "b": [100.0, float("inf"), 1000.0, 1.0]}
    for step in range(4):
        names = ["a", "b"] if step else ["a"]
        recording.step(step, {f"gradient/{name}": [values[name][step]] * 2 for name in names})
    recording.close()
    item = heat(maps, record)
    assert item["names"] == ["gradient/a", "gradient/b"]
    assert item["cells"].tolist() == [
        [0, 85, ZERO, NOT_FINITE],
        [NOT_SAVED, NOT_FINITE, 250, 0],
    ]
    assert (item["low"], item["high"]) == (0, 3)


def test_no_extreme_is_lost(jobs: Jobs, maps: HeatMaps):
    record = finished_job(jobs)
    recording = Recording(trial_of(jobs, record))
    rng = np.random.default_rng(0)
    for step in range(600):
        recording.figures(step, ("l2",), {f"gradient/{row}": [rng.uniform(1, 2)] for row in "abc"})
    spikes = {601 + 7 * number: "abc"[number % 3] for number in range(20)}
    for step in range(600, 900):
        rows = {row: [1000.0 if spikes.get(step) == row else 1.0] for row in ("a", "b", "c")}
        recording.figures(step, ("l2",), {f"gradient/{row}": one for row, one in rows.items()})
    recording.close()
    item = heat(maps, record, columns=50)
    starts = item["arrays"]["starts"]
    assert len(starts) == 50
    for step, row in spikes.items():
        column = int(np.searchsorted(starts, step, side="right")) - 1
        assert item["cells"]["abc".index(row), column] == 250
    assert item["high"] == 3
    zoomed = heat(maps, record, columns=50, first=601, last=640)
    assert zoomed["arrays"]["steps"].tolist() == list(range(601, 641))
    assert [step + 601 for step in np.flatnonzero((zoomed["cells"] == 250).any(axis=0))] == [
        step for step in spikes if step <= 640
    ]


def test_a_filter_and_a_worker_and_a_mode(jobs: Jobs, maps: HeatMaps):
    record = finished_job(jobs)
    folder = trial_of(jobs, record)
    recordings = [Recording(folder, worker=f"worker_{rank}", num_workers=2) for rank in range(2)]
    for rank, recording in enumerate(recordings):
        for step in range(6):
            mode = "EVAL" if step % 3 == 2 else "TRAIN"
            tensors = {f"gradient/{layer}": [10.0**rank] for layer in ("x.1", "x.2", "y.1")}
            recording.step(step, tensors, mode)
        recording.close(end_marker=rank == 1)
    assert heat(maps, record, filter=r"^gradient/x\.\d")["names"] == [
        "gradient/x.1",
        "gradient/x.2",
    ]
    assert heat(maps, record, filter="y.1")["names"] == ["gradient/y.1"]
    assert heat(maps, record, worker="worker_1")["low"] == 0.5  # around 1
    assert heat(maps, record, mode="EVAL")["arrays"]["steps"].tolist() == [0, 1]
    assert heat(maps, record, mode="TRAIN")["arrays"]["steps"].tolist() == [0, 1, 2, 3]
    refused = {
        "kind": "no tensors of kind 'other'",
        "figure": "'l9' of gradients was not saved",
        "filter": "No tensor of kind gradients matches",
        "worker": "Worker 'worker_7'",
        "mode": "is no mode",
    }
    for key, value in {"figure": "l9", "filter": "zz", "worker": "worker_7", "mode": "x"}.items():
        with pytest.raises(NoTensors, match=refused[key]):
            heat(maps, record, **{key: value})
    with pytest.raises(NoTensors, match="There are: gradients"):
        heat(maps, record, "other")
    with pytest.raises(NoTensors, match="at these steps"):
        heat(maps, record, first=100)
    with pytest.raises(InvalidPattern):
        heat(maps, record, filter="(")
    with pytest.raises(NoTensors, match="matches"):  # at once, however long `re` would take
        heat(maps, record, filter="((g|r|a|d|i|e|n|t|/)+)+$")


def test_a_running_job_grows(jobs: Jobs, maps: HeatMaps, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(open_trials, "FRESH_SECONDS", 0.0)
    record = running_job(jobs)
    with pytest.raises(NoTensors, match="has saved no tensors yet"):
        maps.tensors(record)
    recording = Recording(trial_of(jobs, record))
    recording.step(0, {"gradient/a": [1.0]})
    recording._writer.flush(60)
    assert heat(maps, record)["arrays"]["steps"].tolist() == [0]
    feed = TensorsFeed(jobs, maps._trials, "job-1")
    assert feed.poll() == []
    nothing = heat(maps, record, first=1.0, scale=(-1.0, 1.0))
    assert (nothing["names"], nothing["arrays"]["steps"].tolist()) == (["gradient/a"], [])
    recording.step(1, {"gradient/a": [1.0]})
    recording.close()
    assert heat(maps, record)["arrays"]["steps"].tolist() == [0, 1]
    assert feed.poll() == [("tensors", {"job": "job-1", "last_step": 1})]
    assert feed.poll() == []
    part = heat(maps, record, first=1.0, scale=(-1.0, 1.0))
    assert (part["dark"], part["bright"], part["arrays"]["steps"].tolist()) == (-1.0, 1.0, [1])
    assert part["cells"].tolist() == [[NUM_LEVELS // 2]]


def test_a_job_without_a_hook(jobs: Jobs, maps: HeatMaps):
    jobs.submit(make_spec())
    run_to_end(jobs)
    with pytest.raises(NoTensors, match="saves no tensors"):
        maps.tensors(jobs.record("job-1"))


@given(st.data())
def test_a_cell_is_the_largest_of_its_steps(data: st.DataObject):
    steps = sorted(data.draw(st.sets(st.integers(0, 60), min_size=1, max_size=20)))
    number = st.floats(-100, 100) | st.sampled_from([0.0, np.nan, np.inf])
    values = np.array(
        data.draw(st.lists(st.tuples(number, number), min_size=len(steps), max_size=len(steps)))
    )
    saved = np.array(
        data.draw(
            st.lists(
                st.tuples(st.booleans(), st.booleans()), min_size=len(steps), max_size=len(steps)
            )
        )
    )
    values[~saved] = np.nan
    most, is_log = data.draw(st.integers(1, 12)), data.draw(st.booleans())
    grid = heat_grid(Cube(tuple(steps), ("a", "b"), values, saved), most, is_log=is_log)
    assert grid is not None
    ends = [*grid.starts[1:], np.inf]
    assert len(grid.starts) <= most
    for column, (start, end) in enumerate(zip(grid.starts, ends, strict=True)):
        inside = [i for i, step in enumerate(steps) if start - 1e-6 <= step < end - 1e-6]
        for row in range(2) if inside else ():
            seen = [values[i, row] for i in inside if saved[i, row]]
            level = grid.levels[row, column]
            if not seen:
                assert np.isnan(level)
            elif not np.isfinite(seen).all():
                assert level == np.inf
            elif is_log:
                largest = max(map(abs, seen))
                assert level == (np.log10(largest) if largest else -np.inf)
            else:
                assert level in seen
                assert abs(level) == max(map(abs, seen))
