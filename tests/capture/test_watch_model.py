import copy
from typing import Any

import pytest
import torch
from torch import nn

import trackside.capture as tc
from tests.capture.networks import Net, batch, read, train
from trackside.capture.modes import ModeKeys


def test_the_public_name_is_a_context_manager_outside_of_jobs(tmp_path):
    model = Net()
    with tc.watch(
        model, out_dir=tmp_path / "t", collections=["gradients", "losses"], every=2
    ) as hook:
        losses = train(model, 3)
        model.eval()
        model(batch()[0])

    trial = read(tmp_path / "t")
    assert trial.steps(ModeKeys.TRAIN) == [0, 2]
    assert trial.tensor_names(collection="losses") == ["loss_output_0"]
    assert float(trial.tensor("loss_output_0").value(2)) == losses[2]
    assert "gradient/Net_out.weight" in trial.tensor_names()
    assert hook.mode_steps[ModeKeys.EVAL] == 0
    assert tc.get_hook() is None


def test_a_loss_module_that_is_named_is_not_recorded_twice(tmp_path):
    model, criterion = Net(), nn.CrossEntropyLoss()
    with tc.watch(model, criterion, out_dir=tmp_path / "t", every=1):
        train(model, 2, criterion=criterion)

    outputs = [name for name in read(tmp_path / "t").tensor_names() if "output" in name]
    assert outputs == ["CrossEntropyLoss_output_0"]


def test_a_scaled_loss_is_recorded_unscaled(tmp_path):
    model = nn.Linear(2, 1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with tc.watch(model, out_dir=tmp_path / "t", every=1):
        loss = model(torch.ones(1, 2)).sum()
        scaler.scale(loss).backward()

    assert float(read(tmp_path / "t").tensor("loss_output_0").value(0)) == loss.item()


def test_reductions_may_be_named(tmp_path):
    model = Net()
    with tc.watch(
        model,
        out_dir=tmp_path / "t",
        collections=["weights"],
        every=1,
        reductions=["l2", "abs_max"],
    ):
        train(model, 1)

    weight = read(tmp_path / "t").tensor("Net_out.weight")
    assert set(weight.reduction_values(0)) == {("l2", False), ("max", True)}


def test_a_model_saved_within_the_block_works_without_the_hook(tmp_path):
    model = Net()
    with tc.watch(model, out_dir=tmp_path / "t", collections=["all"], every=1):
        train(model, 1)
        twin = copy.deepcopy(model)
        twin(batch()[0])

    assert read(tmp_path / "t").steps() == [0]


def test_torch_is_as_it_was_after_the_block(tmp_path):
    before = torch.Tensor.backward
    model = Net()
    with tc.watch(model, out_dir=tmp_path / "t"):
        assert torch.Tensor.backward is not before
        train(model, 1)

    assert torch.Tensor.backward is before
    assert not model._forward_pre_hooks
    assert not any(module._forward_hooks for module in model.modules())


def test_an_exception_in_the_block_passes_and_the_trial_is_ended(tmp_path):
    model = Net()

    def fail_late(step: int) -> None:
        if step == 2:
            raise ZeroDivisionError

    watching = tc.watch(model, out_dir=tmp_path / "t", ring=2, every=1)
    with pytest.raises(ZeroDivisionError), watching:
        train(model, 3, each=fail_late)

    assert read(tmp_path / "t").steps() == [1, 2]


WRAPPED = [
    (torch.Tensor, "backward"),
    (torch.autograd, "backward"),
    (torch.amp.GradScaler, "scale"),
]


def test_after_the_block_torch_is_as_it_was(tmp_path):
    before = [getattr(owner, name) for owner, name in WRAPPED]
    for number in range(2):
        with tc.watch(Net(), out_dir=tmp_path / str(number)):
            assert all(getattr(o, n) is not f for (o, n), f in zip(WRAPPED, before, strict=True))

    assert [getattr(owner, name) for owner, name in WRAPPED] == before


def test_what_other_code_has_wrapped_meanwhile_stays_wrapped(tmp_path, monkeypatch):
    calls = []
    with tc.watch(Net(), out_dir=tmp_path / "t"):
        ours: Any = torch.Tensor.backward

        def counted(tensor: torch.Tensor) -> None:
            calls.append(tensor)
            ours(tensor)

        monkeypatch.setattr(torch.Tensor, "backward", counted)

    nn.Linear(2, 1)(torch.ones(1, 2)).sum().backward()
    assert len(calls) == 1


def test_a_model_that_joins_a_saved_step_is_seen_in_it(tmp_path):
    class Head(nn.Linear):
        pass

    first, second = Net(), Head(3, 1)
    with tc.watch(first, out_dir=tmp_path / "t", collections=["all"], every=1) as hook:
        features = first(batch()[0])
        hook.register_module(second)
        second(features).sum().backward()

    trial = read(tmp_path / "t")
    assert trial.steps() == [0]
    assert {"Head_weight", "Head_output_0", "Net_output_0"} <= {*trial.tensor_names(step=0)}
