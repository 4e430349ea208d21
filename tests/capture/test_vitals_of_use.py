"""What is learnt of calls at the wrong place, of samples that come again, and of lost updates."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

import trackside.capture as tc
from tests.capture.networks import assert_no_failure
from trackside.capture.model import script_calls
from trackside.capture.modes import ModeKeys


def read(out_dir: Path) -> tc.Anatomy:
    anatomy = tc.read_anatomy(out_dir)
    assert anatomy is not None
    return anatomy


def vital(out_dir: Path, name: str, mode: ModeKeys = ModeKeys.GLOBAL) -> list[float]:
    tensor = tc.create_trial(str(out_dir)).tensor(f"vitals/{name}")
    return [float(tensor.value(step, mode)[0]) for step in tensor.steps(mode)]


def usual(model: nn.Module, optimizer: Any, x: Tensor, y: Tensor) -> None:
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    optimizer.step()


def trained(model: nn.Module, **settings: Any) -> Any:
    return torch.optim.SGD(model.parameters(), lr=0.01, **settings)


class Dropping(nn.Module):
    def __init__(self, *, is_told: bool) -> None:
        super().__init__()
        self.a, self.b, self.drop = nn.Linear(6, 8), nn.Linear(8, 1), nn.Dropout(0.5)
        self.is_told = is_told

    def forward(self, x: Tensor) -> Tensor:
        h = self.drop(self.a(x))
        return self.b(F.dropout(h, 0.5, self.training) if self.is_told else F.dropout(h, 0.5))


@pytest.mark.parametrize("is_told", [True, False])
def test_dropout_that_is_not_told_the_mode_is_located_in_evaluation(is_told, tmp_path):
    model = Dropping(is_told=is_told)
    optimizer = trained(model)
    with tc.watch(model, out_dir=tmp_path / "t") as hook:
        for _ in range(3):
            usual(model, optimizer, torch.randn(8, 6), torch.randn(8, 1))
        model.eval()
        with torch.no_grad():
            model(torch.randn(8, 6))
            model(torch.randn(8, 6))
    assert_no_failure(hook)
    places = read(tmp_path / "t").dropped_in_evaluation or {}
    assert sum(places.values()) == (0 if is_told else 2)
    assert all(place.startswith("test_vitals_of_use.py:") for place in places)


def test_a_model_of_torch_that_drops_by_itself_is_not_taken_for_the_script(tmp_path):
    model = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True)
    optimizer = trained(model)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for _ in range(2):
            usual(model, optimizer, torch.randn(4, 5, 8), torch.randn(4, 5, 8))
        model.eval()
        with torch.no_grad():
            model(torch.randn(4, 5, 8))
    assert not read(tmp_path / "t").dropped_in_evaluation


@pytest.mark.parametrize("is_late", [True, False])
def test_clipping_is_counted_by_its_place_and_the_norm_before_it_is_a_vital(is_late, tmp_path):
    model = nn.Linear(6, 1)
    optimizer = trained(model)
    norms = []
    with tc.watch(model, out_dir=tmp_path / "t") as hook:
        for _ in range(4):
            optimizer.zero_grad()
            F.mse_loss(model(torch.randn(8, 6)), 100 * torch.ones(8, 1)).backward()
            if not is_late:
                norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), 1.0)))
            optimizer.step()
            if is_late:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    assert_no_failure(hook)
    anatomy = read(tmp_path / "t")
    assert (anatomy.num_clipped, anatomy.num_clipped_late) == ((0, 4) if is_late else (4, 0))
    if not is_late:
        assert vital(tmp_path / "t", "gradient_norm_unclipped") == pytest.approx(norms)
        assert vital(tmp_path / "t", "gradient_norm") == pytest.approx([1.0] * 4, rel=1e-3)


@pytest.mark.parametrize("is_used", [True, False])
def test_a_scaler_that_is_passed_by_is_known(is_used, tmp_path):
    model = nn.Linear(6, 1)
    optimizer, scaler = trained(model), torch.amp.GradScaler("cpu", init_scale=4.0)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for _ in range(3):
            optimizer.zero_grad()
            scaler.scale(F.mse_loss(model(torch.randn(8, 6)), torch.randn(8, 1))).backward()
            if is_used:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
    anatomy = read(tmp_path / "t")
    assert anatomy.num_scaled == 3
    assert anatomy.is_ever_unscaled is is_used


def test_samples_that_come_again_and_samples_of_the_training_in_evaluation_are_counted(tmp_path):
    model = nn.Linear(6, 1)
    optimizer = trained(model)
    x = torch.randn(20, 6)
    with tc.watch(model, out_dir=tmp_path / "t") as hook:
        for rows in (range(8), range(8, 16), range(4, 12)):
            usual(model, optimizer, x[list(rows)], torch.randn(8, 1))
        model.eval()
        with torch.no_grad():
            model(x[12:20])
            model(x[12:20])  # known by now
    assert_no_failure(hook)
    assert vital(tmp_path / "t", "input/new_share") == [1.0, 1.0, 0.0]
    assert vital(tmp_path / "t", "input/trained_share") == [0.5]


def test_one_hot_rows_are_not_compared(tmp_path):
    model = nn.Linear(6, 1)
    optimizer = trained(model)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for _ in range(3):
            usual(model, optimizer, torch.eye(6), torch.randn(6, 1))
    assert "vitals/input/new_share" not in tc.create_trial(str(tmp_path / "t")).tensor_names(
        collection="vitals"
    )


def test_passes_that_begin_alike_are_counted(tmp_path):
    model = nn.Linear(6, 1)
    optimizer = trained(model)
    loader = DataLoader(TensorDataset(torch.randn(64, 6), torch.randn(64, 1)), 8, shuffle=True)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for epoch in range(5):
            torch.manual_seed(min(epoch, 2))
            for x, y in loader:
                usual(model, optimizer, x, y)
    (known,) = read(tmp_path / "t").loaders
    assert (known.num_passes, known.num_same_starts) == (5, 2)
    assert known.longest_wait_seconds > 0


@pytest.mark.parametrize(("power", "expected"), [(1, True), (-1, False), (0, False)])
def test_a_sampler_that_is_weighted_by_the_counts_themselves_is_known(power, expected, tmp_path):
    model = nn.Linear(6, 1)
    optimizer = trained(model)
    classes = torch.arange(64) // 48
    weights = torch.bincount(classes).double()[classes] ** power
    data = TensorDataset(torch.randn(64, 6), torch.randn(64, 1))
    with tc.watch(model, out_dir=tmp_path / "t"):
        for x, y in DataLoader(data, 8, sampler=WeightedRandomSampler(weights.tolist(), 64)):
            usual(model, optimizer, x, y)
    (known,) = read(tmp_path / "t").loaders
    assert known.is_weighted_by_counts is expected


def test_a_column_that_is_the_target_in_other_units_is_on_a_line_with_it(tmp_path):
    model = nn.Linear(6, 1)
    optimizer = trained(model)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for _ in range(3):
            x = torch.randn(32, 6)
            usual(model, optimizer, x, 3 * x[:, 2:3] - 7)
            usual(model, optimizer, x, 3 * x[:, 2:3] + 0.1 * torch.randn(32, 1))
    left = vital(tmp_path / "t", "input/off_line")
    assert max(left[::2]) < 1e-10
    assert min(left[1::2]) > 1e-5


def test_classes_that_are_called_otherwise_have_an_accuracy_of_their_own(tmp_path):
    model = nn.Linear(6, 3)
    optimizer = trained(model)
    with tc.watch(model, out_dir=tmp_path / "t"):
        x = torch.randn(60, 6)
        for _ in range(2):
            optimizer.zero_grad()
            scores = model(x)
            F.cross_entropy(scores, (scores.argmax(1) + 1) % 3).backward()
            optimizer.step()
    assert vital(tmp_path / "t", "accuracy") == [0.0, 0.0]
    assert vital(tmp_path / "t", "renamed_accuracy") == [1.0, 1.0]


def test_updates_that_bfloat16_rounds_away_are_counted(tmp_path):
    model = nn.Linear(64, 64).bfloat16()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-7)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for _ in range(3):
            usual(model, optimizer, torch.randn(8, 64).bfloat16(), torch.randn(8, 64).bfloat16())
    assert min(vital(tmp_path / "t", "update_lost_share")) > 0.9


def test_a_part_that_is_added_later_has_its_first_gradient_then(tmp_path):
    model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 1))
    optimizer = trained(model)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for step in range(20):
            if step == 5:
                model[1] = nn.Linear(8, 1)
            usual(model, optimizer, torch.randn(8, 6), torch.randn(8, 1))
    head = next(p for p in read(tmp_path / "t").parameters if p.name.endswith("1.weight"))
    assert head.optimizer is None
    assert head.ever_had_gradient
    assert 5 <= (head.first_gradient_step or 0) <= 8


def test_functions_of_torch_are_its_own_again_when_the_hook_is_closed(tmp_path):
    own = F.dropout, nn.utils.clip_grad_norm_
    with tc.watch(nn.Linear(2, 1), out_dir=tmp_path / "t"):
        assert F.dropout is not own[0]
    assert (F.dropout, nn.utils.clip_grad_norm_) == own


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_a_scripted_model_uses_the_original_dropout():
    script_calls.install()
    try:
        scripted = torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)).eval())
        assert scripted(torch.ones(1, 2)).shape == (1, 2)
    finally:
        script_calls.stop_listening()


def test_since_when_a_dropout_drops_what_it_does(tmp_path):
    dropout = nn.Dropout(0.1)
    model = nn.Sequential(nn.Linear(2, 8), dropout, nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hook = tc.Hook(tmp_path / "t")
    hook.follow_training()
    hook.register_module(model)
    for step in range(8):
        if step == 5:
            dropout.p = 0.9
        model(torch.ones(4, 2)).sum().backward()
        optimizer.step()
    hook.close()
    anatomy = tc.read_anatomy(tmp_path / "t")
    assert anatomy is not None
    (found,) = [each for each in anatomy.modules if each.dropped is not None]
    assert (found.dropped, found.dropped_since) == (0.9, 5)
