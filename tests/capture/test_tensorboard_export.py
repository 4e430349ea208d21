import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.capture.networks import Net, train
from trackside.capture.hook import Hook
from trackside.capture.modes import ModeKeys
from trackside.capture.selection.save_config import SaveConfig
from trackside.capture.sinks.tensorboard_export import add_histogram, clean_tag
from trackside.capture.trial_layout import FAILURES
from trackside.curves.event_file import EventFile

accumulator = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator", reason="TensorBoard is the judge"
)


def load(folder: Path) -> Any:
    read = accumulator.EventAccumulator(str(folder), {"scalars": 0, "histograms": 0})
    read.Reload()
    return read


def test_scalars_and_histograms_are_read_by_tensorboard_itself(tmp_path):
    values = np.concatenate([np.random.default_rng(0).normal(size=1000), [np.nan, np.inf, 0.0]])
    file = EventFile(tmp_path)
    file.add((clean_tag("a b/ü?"), 2.5, 7, 100.0))
    add_histogram(file, "values", torch.from_numpy(values), 7, 100.0)
    add_histogram(file, "huge", torch.tensor([-1e30, 1e30, 1e-20]), 7, 100.0)
    add_histogram(file, "nothing", torch.tensor([torch.nan]), 7, 100.0)
    file.close()

    read = load(tmp_path)
    (scalar,) = read.Scalars("a_b/ü_")
    assert (scalar.step, scalar.value, scalar.wall_time) == (7, 2.5, 100.0)
    (event,) = read.Histograms("values")
    histogram = event.histogram_value
    finite = values[np.isfinite(values)]
    assert histogram.num == finite.size
    assert histogram.min == finite.min()
    assert histogram.sum == pytest.approx(finite.sum())
    assert sum(histogram.bucket) == finite.size
    assert sum(read.Histograms("huge")[0].histogram_value.bucket) == 3


def test_the_hook_exports_losses_scalars_and_histograms_by_mode(tmp_path):
    model, criterion = Net(), nn.CrossEntropyLoss()
    hook = Hook(
        tmp_path / "t",
        tensorboard_dir=str(tmp_path / "tb"),
        save_config=SaveConfig(save_interval=2),
        include_collections=["weights"],
    )
    hook.get_collection("weights").save_histogram = True
    hook.register_module(model)
    hook.register_loss(criterion)
    hook.set_mode(ModeKeys.TRAIN)
    train(model, 3, criterion=criterion, each=lambda step: hook.save_scalar("accuracy", step))
    hook.set_mode(ModeKeys.EVAL)
    model(torch.randn(4, 1, 6, 6))
    hook.save_scalar("accuracy", 9)
    hook.close()

    trained = load(tmp_path / "tb" / "TRAIN")
    assert [s.step for s in trained.Scalars("CrossEntropyLoss_output_0")] == [0, 2]
    assert [s.value for s in trained.Scalars("scalar/accuracy")] == [0, 1, 2]
    assert len(trained.Histograms("weights/Net_out.weight")) == 2
    assert [s.step for s in load(tmp_path / "tb" / "EVAL").Scalars("scalar/accuracy")] == [3]


def test_event_files_cannot_go_to_an_object_store_and_the_hook_reports_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hook = Hook(tmp_path / "t", tensorboard_dir="gs://bucket/run/tensorboard")
    model = Net()
    hook.register_module(model)
    train(model, 1)
    hook.close()

    (problem,) = json.loads((tmp_path / "t" / FAILURES).read_text())["errors"]
    assert "'gs://bucket/run/tensorboard'" in problem["message"]
    assert not (tmp_path / "gs:").exists()


def test_the_folder_may_be_in_ones_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    hook = Hook(tmp_path / "t", tensorboard_dir="~/curves")
    hook.save_scalar("x", 2.5)
    hook.close()

    (scalar,) = load(tmp_path / "curves" / "GLOBAL").Scalars("scalar/x")
    assert scalar.value == 2.5
