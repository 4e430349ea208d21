"""What the graph of a loss shows about the model that computed it."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from trackside.capture.vitals.loss_graph import read_graph

INPUTS = torch.randn(6, 4)
LABELS = torch.tensor([0, 1, 2, 0, 1, 2])


def graph_of(loss: Tensor, *modules: nn.Module) -> dict[str, Any]:
    names = {
        id(parameter): f"{number}.{name}"
        for number, module in enumerate(modules)
        for name, parameter in module.named_parameters()
    }
    return read_graph(loss, names)


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        (nn.Softmax(dim=1), {"activation": "softmax", "axis": 1, "size": 3}),
        (nn.Softmax(dim=-1), {"activation": "softmax", "axis": -1, "size": 3}),
        (nn.Softmax(dim=0), {"activation": "softmax", "axis": 0, "size": 6}),
        (nn.Sigmoid(), {"activation": "sigmoid", "axis": None, "size": None}),
        (nn.Tanh(), {"activation": "tanh", "axis": None, "size": None}),
        (nn.ReLU(), {"activation": "relu", "axis": None, "size": None}),
    ],
)
def test_an_activation_before_a_loss_of_logits_is_reported(activation, expected):
    loss = F.cross_entropy(activation(nn.Linear(4, 3)(INPUTS)), LABELS)
    assert graph_of(loss)["outputs"] == [{"loss": "cross_entropy", **expected}]


@pytest.mark.parametrize("function", [F.mse_loss, F.smooth_l1_loss, F.huber_loss])
def test_an_activation_before_a_loss_over_amounts_is_reported(function):
    loss = function(torch.tanh(nn.Linear(4, 1)(INPUTS)), torch.ones(6, 1))
    (output,) = graph_of(loss)["outputs"]
    assert (output["loss"], output["activation"]) == (function.__name__, "tanh")
    scaled = function(3 * torch.tanh(nn.Linear(4, 1)(INPUTS)), torch.ones(6, 1))
    assert graph_of(scaled)["outputs"] == []


def test_a_change_of_shape_does_not_hide_the_activation():
    scores = torch.sigmoid(nn.Linear(4, 1)(INPUTS)).squeeze(1)
    loss = F.binary_cross_entropy_with_logits(scores, torch.ones(6)) + 0.1 * scores.mean()
    (output,) = graph_of(loss)["outputs"]
    assert output["loss"] == "binary_cross_entropy_with_logits"
    assert output["activation"] == "sigmoid"


def test_plain_scores_have_no_activation():
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    graph = graph_of(F.cross_entropy(net(INPUTS), LABELS), net)
    assert graph.pop("outputs") == [{"loss": "cross_entropy", "activation": "linear"}]
    assert not any(graph.values()), graph


def test_layers_that_are_called_one_by_one_are_a_pair():
    first, second = nn.Linear(4, 8), nn.Linear(8, 3)
    graph = graph_of(F.cross_entropy(second(first(INPUTS)), LABELS), first, second)
    assert graph["pairs"] == [{"first": "0.weight", "second": "1.weight", "widths": [4, 8, 3]}]


def test_layers_of_ones_own_are_a_pair_too():
    weights = nn.ParameterList([torch.randn(4, 8), torch.randn(8, 3), torch.randn(8)])
    hidden = INPUTS @ weights[0] + weights[2]
    graph = graph_of((hidden @ weights[1]).square().mean(), weights)
    assert graph["pairs"] == [{"first": "0.0", "second": "0.1", "widths": [4, 8, 3]}]


def test_a_residual_connection_or_a_norm_keeps_layers_apart():
    first, second, norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.LayerNorm(4)
    apart = second(first(INPUTS) + INPUTS.clone().requires_grad_()) + second(norm(first(INPUTS)))
    assert graph_of(apart.sum(), first, second, norm)["pairs"] == []


def test_predictions_that_their_target_broadcasts_are_reported():
    net = nn.Linear(4, 1)
    loss = ((net(INPUTS) - torch.randn(6)) ** 2).mean()
    assert graph_of(loss, net)["broadcast"] == [[6, 1], [6, 6]]
    right = ((net(INPUTS).squeeze(1) - torch.randn(6)) ** 2).mean()
    assert graph_of(right, net)["broadcast"] is None


def test_scores_that_are_compared_with_each_other_are_no_mistake():
    net = nn.Linear(4, 1)
    scores = net(INPUTS)
    loss = F.softplus(scores - scores.T).mean()
    assert graph_of(loss, net)["broadcast"] is None


def test_a_kernel_compares_each_with_each_on_purpose():
    net = nn.Linear(4, 1)
    loss = torch.exp(-((net(INPUTS) - torch.randn(6)) ** 2)).mean()
    assert graph_of(loss, net)["broadcast"] is None


def test_a_hand_written_binary_loss_that_broadcasts_is_reported():
    net, labels = nn.Linear(4, 1), torch.ones(6)
    chance = torch.sigmoid(net(INPUTS))
    loss = -(labels * chance.log() + (1 - labels) * (1 - chance).log()).mean()
    assert graph_of(loss, net)["broadcast"] == [[6, 1], [6, 6]]


def test_a_gradient_for_the_input_is_reported():
    net, inputs = nn.Linear(4, 1), INPUTS.clone().requires_grad_()
    assert graph_of(net(inputs).sum(), net)["asks_for_others"]


def test_a_checkpointed_part_is_not_recomputed():
    calls = []

    def part(inputs: Tensor) -> Tensor:
        calls.append(inputs)
        return torch.softmax(net(inputs), 1)

    net = nn.Linear(4, 3)
    loss = F.cross_entropy(checkpoint(part, INPUTS, use_reentrant=False), LABELS)
    assert graph_of(loss, net)["outputs"][0]["activation"] == "softmax"
    assert len(calls) == 1
    loss.backward()


def test_a_loss_without_a_graph_gives_nothing():
    assert graph_of(torch.tensor(1.0, requires_grad=True))["outputs"] == []


def test_linear_layers_of_two_models_are_no_pair():
    first, second = nn.Linear(4, 8), nn.Linear(8, 3)
    loss = F.cross_entropy(second(first(INPUTS)), LABELS)
    names = {id(first.weight): "first", id(second.weight): "second"}
    together, apart = dict.fromkeys(names, 0), dict(zip(names, (0, 1), strict=True))
    assert len(read_graph(loss, names, together)["pairs"]) == 1
    assert read_graph(loss, names, apart)["pairs"] == []
