"""Compiled models: nothing in the graph on steps that are not saved, and no storm of graphs."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch._dynamo.callback import callback_handler
from torch._dynamo.utils import counters

import trackside.capture as tc
from tests.capture.networks import Sub, assert_no_failure, read
from trackside.capture.hook import Hook
from trackside.capture.selection.save_config import SaveConfig


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sub = Sub()
        self.out = nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.out(self.sub(x)[0])
        return result


def sequential() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2))


@pytest.fixture(autouse=True)
def _fresh_dynamo():
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def compiled(model: nn.Module, *, fullgraph: bool = False) -> nn.Module:
    wrapped = torch.compile(model, backend="aot_eager", fullgraph=fullgraph)
    assert isinstance(wrapped, nn.Module)
    return wrapped


def run(model: nn.Module, steps: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(3, 6)).sum().backward()
        optimizer.step()


def num_graphs() -> int:
    return int(counters["stats"]["unique_graphs"])


def num_breaks() -> int:
    return sum(counters["graph_break"].values())


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("when", ["before", "registered, then compiled", "in place"])
def test_weights_and_gradients_of_a_compiled_model_cost_no_graph(tmp_path, when, fullgraph):
    model: nn.Module = Net()
    hook = Hook(
        tmp_path / "t",
        include_collections=["weights", "gradients"],
        save_config=SaveConfig(save_interval=3),
    )
    if when == "in place":
        hook.register_module(model)
        model.compile(backend="aot_eager", fullgraph=fullgraph)
        called = model
    elif when == "before":
        called = compiled(model, fullgraph=fullgraph)
        hook.register_module(called)
    else:
        hook.register_module(model)
        called = compiled(model, fullgraph=fullgraph)
    run(called, 10)
    hook.close()

    assert_no_failure(hook)
    assert num_graphs() == 1
    assert num_breaks() == 0
    trial = read(tmp_path / "t")
    assert trial.steps() == [0, 3, 6, 9]
    assert trial.tensor("gradient/Net_sub.fc.weight").steps() == [0, 3, 6, 9]


# Dynamo itself reads `.grad` of the tensors that pass a graph break.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
@pytest.mark.parametrize("make", [Net, sequential])
def test_activations_of_a_compiled_model_break_the_graph_only_where_saved(tmp_path, make):
    model = make()
    hook = Hook(
        tmp_path / "t",
        include_regex=["output"],
        save_config=SaveConfig(save_interval=100, start_step=1, save_steps=[3, 6]),
    )
    called = compiled(model)
    hook.register_module(called)
    run(called, 3)
    assert (num_graphs(), num_breaks()) == (1, 0)
    run(called, 2)
    graphs = num_graphs()
    run(called, 4)
    hook.close()

    assert num_graphs() == graphs  # the second saved step meets graphs that are there already
    trial = read(tmp_path / "t")
    assert trial.steps() == [3, 6]
    assert len(trial.tensor_names(step=6)) >= 3
    assert_no_failure(hook)


def test_a_graph_that_must_be_whole_stays_whole(tmp_path):
    hook = Hook(tmp_path / "t", save_all=True, save_config=SaveConfig(save_interval=2))
    model = Net()
    hook.register_module(model)
    run(compiled(model, fullgraph=True), 5)
    hook.close()

    assert num_breaks() == 0
    assert "gradient/Net_out.weight" in read(tmp_path / "t").tensor_names()


def test_a_registered_sequential_may_be_compiled_whole(tmp_path):
    hook = Hook(tmp_path / "t", save_all=True, save_config=SaveConfig(save_interval=2))
    model = sequential()
    hook.register_module(model)
    run(compiled(model, fullgraph=True), 3)
    hook.close()

    assert num_breaks() == 0


@pytest.mark.parametrize("make", [Net, sequential])
def test_a_compiled_model_is_watched_without_a_break(tmp_path, make):
    called = compiled(make())
    with tc.watch(called, out_dir=tmp_path / "t", collections=["gradients"], every=2):
        run(called, 5)

    assert (num_graphs(), num_breaks()) == (1, 0)
    trial = read(tmp_path / "t")
    assert trial.steps() == [0, 2, 4]
    assert trial.tensor_names(collection="losses") == ["loss_output_0"]


class LateNet(nn.Module):
    """A part of it is called from the fifth step on, and compiled then."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.num_calls = 0
        self.first = nn.Linear(6, 6)
        self.late = Net()
        self.call_late: Callable[[torch.Tensor], torch.Tensor]
        if how == "in place":
            self.late.compile(backend="aot_eager")
            self.call_late = lambda x: self.late(x)
        elif how == "module":
            wrapped = [compiled(self.late)]  # in a list, so as to be no second child
            self.call_late = lambda x: wrapped[0](x)
        else:
            self.call_late = torch.compile(lambda x: self.late(x) * 2, backend="aot_eager")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.num_calls += 1
        x = self.first(x)
        return self.call_late(x) if self.num_calls > 4 else x


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
@pytest.mark.parametrize("how", ["module", "in place", "function"])
@pytest.mark.parametrize("first_save", [0, 3])
def test_what_is_first_compiled_on_an_unsaved_step_is_seen_on_saved_ones(tmp_path, how, first_save):
    model = LateNet(how)
    hook = Hook(
        tmp_path / "t",
        include_regex=["output"],
        save_config=SaveConfig(save_interval=1000, start_step=1, save_steps=[first_save, 8, 10]),
        vitals="off",
    )
    hook.register_module(model)
    run(model, 8)
    assert num_breaks() == 0, "no step with a graph was saved so far"
    run(model, 1)
    graphs = num_graphs()
    run(model, 4)
    hook.close()

    assert_no_failure(hook)
    assert num_graphs() == graphs
    trial = read(tmp_path / "t")
    assert trial.steps() == [first_save, 8, 10]
    for step in (8, 10):
        assert {"late.sub.fc_output_0", "late.sub.relu_output_0", "late.out_output_0"} <= {
            *trial.tensor_names(step=step)
        }


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
def test_a_reset_of_dynamo_does_not_blind_the_hook(tmp_path):
    model = LateNet("module")
    hook = Hook(
        tmp_path / "t",
        include_regex=["output"],
        save_config=SaveConfig(save_interval=1000, start_step=1, save_steps=[8]),
        vitals="off",
    )
    hook.register_module(model)
    run(model, 6)
    torch._dynamo.reset()
    run(model, 4)
    hook.close()

    assert "late.sub.fc_output_0" in read(tmp_path / "t").tensor_names(step=8)


def test_a_closed_hook_leaves_nothing_behind_in_dynamo(tmp_path):
    hook = Hook(tmp_path / "t", save_all=True)
    model = Net()
    hook.register_module(model)
    run(model, 1)
    assert callback_handler.start_callbacks
    hook.close()

    assert not callback_handler.start_callbacks
