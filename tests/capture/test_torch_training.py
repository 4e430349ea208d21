"""The ways of training that smdebug never met: half precision, scalers, checkpointing."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.capture.networks import assert_no_failure, read
from trackside.capture.hook import Hook
from trackside.capture.selection.reduction_config import ReductionConfig
from trackside.capture.selection.save_config import SaveConfig

EVERY_STEP = SaveConfig(save_interval=1)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4, bias=False)
        self.second = nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.second(torch.relu(self.first(x)))
        return result


def test_tied_parameters_appear_once_with_their_whole_gradient(tmp_path):
    model = Tied()
    hook = Hook(tmp_path / "t", save_config=EVERY_STEP, include_collections=["gradients"])
    hook.register_module(model)
    model(torch.ones(2, 4)).sum().backward()
    hook.close()

    trial = read(tmp_path / "t")
    assert trial.tensor_names() == ["gradient/Tied_first.weight"]
    assert model.first.weight.grad is not None
    np.testing.assert_array_equal(
        trial.tensor("gradient/Tied_first.weight").value(0), model.first.weight.grad.numpy()
    )


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpointed_block_is_seen_once(tmp_path, reentrant):
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(self.block, x, use_reentrant=reentrant)

    model = Checkpointed()
    hook = Hook(
        tmp_path / "t",
        save_config=EVERY_STEP,
        save_all=True,
        reduction_config=ReductionConfig(["max"]),
    )
    hook.register_module(model)
    for _ in range(2):
        model(torch.ones(2, 4, requires_grad=True)).sum().backward()
    hook.close()

    assert_no_failure(hook)
    assert hook.step == 1
    names = read(tmp_path / "t").tensor_names(regex="block")
    assert [name for name in names if "put" in name] == ["block_input_0", "block_output_0"]
    assert "gradient/Checkpointed_block.weight" in names


def test_a_root_that_is_recomputed_is_not_a_step_of_its_own(tmp_path):
    model = nn.Linear(4, 4)
    hook = Hook(tmp_path / "t", save_config=EVERY_STEP)
    hook.register_module(model)
    x = torch.ones(2, 4, requires_grad=True)
    checkpoint(model, x, use_reentrant=False).sum().backward()

    assert hook.step == 0
    hook.close()


@pytest.mark.parametrize(
    ("gradients_at", "expected"), [("backward", 2.0 * 1024), ("optimizer", 2.0)]
)
def test_gradients_under_a_scaler_are_scaled_or_final(tmp_path, gradients_at, expected):
    model = nn.Linear(2, 1, bias=False)
    hook = Hook(
        tmp_path / "t",
        save_config=EVERY_STEP,
        include_collections=["gradients"],
        gradients_at=gradients_at,
    )
    hook.register_module(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(model(torch.full((1, 2), 2.0)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    hook.close()

    value = read(tmp_path / "t").tensor("gradient/Linear_weight").value(0)
    assert value.tolist() == [[expected, expected]]


def test_autocast_outputs_are_kept_in_bfloat16_and_reduced_wide(tmp_path):
    model = nn.Linear(300, 300)
    hook = Hook(
        tmp_path / "t",
        save_config=EVERY_STEP,
        save_all=True,
        reduction_config=ReductionConfig(["sum"], save_raw_tensor=True),
    )
    hook.register_module(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = model(torch.ones(30, 300))
    hook.close()

    assert_no_failure(hook)
    saved = read(tmp_path / "t").tensor("Linear_output_0")
    assert np.asarray(saved.value(0), dtype=np.float32).tolist() == output.float().tolist()
    assert saved.reduction_value(0, "sum") == pytest.approx(output.double().sum().item(), rel=1e-4)


def test_outputs_in_dataclasses_are_seen(tmp_path):
    @dataclass
    class Output:
        logits: Tensor
        hidden: tuple[Tensor, ...]

    class Model(nn.Module):
        def forward(self, x: Tensor) -> Output:
            return Output(x + 1, (x, x * 2))

    model = Model()
    hook = Hook(tmp_path / "t", save_config=EVERY_STEP, save_all=True)
    hook.register_module(model)
    model(torch.ones(2))
    hook.close()

    names = read(tmp_path / "t").tensor_names()
    assert names == ["Model_input_0", *(f"Model_output_{index}" for index in range(3))]


def test_an_optimizer_that_steps_in_the_backward_hides_no_gradient(tmp_path):
    model = nn.Linear(3, 1, bias=False)
    model.weight.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))
    hook = Hook(
        tmp_path / "t",
        save_config=EVERY_STEP,
        include_collections=["gradients"],
        reduction_config=ReductionConfig(["max"]),
    )
    hook.register_module(model)
    model(torch.full((1, 3), 5.0)).sum().backward()
    hook.close()

    assert read(tmp_path / "t").tensor("gradient/Linear_weight").reduction_value(0, "max") == 5.0


def test_two_backwards_in_one_step_keep_the_later_gradient(tmp_path):
    model = nn.Linear(3, 1, bias=False)
    hook = Hook(
        tmp_path / "t",
        save_config=EVERY_STEP,
        include_collections=["gradients"],
        reduction_config=ReductionConfig(["max"]),
    )
    hook.register_module(model)
    output = model(torch.ones(1, 3)).sum()
    output.backward(retain_graph=True)
    (output * 7).backward()
    hook.close()

    assert read(tmp_path / "t").tensor("gradient/Linear_weight").reduction_value(0, "max") == 7.0


def test_a_parameter_that_gets_other_memory_is_reduced_as_it_is_now(tmp_path):
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    hook = Hook(
        tmp_path / "t",
        save_config=EVERY_STEP,
        include_collections=["weights"],
        reduction_config=ReductionConfig(["max"]),
    )
    hook.register_module(model)
    model(torch.ones(1, 3))
    model[1].weight.data = torch.full((2, 3), 5.0)
    model[1].bias.data = torch.zeros(2)
    model(torch.ones(1, 3))
    for parameter in model.parameters():
        parameter.data = torch.full_like(parameter, 7.0, dtype=torch.float64)
    model(torch.ones(1, 3).double())
    model[1].weight.data = torch.full((3, 3), 9.0)
    model[1].bias.data = torch.zeros(3)
    model[0].to(torch.float32)
    model(torch.ones(1, 3))
    hook.close()

    assert_no_failure(hook)
    weight = read(tmp_path / "t").tensor("Sequential_1.weight")
    assert [weight.reduction_value(step, "max") for step in (1, 2, 3)] == [5.0, 7.0, 9.0]


def test_autograd_grad_is_safe(tmp_path):
    model = nn.Linear(3, 1)
    hook = Hook(
        tmp_path / "t",
        save_config=EVERY_STEP,
        save_all=True,
        reduction_config=ReductionConfig(["max"]),
    )
    hook.register_module(model)
    torch.autograd.grad(model(torch.ones(1, 3)).sum(), list(model.parameters()))
    hook.close()

    assert_no_failure(hook)


def test_a_tensor_changed_in_place_is_saved_as_it_was_and_as_it_is(tmp_path):
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Identity())
    hook = Hook(tmp_path / "t", save_config=EVERY_STEP, include_regex=["put"])
    hook.register_module(model)
    model(torch.randn(8, 3))
    hook.close()

    trial = read(tmp_path / "t")
    before, after = (trial.tensor(f"{layer}_output_0").value(0) for layer in (0, 1))
    assert before.min() < 0
    np.testing.assert_array_equal(after, np.maximum(before, 0))
    np.testing.assert_array_equal(trial.tensor("2_input_0").value(0), after)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_a_large_transposed_output_is_saved_as_it_is_seen(tmp_path, kind):
    class Turned(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.transpose(1, 2)

    given = torch.randn(2, 256, 300).to(kind)
    model = Turned()
    hook = Hook(tmp_path / "t", save_config=EVERY_STEP, include_regex=["output"])
    hook.register_module(model)
    model(given)
    hook.close()

    assert_no_failure(hook)
    value = read(tmp_path / "t").tensor("Turned_output_0").value(0)
    np.testing.assert_array_equal(value, given.transpose(1, 2).float().numpy())


@pytest.mark.filterwarnings("error", "ignore:.torch.jit:DeprecationWarning")
def test_nothing_that_is_measured_becomes_part_of_a_traced_model(tmp_path):
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    hook = Hook(tmp_path / "t", save_config=EVERY_STEP, include_regex=["output"], save_all=True)
    hook.register_module(model)
    given = torch.ones(4, 2)
    traced = torch.jit.trace(model, given, check_trace=False)
    assert [each.kind() for each in traced.graph.nodes()] == [
        *("prim::GetAttr", "prim::GetAttr"),
        *("prim::CallMethod", "prim::CallMethod"),
    ]
    model(given).sum().backward()
    hook.close()

    assert_no_failure(hook)
    assert read(tmp_path / "t").steps() == [0]


@pytest.mark.filterwarnings("ignore:.torch.jit")
@pytest.mark.parametrize(
    "compiled", [torch.jit.script, lambda m: torch.jit.trace(m, torch.ones(1, 2))]
)
def test_a_scripted_root_is_seen_from_outside(tmp_path, compiled, caplog):
    caplog.set_level("INFO")
    model = compiled(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
    hook = Hook(tmp_path / "t", save_config=SaveConfig(save_interval=1), save_all=True)
    hook.register_module(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(4, 2)).sum().backward()
        optimizer.step()
    hook.close()

    assert hook.failures.count == 0
    trial = read(tmp_path / "t")
    assert trial.steps() == [0, 1]
    assert trial.tensor_names() == [
        "Sequential_0.bias",
        "Sequential_0.weight",
        "Sequential_input_0",
        "Sequential_output_0",
        "gradient/Sequential_0.bias",
        "gradient/Sequential_0.weight",
    ]
    assert "what its parts return cannot be seen" in caplog.text
