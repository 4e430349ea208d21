"""A trial that is opened in the process that writes it, while its hook is open."""

from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import torch
from torch import nn

from tests.capture.networks import Net, assert_no_failure, batch, read, train
from tests.capture.test_writer import point_at
from trackside.capture.hook import Hook
from trackside.capture.selection.save_config import SaveConfig
from trackside.capture.trial import create_trial

HOUR = "3600"
"""The age of segments: what is seen earlier is seen because of a flush."""


@pytest.fixture
def watched(tmp_path: Path, monkeypatch):
    """Makes hooks, a model with each, and closes them all."""
    monkeypatch.setenv("TRACKSIDE_CAPTURE_AGE", HOUR)
    torch.manual_seed(0)
    made = []

    def make(name: str = "trial", **options: Any) -> tuple[Hook, nn.Module, nn.Module]:
        every = SaveConfig(save_interval=1)
        hook = Hook(tmp_path / name, **{"save_all": True, "save_config": every, **options})
        model, criterion = Net(), nn.CrossEntropyLoss()
        hook.register_module(model)
        hook.register_loss(criterion)
        made.append(hook)
        return hook, model, criterion

    yield make
    for hook in made:
        hook.close()


def test_it_sees_everything_up_to_this_moment(watched, tmp_path: Path):
    hook, model, criterion = watched()
    losses = train(model, 3, criterion=criterion)
    hook.save_scalar("lr", 0.5)
    trial = create_trial(tmp_path / "trial")
    assert trial.steps() == [0, 1, 2]
    loss = trial.tensor("CrossEntropyLoss_output_0")
    assert [float(loss.value(step)) for step in loss.steps()] == pytest.approx(losses)
    assert trial.tensor("gradient/Net_out.weight").steps() == [0, 1, 2]
    assert trial.tensor("scalar/lr").steps() == [2]
    train(model, 2, criterion=criterion)
    assert trial.steps() == [0, 1, 2, 3, 4]  # the same trial, later
    hook.close()
    assert trial.steps() == [0, 1, 2, 3, 4]
    assert_no_failure(hook)


def test_reading_in_the_middle_of_a_step_loses_nothing_of_it(watched, tmp_path: Path):
    hook, model, criterion = watched()
    inputs, targets = batch()
    output = model(inputs)
    trial = create_trial(tmp_path / "trial")
    assert trial.tensor("out_output_0").steps() == [0]
    loss = criterion(output, targets)
    assert trial.tensor("CrossEntropyLoss_output_0").steps() == [0]
    loss.backward()
    criterion(output.detach(), targets)
    hook.close()
    whole = set(read(tmp_path / "trial").tensor_names())
    assert {f"gradient/Net_{name}" for name, _ in model.named_parameters()} <= whole
    assert {"CrossEntropyLoss_output_0", "CrossEntropyLoss_output_1"} <= whole
    assert read(tmp_path / "trial").steps() == [0]


def test_every_hook_of_the_process_is_flushed(watched, tmp_path: Path):
    _, model, criterion = watched("first")
    train(model, 2, criterion=criterion)
    _, other, criterion = watched("second")
    train(other, 1, criterion=criterion)
    assert create_trial(tmp_path / "first").steps() == [0, 1]
    assert create_trial(f"{tmp_path}/./second/").steps() == [0]


def test_another_thread_sees_what_is_written(watched, tmp_path: Path):
    """It must not reach into a step that the training thread is taking."""
    _, model, criterion = watched()
    train(model, 2, criterion=criterion)
    create_trial(tmp_path / "trial")
    train(model, 2, criterion=criterion)
    seen: list[list[int]] = []
    thread = Thread(target=lambda: seen.append(create_trial(tmp_path / "trial").steps()))
    thread.start()
    thread.join()
    assert seen == [[0, 1]]


def test_a_flight_recorder_keeps_its_steps(watched, tmp_path: Path):
    hook, model, criterion = watched(ring=5)
    train(model, 2, criterion=criterion)
    assert create_trial(tmp_path / "trial").steps() == []
    hook.dump()
    assert create_trial(tmp_path / "trial").steps() == [0, 1]


def test_a_trial_in_an_object_store_is_seen_as_well(watched, s3_server, monkeypatch):
    point_at(s3_server.url, monkeypatch)
    place = f"s3://{s3_server.make_bucket()}/one"
    hook = Hook(place, save_config=SaveConfig(save_interval=1))
    model, criterion = Net(), nn.CrossEntropyLoss()
    hook.register_module(model)
    hook.register_loss(criterion)
    train(model, 2, criterion=criterion)
    assert create_trial(place).steps() == [0, 1]
    hook.close()
    assert_no_failure(hook)
