"""What vitals show about axes that are mixed up, padding, carried states and targets among the
inputs."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.capture.test_vitals import vital
from tests.capture.test_vitals_of_sequences import train
from trackside.capture.vitals.loss_graph import read_graph, takes_places


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ((32, 20, 8), (32, 8, 20)),  # for a convolution
        ((20, 32, 8), (32, 20, 8)),
        ((2, 32, 8), (32, 16)),  # both directions of h_n
        ((32, 4, 20, 8), (32, 20, 32)),  # heads
        ((32, 20, 32), (32, 4, 20, 8)),
    ],
)
def test_a_view_instead_of_a_transpose_is_seen(given, made):
    assert takes_places(given, made)
    assert read_graph(_viewed(given, made).sum(), {})["reshaped"] == [
        {"given": list(given), "made": list(made)}
    ]


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ((32, 20, 8), (640, 8)),
        ((32, 20, 8), (32, 160)),
        ((32, 20, 32), (32, 20, 4, 8)),
        ((32, 20, 4, 8), (32, 20, 32)),
        ((1, 32, 8), (32, 8)),
        ((32, 8), (32, 1, 8)),
        ((32, 8, 1), (32, 1, 8)),
        ((32, 16, 4, 4), (32, 256)),
        ((32, 256), (32, 16, 4, 4)),
        ((8, 8, 3), (8, 24)),
        ((16, 4), (64,)),
    ],
)
def test_a_view_that_merges_or_splits_neighbours_is_left_alone(given, made):
    assert not takes_places(given, made)
    assert read_graph(_viewed(given, made).sum(), {})["reshaped"] == []


@pytest.mark.parametrize("gives_weights", [False, True])
@pytest.mark.parametrize(("time", "batch", "heads"), [(6, 8, 4), (4, 6, 4), (8, 8, 4)])
def test_the_views_of_multihead_attention_are_left_alone(gives_weights, time, batch, heads):
    """Sizes as after a swap: batch = units of a head, and time = heads."""
    attention = nn.MultiheadAttention(32, heads)
    values = torch.randn(time, batch, 32)
    output, _ = attention(values, values, values, need_weights=gives_weights)
    assert read_graph(output.sum(), {})["reshaped"] == []


def test_an_encoder_layer_whose_batch_is_as_large_as_a_head_is_left_alone():
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    assert read_graph(layer(torch.randn(8, 6, 32)).sum(), {})["reshaped"] == []


def test_heads_that_a_view_makes_before_time_are_seen_in_attention_of_ones_own():
    x = torch.randn(5, 6, 32, requires_grad=True) * 2
    query, key, value = (x.view(5, 4, 6, 8) for _ in range(3))
    weights = (query @ key.transpose(-2, -1)).softmax(-1)
    assert read_graph((weights @ value).sum(), {})["reshaped"]


def _viewed(given: tuple[int, ...], made: tuple[int, ...]) -> Tensor:
    return (torch.randn(given, requires_grad=True) * 2).view(made)


@pytest.mark.parametrize(
    ("axis", "shape", "is_wrong"),
    [
        (-1, (2, 4, 6, 5), False),
        (-2, (2, 4, 6, 5), True),
        (1, (2, 4, 6, 5), True),
        (2, (2, 6, 5), False),
        (1, (2, 6, 5), True),
        (0, (2, 6, 5), True),
    ],
)
def test_attention_is_to_sum_to_one_over_the_keys(axis, shape, is_wrong):
    query, key = (torch.randn(*shape[:-1], 8, requires_grad=True) for _ in range(2))
    scores = query @ key.transpose(-2, -1) / 8**0.5
    scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1) == 1, -1e9)
    loss = (F.dropout(scores.softmax(axis), 0.1) @ key).sum()
    expected = [{"axis": axis % len(shape), "shape": list(scores.shape)}] if is_wrong else []
    assert read_graph(loss, {})["attention"] == expected


def test_slots_that_compete_for_places_and_other_weights_are_no_attention_gone_wrong():
    slots, places = torch.randn(2, 3, 8, requires_grad=True), torch.randn(2, 9, 8)
    shares = (slots @ places.transpose(1, 2)).softmax(1)
    means = (shares / shares.sum(-1, keepdim=True)) @ places
    assert read_graph(means.sum(), {})["attention"] == []
    clusters = nn.Linear(8, 3)(places).transpose(1, 2).softmax(1)
    assert read_graph((clusters @ places).sum(), {})["attention"] == []


@pytest.mark.parametrize(
    ("scaled", "is_reported"),
    [
        (lambda a, b: a @ b.T / 100, True),
        (lambda a, b: a @ b.T * 0.01, True),
        (lambda a, b: a @ b.T, False),
        (lambda a, b: a @ b.T * nn.Parameter(torch.tensor(0.1)), False),
        (lambda a, _: nn.Linear(8, 6)(a) / 4, False),
    ],
)
def test_likenesses_over_a_number_are_reported(scaled, is_reported):
    a, b = (F.normalize(torch.randn(6, 8, requires_grad=True), dim=1) for _ in range(2))
    loss = F.cross_entropy(scaled(a, b), torch.arange(6))
    assert read_graph(loss, {})["is_likeness_scaled"] is is_reported


class WithLoss(nn.Module):
    """A language model that computes its loss itself, as many do."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 9)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(self.table(tokens).flatten(0, 1), targets.flatten())


def test_targets_for_a_loss_within_the_model_are_no_input(tmp_path):
    model = WithLoss()

    def step(_: int) -> Tensor:
        row = torch.randint(0, 9, (16, 13))
        loss: Tensor = model(row[:, :-1], row[:, 1:])
        return loss

    train(model, tmp_path / "t", step)
    assert max(vital(tmp_path / "t", "tokens/same_share")) < 0.5
    assert vital(tmp_path / "t", "tokens/shifted_share") == [1.0] * 4
    assert vital(tmp_path / "t", "tokens/num_inputs") == [1.0] * 4


def test_targets_within_the_model_that_are_its_tokens_are_seen_all_the_same(tmp_path):
    model = WithLoss()

    def step(_: int) -> Tensor:
        row = torch.randint(0, 9, (16, 12))
        loss: Tensor = model(row, row)
        return loss

    train(model, tmp_path / "t", step)
    assert vital(tmp_path / "t", "tokens/same_share") == [1.0] * 4


class Reader(nn.Module):
    """Carries its state from call to call, or resets it."""

    def __init__(self, *, keeps: bool) -> None:
        super().__init__()
        self.rnn = nn.LSTM(3, 5, batch_first=True)
        self.keeps = keeps
        self.state: Any = None

    def forward(self, x: Tensor) -> Tensor:
        start = self.state if self.keeps else (torch.zeros(1, len(x), 5),) * 2
        out, state = self.rnn(x, start)
        self.state = tuple(each.detach() for each in state)
        return out[:, -1].sum(1)


@pytest.mark.parametrize("keeps", [True, False])
def test_a_state_that_is_carried_on_is_known(keeps, tmp_path):
    model = Reader(keeps=keeps)
    anatomy = train(
        model, tmp_path / "t", lambda _: F.mse_loss(model(torch.randn(8, 4, 3)), torch.randn(8))
    )
    assert [each.carries_state for each in anatomy.modules if each.type == "LSTM"] == [keeps]


class Padded(nn.Module):
    """With or without a token of its own in front, which stands for the whole text."""

    def __init__(self, *, is_inverted: bool, has_own: bool = False) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.own = nn.Parameter(torch.zeros(1, 1, 8))
        self.is_inverted, self.has_own = is_inverted, has_own

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens)
        mask = (tokens == 0) != self.is_inverted
        if self.has_own:
            x = torch.cat([self.own.expand(len(x), 1, 8), x], 1)
            mask = torch.cat([torch.zeros(len(x), 1, dtype=torch.bool), mask], 1)
        mixed: Tensor = self.attention(x, x, x, key_padding_mask=mask, need_weights=False)[0]
        return mixed.mean(1)


@pytest.mark.parametrize("has_own", [True, False])
@pytest.mark.parametrize("is_inverted", [True, False])
def test_what_a_padding_mask_leaves_out_is_measured(is_inverted, has_own, tmp_path):
    model = Padded(is_inverted=is_inverted, has_own=has_own)
    tokens = torch.randint(1, 9, (16, 10))
    tokens[:, 6:] = 0

    def step(_: int) -> Tensor:
        return F.cross_entropy(model(tokens), torch.arange(16) % 8)

    train(model, tmp_path / "t", step)
    assert vital(tmp_path / "t", "tokens/last") == [0.0] * 4
    assert vital(tmp_path / "t", "tokens/end_share") == pytest.approx([0.4] * 4)
    assert vital(tmp_path / "t", "tokens/end_masked") == [float(not is_inverted)] * 4
    assert vital(tmp_path / "t", "tokens/other_masked") == [float(is_inverted)] * 4


@pytest.mark.parametrize("leaks", [True, False])
def test_a_target_among_the_inputs_is_seen(leaks, tmp_path):
    model = nn.Linear(6, 1)

    def step(_: int) -> Tensor:
        windows = torch.randn(16, 7)
        target = windows[:, 5] if leaks else windows[:, 6]
        return F.mse_loss(model(windows[:, :6]).squeeze(1), target)

    train(model, tmp_path / "t", step)
    assert vital(tmp_path / "t", "input/holds_target") == [float(leaks)] * 4


@pytest.mark.parametrize("varies", [True, False])
def test_whether_an_input_beside_the_first_varies_is_seen(varies, tmp_path):
    model = nn.GRUCell(3, 5)

    def step(_: int) -> Tensor:
        moment = torch.randn(16, 3) if varies else torch.ones(16, 3)
        return F.mse_loss(model(torch.zeros(16, 3), moment[:, :1].expand(16, 5)), torch.ones(16, 5))

    train(model, tmp_path / "t", step)
    assert vital(tmp_path / "t", "input/others_vary") == [float(varies)] * 4


def test_where_flattened_scores_and_targets_come_from_is_known(tmp_path):
    model = nn.GRU(3, 5)
    targets = torch.randint(0, 5, (8, 4))

    def step(_: int) -> Tensor:
        states: Tensor = model(torch.randn(4, 8, 3))[0]
        return F.cross_entropy(states.view(-1, 5), targets.view(-1))

    (loss,) = train(model, tmp_path / "t", step).losses
    assert loss.flattened == ((4, 8, 5), (8, 4))


def test_scores_given_to_ctc_loss_do_not_sum_to_one_as_logarithms(tmp_path):
    model, lengths = nn.Linear(6, 5), (torch.full((8,), 10), torch.full((8,), 3))

    def step(number: int) -> Tensor:
        scores = model(torch.randn(10, 8, 6))
        given = scores if number % 2 else scores.log_softmax(2)
        return F.ctc_loss(given, torch.randint(1, 5, (8, 3)), *lengths)

    anatomy = train(model, tmp_path / "t", step)
    right, wrong, *_ = vital(tmp_path / "t", "log_probabilities/row_sum_error")
    assert right == pytest.approx(0, abs=1e-5)
    assert wrong > 1
    assert not anatomy.losses[0].broadcasts
