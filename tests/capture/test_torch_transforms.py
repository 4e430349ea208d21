"""Scripted submodules and function transforms: capture sees what it can and changes nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from tests.capture.networks import assert_no_failure, read
from trackside.capture.hook import Hook
from trackside.capture.selection.reduction_config import ReductionConfig
from trackside.capture.selection.save_config import SaveConfig

Step = Callable[[nn.Module, Tensor], None]


def plain_net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 2))


def scripted_net() -> nn.Module:
    scripted: nn.Module = torch.jit.script(nn.Sequential(nn.Linear(8, 8), nn.ReLU()))
    return nn.Sequential(nn.Linear(4, 8), scripted, nn.Linear(8, 2))


def backward(model: nn.Module, inputs: Tensor) -> None:
    model.zero_grad()
    model(inputs).square().mean().backward()


def set_gradients(model: nn.Module, found: dict[str, Tensor]) -> None:
    for name, parameter in model.named_parameters():
        parameter.grad = found[name].detach()


def functional_gradient(model: nn.Module, inputs: Tensor) -> None:
    def loss(parameters: dict[str, Tensor]) -> Tensor:
        result: Tensor = functional_call(model, parameters, (inputs,)).square().mean()
        return result

    set_gradients(model, grad(loss)(dict(model.named_parameters())))


def per_sample_gradients(model: nn.Module, inputs: Tensor) -> None:
    def loss(parameters: dict[str, Tensor], sample: Tensor) -> Tensor:
        result: Tensor = functional_call(model, parameters, (sample,)).square().mean()
        return result

    each = vmap(grad(loss), in_dims=(None, 0))(dict(model.named_parameters()), inputs)
    set_gradients(model, {name: gradients.mean(0) for name, gradients in each.items()})


def trained(make: Callable[[], nn.Module], step: Step, out_dir: Path | None) -> list[Tensor]:
    torch.manual_seed(0)
    model = make()
    hook = None
    if out_dir is not None:
        hook = Hook(
            out_dir,
            save_config=SaveConfig(save_interval=1),
            save_all=True,
            reduction_config=ReductionConfig(["max", "sum"], save_raw_tensor=True),
        )
        hook.register_module(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        step(model, torch.randn(5, 4))
        optimizer.step()
    if hook is not None:
        hook.close()
        assert_no_failure(hook)
    return [parameter.detach().clone() for parameter in model.parameters()]


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize(
    ("make", "step"),
    [
        (scripted_net, backward),
        (plain_net, functional_gradient),
        (plain_net, per_sample_gradients),
    ],
    ids=["a scripted submodule", "torch.func.grad", "torch.func.vmap"],
)
def test_training_is_bit_identical_and_nothing_is_reported(tmp_path, make, step):
    watched = trained(make, step, tmp_path / "t")
    assert all(map(torch.equal, watched, trained(make, step, None)))
    trial = read(tmp_path / "t")
    assert trial.steps() == [0, 1, 2]
    assert "Sequential_0.weight" in trial.tensor_names()


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_scripted_submodule_is_seen_from_outside(tmp_path):
    trained(scripted_net, backward, tmp_path / "t")
    names = read(tmp_path / "t").tensor_names()
    assert {"Sequential_1.0.weight", "gradient/Sequential_1.0.weight", "0_output_0"} <= set(names)
