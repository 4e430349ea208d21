"""What vitals show about sequences, several losses in a step, and unused gradients."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Normal

import trackside.capture as tc
from tests.capture.networks import assert_no_failure
from tests.capture.test_vitals import anatomy_of, vital


class Tokens(nn.Module):
    """Predicts `answer` of its tokens with certainty."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(5.0))
        self.answer = answer

    def forward(self, tokens: Tensor) -> Tensor:
        return self.scale * F.one_hot(self.answer(tokens), 9).float()


def train(model: nn.Module, out_dir: Path, step: Any, num_steps: int = 4) -> tc.Anatomy:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with tc.watch(model, out_dir=out_dir) as hook:
        for number in range(num_steps):
            optimizer.zero_grad()
            step(number).backward()
            optimizer.step()
    assert_no_failure(hook)
    return anatomy_of(out_dir)


@pytest.mark.parametrize("is_time_first", [False, True])
def test_a_model_that_reads_the_next_token_knows_all_but_the_last(is_time_first, tmp_path):
    model = Tokens(lambda tokens: torch.roll(tokens, -1, 0 if is_time_first else 1))

    def step(_: int) -> Tensor:
        row = torch.randint(0, 9, (16, 13))
        row = row.t() if is_time_first else row
        given, wanted = (row[:-1], row[1:]) if is_time_first else (row[:, :-1], row[:, 1:])
        return F.cross_entropy(model(given).flatten(0, 1), wanted.flatten())

    train(model, tmp_path / "t", step)
    assert vital(tmp_path / "t", "tokens/shifted_share") == [1.0] * 4
    assert vital(tmp_path / "t", "tokens/other_accuracy") == [1.0] * 4
    assert max(vital(tmp_path / "t", "tokens/last_accuracy")) < 0.5
    assert max(vital(tmp_path / "t", "tokens/same_share")) < 0.5


def test_targets_that_are_the_tokens_themselves_are_seen_and_ignored_ones_do_not_count(tmp_path):
    model = Tokens(lambda tokens: tokens)

    def step(_: int) -> Tensor:
        tokens = torch.randint(0, 9, (4, 6))
        wanted = tokens.masked_fill(torch.arange(6) > 3, -100)
        return F.cross_entropy(model(tokens).transpose(1, 2), wanted)

    train(model, tmp_path / "t", step)
    assert vital(tmp_path / "t", "tokens/same_share") == [1.0] * 4


def test_targets_of_all_places_but_the_last(tmp_path):
    model = Tokens(lambda tokens: tokens)

    def step(number: int) -> Tensor:
        tokens = torch.randint(0, 9, (4, 7))
        labels = tokens if number % 2 else torch.roll(tokens, -1, 1)  # shifted once before
        return F.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), labels[:, 1:].flatten())

    train(model, tmp_path / "t", step)
    assert vital(tmp_path / "t", "tokens/shifted_share")[1::2] == [1.0] * 2
    assert max(vital(tmp_path / "t", "tokens/second_share")[1::2]) < 0.5
    assert min(vital(tmp_path / "t", "tokens/second_share")[::2]) > 0.8, "but for what rolls over"


@pytest.mark.parametrize("is_upside_down", [False, True])
def test_texts_of_which_only_the_beginning_is_trained_on(is_upside_down, tmp_path):
    model = Tokens(lambda tokens: tokens)

    def step(_: int) -> Tensor:
        tokens = torch.randint(1, 9, (8, 12))
        tokens[1::2, 9:] = 0
        wanted = tokens.clone()
        wanted[:, slice(5, None) if is_upside_down else slice(5)] = -100
        return F.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), wanted[:, 1:].flatten())

    train(model, tmp_path / "t", step)
    assert vital(tmp_path / "t", "tokens/heads_share") == [float(is_upside_down)] * 4


class OverTime(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 8, padding_idx=2)
        self.rnn = nn.GRU(8, 8)
        self.own = nn.MultiheadAttention(8, 2, batch_first=True)
        self.causal = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden, _ = self.rnn(self.embed(tokens))
        hidden, _ = self.own(hidden, hidden, hidden)
        mask = nn.Transformer.generate_square_subsequent_mask(hidden.shape[1])
        hidden, _ = self.causal(hidden, hidden, hidden, attn_mask=mask)
        return hidden


def test_what_layers_along_time_are_given_and_may_see_is_known(tmp_path):
    model = OverTime()
    anatomy = train(model, tmp_path / "t", lambda _: model(torch.randint(0, 7, (5, 3))).mean())
    found = {each.name: each for each in anatomy.modules}
    assert found["embed"].padding == 2
    assert found["rnn"].given == (5, 3, 8)
    assert found["rnn"].batch_first is False
    assert not found["rnn"].looks_ahead
    assert found["own"].batch_first
    assert found["own"].looks_ahead
    assert not found["causal"].looks_ahead


def test_each_loss_of_a_step_is_saved_and_how_much_samples_differ(tmp_path):
    model = nn.Linear(6, 6)

    def step(_: int) -> Tensor:
        x = torch.randn(20, 6)
        out = model(x)
        return 3 * F.mse_loss(out, x) + F.cross_entropy(out, torch.zeros(20, dtype=torch.long))

    anatomy = train(model, tmp_path / "t", step)
    first = vital(tmp_path / "t", "loss_term/0.mse_loss")
    assert first == vital(tmp_path / "t", "loss_value")
    assert len(vital(tmp_path / "t", "loss_term/1.cross_entropy")) == 4
    assert vital(tmp_path / "t", "target/sample_std") == pytest.approx([1.0] * 4, abs=0.2)
    mse = next(each for each in anatomy.losses if each.function == "mse_loss")
    assert mse.is_target_input
    assert not mse.is_target_trained


def test_both_sides_of_a_loss_may_be_trained(tmp_path):
    model = nn.Linear(6, 6)

    def step(_: int) -> Tensor:
        return F.mse_loss(model(torch.randn(9, 6)), model(torch.randn(9, 6)))

    assert train(model, tmp_path / "t", step).losses[0].is_target_trained


@pytest.mark.parametrize("clears", [False, True])
def test_gradients_that_are_cleared_between_backwards_are_counted(clears, tmp_path):
    model = nn.Linear(6, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tc.watch(model, out_dir=tmp_path / "t") as hook:
        for number in range(24):
            if clears:
                optimizer.zero_grad()
            model(torch.randn(8, 6)).square().mean().backward()
            if number % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()
    assert_no_failure(hook)
    assert vital(tmp_path / "t", "cleared_backwards")[-3:] == [3.0 * clears] * 3


def test_what_a_closure_computes_has_been_used(tmp_path):
    model = nn.Linear(6, 2)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5)
    x = torch.randn(8, 6)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = (model(x) - 1).square().mean()
        loss.backward()
        return loss

    with tc.watch(model, out_dir=tmp_path / "t") as hook:
        for _ in range(6):
            optimizer.step(closure)
    assert_no_failure(hook)
    assert max(vital(tmp_path / "t", "cleared_backwards")) == 0


def test_samples_without_a_way_back_are_counted(tmp_path):
    model = nn.Linear(6, 2)

    def step(_: int) -> Tensor:
        made = Normal(model(torch.randn(8, 6)), 1.0)
        return -made.log_prob(made.sample()).mean() + made.rsample().mean()

    sample = Normal.sample
    anatomy = train(model, tmp_path / "t", step)
    assert (anatomy.num_cut_samples, anatomy.num_scored_samples) == (4, 4)
    assert Normal.sample is sample


def test_of_pictures_each_pixel_has_a_label(tmp_path):
    model = nn.Conv2d(1, 1, 3, padding=1)
    mask = torch.zeros(4, 1, 8, 8)
    mask[:, :, :2] = 1

    def step(_: int) -> Tensor:
        return F.binary_cross_entropy_with_logits(model(torch.randn(4, 1, 8, 8)), mask)

    train(model, tmp_path / "t", step)
    assert vital(tmp_path / "t", "labels/largest_share") == [0.75] * 4
    soft = tmp_path / "soft"
    train(model, soft, lambda _: F.binary_cross_entropy_with_logits(model(mask), 0.3 + 0.1 * mask))
    assert "vitals/labels/largest_share" not in tc.create_trial(str(soft)).tensor_names(
        collection="vitals"
    )


def test_probabilities_given_to_kl_div_do_not_sum_to_one_as_logarithms(tmp_path):
    model = nn.Linear(6, 5)

    def step(number: int) -> Tensor:
        scores, wanted = model(torch.randn(8, 6)), torch.full((8, 5), 0.2)
        wrong = scores.softmax(1) if number % 2 else scores.log_softmax(1)
        return F.kl_div(wrong, wanted, reduction="batchmean")

    train(model, tmp_path / "t", step)
    right, wrong, *_ = vital(tmp_path / "t", "log_probabilities/row_sum_error")
    assert right == pytest.approx(0, abs=1e-5)
    assert wrong > 1
