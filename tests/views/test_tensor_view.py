"""One tensor: figures, histograms and values, of whatever was saved of it."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.capture.trials import collections_json
from tests.job_processes import end_processes_of
from tests.jobs.conftest import ENVIRON, STAND_IN
from tests.rules.recording import Recording
from tests.views.tensor_jobs import finished_job, trial_of
from trackside.capture.writing.segments import StepRecord
from trackside.capture.writing.writer import SegmentWriter
from trackside.errors import NoTensors
from trackside.jobs.jobs import Jobs
from trackside.settings import Settings
from trackside.views.tensors.open_trials import OpenTrials
from trackside.views.tensors.tensor_view import MOST_VALUES, NUM_HISTOGRAMS, TensorView, extremes


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    monkeypatch.setenv("TRACKSIDE_S3", "embedded")
    settings = Settings.load({"TRACKSIDE_HOME": str(tmp_path / "home")})
    yield Jobs(settings, ENVIRON, supervisor_command=STAND_IN)
    end_processes_of(settings.home)


@pytest.fixture
def view(jobs: Jobs) -> TensorView:
    return TensorView(OpenTrials(jobs.settings.layout))


def test_a_tensor_whose_values_were_saved(jobs: Jobs, view: TensorView):
    record = finished_job(jobs)
    recording = Recording(trial_of(jobs, record))
    values = [np.arange(6.0).reshape(2, 3) * step for step in range(200)]
    values[-1][0, 0] = np.nan
    for step, value in enumerate(values):
        recording.step(step, {"w": value})
    recording.close()
    shown = view.tensor(record, "w")
    assert json.loads(json.dumps(shown)) == shown
    assert (shown["shape"], shown["dtype"]) == ([2, 3], "float32")
    assert len(shown["steps"]) == NUM_HISTOGRAMS
    assert (shown["steps"][0], shown["steps"][-1]) == (0, 199)
    assert shown["figures"]["max"][1] == 5.0 * shown["steps"][1]
    assert shown["figures"]["max"][-1] == "NaN"
    histogram = shown["histogram"]
    assert histogram["steps"] == shown["steps"]
    assert [sum(counts) for counts in histogram["counts"]] == [6] * 59 + [5]
    assert histogram["edges"][1][-1] == 5.0 * shown["steps"][1]
    assert view.values(record, "w", 7) == {
        "shape": [2, 3],
        "values": [[0.0, 7.0, 14.0], [21.0, 28.0, 35.0]],
        "whole": True,
        "step": 7,
    }
    assert view.values(record, "w", 10_000)["values"][0][0] == "NaN"


def test_a_tensor_of_which_only_figures_were_saved(jobs: Jobs, view: TensorView):
    record = finished_job(jobs)
    recording = Recording(trial_of(jobs, record))
    for step in (0, 10, 20):
        recording.figures(step, ("l2", "min"), {"g": [step + 1.0, -1.0]})
    recording.close()
    assert view.tensor(record, "g") == {
        "name": "g",
        "shape": None,
        "dtype": "",
        "steps": [0, 10, 20],
        "figures": {"l2": [1.0, 11.0, 21.0], "min": [-1.0, -1.0, -1.0]},
        "histogram": None,
    }
    with pytest.raises(NoTensors, match="no values were saved, only figures"):
        view.values(record, "g", 10)


def test_a_number(jobs: Jobs, view: TensorView):
    record = finished_job(jobs)
    recording = Recording(trial_of(jobs, record))
    for step in range(3):
        recording.step(step, {"loss": 0.5 * step}, "EVAL" if step == 2 else "TRAIN")
    recording.close()
    shown = view.tensor(record, "loss", mode="TRAIN", worker="worker_0")
    assert (shown["steps"], shown["figures"]) == ([0, 1], {"value": [0.0, 0.5]})
    assert shown["histogram"] is None
    assert view.values(record, "loss", 2)["values"] == 1.0


@pytest.mark.parametrize("shape", [(5000,), (65, 64), (3, 4, 5, 100), (1, 100_000), (2,) * 14])
def test_of_a_large_tensor_a_corner_is_shown(jobs: Jobs, view: TensorView, shape: tuple[int, ...]):
    record = finished_job(jobs)
    recording = Recording(trial_of(jobs, record))
    value = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    recording.step(0, {"w": value})
    recording.close()
    shown = view.values(record, "w", 0)
    part = np.array(shown["values"])
    assert (shown["shape"], shown["whole"]) == ([*shape], False)
    assert MOST_VALUES / 2 < part.size <= MOST_VALUES
    assert (part == value[tuple(slice(size) for size in part.shape)]).all()


def test_values_that_no_bins_can_tell_apart(jobs: Jobs, view: TensorView):
    record = finished_job(jobs)
    recorded = [[1e308, -1e308], [1e16, 1e16 + 2], [np.nan, np.inf], [3.0, 3.0]]
    with SegmentWriter(str(trial_of(jobs, record)), "worker_0", home=jobs.settings.home) as writer:
        writer.put_collections(collections_json())
        for step, values in enumerate(recorded):
            tensors = {"w": np.array(values)}
            writer.add(StepRecord(step, "TRAIN", step, 1.0, tensors=tensors))
    histogram = view.tensor(record, "w")["histogram"]
    assert [sum(counts) for counts in histogram["counts"]] == [2, 2, 0, 2]


def test_what_was_not_saved(jobs: Jobs, view: TensorView):
    record = finished_job(jobs)
    with SegmentWriter(str(trial_of(jobs, record)), "worker_0", home=jobs.settings.home) as writer:
        writer.put_collections(collections_json())
        writer.add(StepRecord(0, "TRAIN", 0, 1.0, shapes={"seen": (3, 4)}))
    shown = view.tensor(record, "seen")
    assert (shown["shape"], shown["figures"], shown["histogram"]) == ([3, 4], {}, None)
    with pytest.raises(NoTensors, match="No tensor 'other'"):
        view.tensor(record, "other")
    with pytest.raises(NoTensors, match="Worker 'w9'"):
        view.values(record, "seen", 0, worker="w9")


def test_many_steps_keep_their_extremes():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3, 100_000))
    rows[1, 777], rows[2, 5555], rows[0, 99_999] = 50.0, -50.0, np.nan
    kept = extremes(rows, 100)
    assert len(kept) < 1100
    assert {0, 777, 5555, 99_999} <= {*kept}
    assert kept == sorted(kept)
    assert extremes(rows[:, :150], 100) == list(range(150))


@pytest.mark.parametrize("mode", ["", "TRAIN", "EVAL"])
@pytest.mark.parametrize("is_whole", [True, False])
def test_what_is_new_is_what_the_whole_has_behind_a_step(
    jobs: Jobs, view: TensorView, mode: str, is_whole: bool
):
    record = finished_job(jobs)
    recording = Recording(trial_of(jobs, record))
    for step in range(12):
        if is_whole:
            recording.step(step, {"w": [step, 1.0]}, mode="EVAL" if step % 3 == 0 else "TRAIN")
        else:
            recording.figures(step, ("l2", "min"), {"w": [step + 1.0, -1.0]})
    recording.close()
    if not is_whole and mode == "EVAL":
        return  # figures are of training
    whole = view.tensor(record, "w", mode=mode)
    for after in (0, whole["steps"][-2], whole["steps"][-1], 100):
        new = view.tensor(record, "w", mode=mode, after=after)
        at = sum(step <= after for step in whole["steps"])
        assert new["steps"] == whole["steps"][at:]
        for figure, values in new["figures"].items():
            assert values == whole["figures"][figure][at:]
