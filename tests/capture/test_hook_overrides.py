"""Subclasses of `Hook`, as AWS's examples write them: what they override is called."""

import copy
import logging
import pickle
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch
from torch import nn

from tests.capture.networks import Net, assert_no_failure, batch, read, train
from trackside.capture.hook import Hook, get_hook
from trackside.capture.modes import ModeKeys
from trackside.capture.selection.save_config import SaveConfig

H = TypeVar("H", bound=Hook)
EVERY_STEP = SaveConfig(save_interval=1)
PARTS = ["Net", "conv1", "relu", "seq", "seq.0", "seq.1", "sub", "sub.fc", "sub.relu", "bn", "out"]


@pytest.fixture(autouse=True)
def _no_hook_left_over():
    torch.manual_seed(0)
    yield
    hook = get_hook()
    if hook is not None:
        hook.close()


class OfTheExample(Hook):
    """Records what images and activations do to the result, and what batch norms have learnt."""

    def image_gradients(self, image: torch.Tensor) -> None:
        image.register_hook(self.backward_hook("image"))

    def forward_hook(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
        name = self.module_maps[module]
        assert module._module_name == name
        self._write_inputs(name, inputs)
        if self.mode == ModeKeys.EVAL and isinstance(outputs, torch.Tensor):
            outputs.register_hook(self.backward_hook(f"{name}_output"))
            if isinstance(module, nn.BatchNorm1d):
                self._write_outputs(f"{name}.running_mean", module.running_mean)
        self._write_outputs(name, outputs)
        self.last_saved_step = self.step


def extended(kind: type[H], folder: Path, **options: Any) -> tuple[H, nn.Module, nn.Module]:
    hook = kind(folder, **{"save_config": EVERY_STEP, "save_all": True, **options})
    model, criterion = Net(), nn.CrossEntropyLoss()
    hook.register_module(model)
    hook.register_loss(criterion)
    return hook, model, criterion


def test_an_overridden_forward_hook_decides_what_is_saved(tmp_path: Path):
    hook, model, criterion = extended(OfTheExample, tmp_path / "t")
    hook.set_mode(ModeKeys.TRAIN)
    train(model, 1, criterion=criterion)
    hook.set_mode(ModeKeys.EVAL)
    model.eval()
    inputs, targets = batch()
    inputs.requires_grad = True
    hook.image_gradients(inputs)
    criterion(model(inputs), targets).backward()
    assert hook.last_saved_step == 1
    hook.close()
    assert_no_failure(hook)

    trial = read(tmp_path / "t")
    training, evaluation = (set(trial.tensor_names(step=step)) for step in (0, 1))
    added = {f"gradient/{part}_output" for part in PARTS if part != "sub"}
    added |= {"gradient/image", "gradient/CrossEntropyLoss_output", "bn.running_mean_output_0"}
    assert added <= evaluation
    assert not added & training
    saved = torch.as_tensor(trial.tensor("gradient/image").value(1))
    assert inputs.grad is not None
    assert torch.equal(saved, inputs.grad)


def test_what_it_inherits_saves_what_a_plain_hook_saves(tmp_path: Path):
    class Same(Hook):
        def forward_pre_hook(self, module: nn.Module, inputs: Any) -> None:
            super().forward_pre_hook(module, inputs)

        def forward_hook(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
            super().forward_hook(module, inputs, outputs)

        def backward_hook(self, tname: str) -> Any:
            return super().backward_hook(tname)

    names, losses = [], []
    kinds: tuple[type[Hook], ...] = (Hook, Same)
    for kind in kinds:
        torch.manual_seed(0)
        hook, model, criterion = extended(kind, tmp_path / kind.__name__)
        train(model, 2, criterion=criterion)
        hook.close()
        assert_no_failure(hook)
        trial = read(tmp_path / kind.__name__)
        names.append([(name, trial.tensor(name).steps()) for name in trial.tensor_names()])
        losses.append(trial.tensor_names(collection="losses"))
    assert names[0] == names[1]
    assert losses[0] == losses[1] != []


def test_an_overridden_backward_hook_gets_every_gradient(tmp_path: Path):
    class Clipped(Hook):
        def backward_hook(self, tname: str) -> Any:
            save = super().backward_hook(tname)

            def back(gradient: torch.Tensor) -> torch.Tensor:
                changed = gradient.clamp(-1e-3, 1e-3)
                save(changed)
                return changed

            return back

    hook, model, criterion = extended(Clipped, tmp_path / "t")
    train(model, 1, criterion=criterion)
    hook.close()
    trial = read(tmp_path / "t")
    names = trial.tensor_names(collection="gradients")
    assert len(names) == len(list(model.parameters()))
    for name, parameter in model.named_parameters():
        saved = torch.as_tensor(trial.tensor(f"gradient/Net_{name}").value(0))
        assert parameter.grad is not None
        assert torch.equal(saved, parameter.grad)
        assert saved.abs().max() <= 1e-3


def test_a_step_starts_when_the_inherited_pre_hook_is_called(tmp_path: Path):
    class EverySecond(Hook):
        calls = 0

        def forward_pre_hook(self, module: nn.Module, inputs: Any) -> None:
            self.calls += 1
            if self.calls % 2:
                super().forward_pre_hook(module, inputs)

    hook, model, criterion = extended(EverySecond, tmp_path / "t")
    train(model, 4, criterion=criterion)
    assert (hook.step, hook.calls) == (1, 4)


def test_what_it_raises_is_reported_and_training_continues(tmp_path: Path):
    class Broken(Hook):
        def forward_hook(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
            raise KeyError("mine")

        def backward_hook(self, tname: str) -> Any:
            def back(gradient: torch.Tensor) -> None:
                raise ValueError(tname)

            return back

    hook, model, criterion = extended(Broken, tmp_path / "t")
    assert len(train(model, 2, criterion=criterion)) == 2
    assert {where for where, _ in hook.failures._kinds} == {"forward_hook", "backward_hook"}


def test_nothing_is_called_after_close_and_the_model_can_be_copied(tmp_path: Path):
    class Counting(Hook):
        calls = 0

        def forward_hook(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
            type(self).calls += 1

    hook, model, _ = extended(Counting, tmp_path / "t")
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        other(batch()[0])
    assert Counting.calls == 0
    model(batch()[0])
    called = Counting.calls
    assert called == len(PARTS) + 1  # `relu` is called twice
    hook.close()
    model(batch()[0])
    assert Counting.calls == called


def test_methods_that_are_never_called_are_named_once(tmp_path: Path, caplog):
    class Deep(Hook):
        def _log_params(self, module: nn.Module) -> None: ...

    with caplog.at_level(logging.WARNING):
        Hook(tmp_path / "plain").close()
        assert not caplog.records
        Deep(tmp_path / "deep")
    assert [record.getMessage() for record in caplog.records] == [
        "Deep defines _log_params, which smdebug calls and Trackside does not. "
        "Override forward_pre_hook, forward_hook or backward_hook, or call save_tensor."
    ]
