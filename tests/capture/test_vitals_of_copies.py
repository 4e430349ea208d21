"""What is learnt of copies of a model, of iterators that end, of autocast and of the rhythm of
updates."""

import copy
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.nn.utils.parametrizations import spectral_norm
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import trackside.capture as tc
from tests.capture.networks import assert_no_failure

DATA = TensorDataset(torch.randn(20, 6), torch.randn(20, 1))


@pytest.fixture(autouse=True)
def nothing_compiled() -> None:
    """By another test of this process: where graphs are compiled, copies are not looked for."""
    counters.clear()


def read(out_dir: Path) -> tc.Anatomy:
    anatomy = tc.read_anatomy(out_dir)
    assert anatomy is not None
    return anatomy


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))


def epoch(model: nn.Module, optimizer: Any, loader: Any) -> None:
    for x, y in loader:
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()


def evaluate(model: nn.Module, loader: Any) -> None:
    with torch.no_grad():
        for x, _ in loader:
            model(x)


@pytest.mark.parametrize("is_updated", [True, False])
def test_a_copy_that_is_evaluated_is_known_by_whether_it_changes(is_updated, tmp_path):
    listeners = dict(nn.modules.module._global_forward_pre_hooks)
    model = network()
    average = copy.deepcopy(model).eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tc.watch(model, out_dir=tmp_path / "t") as hook:
        for _ in range(4):
            epoch(model, optimizer, DataLoader(DATA, 2))
            if is_updated:
                average.load_state_dict(model.state_dict())
            evaluate(average, DataLoader(DATA, 4))
    assert_no_failure(hook)
    (seen,) = read(tmp_path / "t").evaluated
    assert seen.is_copy
    assert not seen.is_trained
    assert seen.num_evaluations == 4
    assert seen.num_changes == (3 if is_updated else 0)
    assert nn.modules.module._global_forward_pre_hooks == listeners


class Keeper:
    """An average, as scripts keep one: within an object."""

    def __init__(self, model: nn.Module) -> None:
        self.module = copy.deepcopy(model).eval()

    @torch.no_grad()
    def update(self, model: nn.Module, decay: float) -> None:
        for mine, its in zip(self.module.parameters(), model.parameters(), strict=True):
            mine.lerp_(its, 1 - decay)


def averaged(folder: Path, decay: float) -> Any:
    """What is known of an average after 60 updates, without a loader; it is gone by the end."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x, y = torch.randn(64, 6), torch.randn(64, 1)

    def run() -> None:
        keeper = Keeper(model)
        for number in range(60):
            epoch(model, optimizer, [(x, y)])
            keeper.update(model, decay)
            if number % 10 == 9:
                evaluate(keeper.module, [(x, y)])

    with tc.watch(model, out_dir=folder) as hook:
        run()
    assert_no_failure(hook)
    (seen,) = read(folder).evaluated
    return seen


@pytest.mark.parametrize(
    ("decay", "follows", "lags"), [(0.9999, False, True), (0.8, True, True), (0.001, True, False)]
)
def test_how_an_average_follows_is_known(decay, follows, lags, tmp_path):
    seen = averaged(tmp_path / "t", decay)
    assert seen.is_copy
    assert seen.num_evaluations == 6
    assert (seen.followed > 0.2) is follows
    assert (seen.behind > 0.2) is lags


def test_a_copy_that_is_watched_is_pickled_without_the_watch(tmp_path):
    model = network()
    average = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for _ in range(3):
            epoch(model, optimizer, DataLoader(DATA, 2))
        assert len(average._forward_pre_hooks) == 1
        torch.save(average, tmp_path / "average.pt")
    assert not average._forward_pre_hooks
    loaded = torch.load(tmp_path / "average.pt", weights_only=False)
    assert loaded(torch.randn(2, 6)).shape == (2, 1)


@pytest.mark.parametrize(("noise", "altered"), [(1.0, 3), (0.0, 0)])
def test_inputs_that_change_while_their_labels_stay_are_counted(noise, altered, tmp_path):
    class Noisy(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> tuple[Tensor, int]:
            return torch.ones(6) * index + noise * torch.randn(6), index % 2

    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    held_out = DataLoader(Noisy(), 4)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for _ in range(4):
            epoch(model, optimizer, DataLoader(DATA, 2))
            evaluate(model, held_out)
    (facts,) = [each for each in read(tmp_path / "t").loaders if each.num_samples == 8]
    assert facts.num_altered_starts == altered
    assert facts.num_same_starts == 3 - altered


def test_a_model_that_is_trained_and_evaluated_is_no_copy(tmp_path):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for _ in range(3):
            epoch(model, optimizer, DataLoader(DATA, 2))
            evaluate(model, DataLoader(DATA, 4))
    (seen,) = read(tmp_path / "t").evaluated
    assert (seen.is_trained, seen.is_copy, seen.num_changes) == (True, False, 2)


def test_a_teacher_that_is_called_in_every_step_is_evaluated_once(tmp_path):
    model, teacher = network(), network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tc.watch(model, teacher, out_dir=tmp_path / "t"):
        for x, _ in DataLoader(DATA, 2):
            with torch.no_grad():
                target = teacher(x)
            optimizer.zero_grad()
            F.mse_loss(model(x), target).backward()
            optimizer.step()
    assert [each.num_evaluations for each in read(tmp_path / "t").evaluated] == [1]


def test_an_iterator_that_is_asked_after_its_end_is_counted(tmp_path):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    held_out = iter(DataLoader(DATA, 5))
    with tc.watch(model, out_dir=tmp_path / "t") as hook:
        for _ in range(3):
            epoch(model, optimizer, DataLoader(DATA, 4))
            evaluate(model, held_out)
    assert_no_failure(hook)
    trained, evaluated = read(tmp_path / "t").loaders
    assert (trained.num_used_up, evaluated.num_used_up) == (0, 2)


def test_workers_that_persist_begin_again(tmp_path):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(DATA, 5, num_workers=1, persistent_workers=True)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for _ in range(3):
            epoch(model, optimizer, loader)
    (seen,) = read(tmp_path / "t").loaders
    assert (seen.num_passes, seen.num_used_up) == (3, 0)


@pytest.mark.parametrize("shuffles", [True, False])
def test_what_a_loader_drops_and_whether_it_shuffles_is_known(shuffles, tmp_path):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sampler: Any = DistributedSampler(DATA, num_replicas=2, rank=0, shuffle=shuffles)
    loader = DataLoader(DATA, 4, sampler=sampler, drop_last=True)
    with tc.watch(model, out_dir=tmp_path / "t"):
        epoch(model, optimizer, loader)
    (seen,) = read(tmp_path / "t").loaders
    assert (seen.is_shuffled, seen.drops_last, seen.num_rows) == (shuffles, True, 4)


class Tied(nn.Module):
    def __init__(self, *, is_copied: bool) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(9, 6), nn.Linear(6, 9, bias=False)
        if is_copied:
            self.head.weight.data = self.table.weight.data.clone()

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.table(tokens))


@pytest.mark.parametrize("is_copied", [True, False])
def test_a_head_that_begins_as_the_embedding_is_known(is_copied, tmp_path):
    model = Tied(is_copied=is_copied)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for _ in range(2):
            optimizer.zero_grad()
            tokens = torch.arange(9)
            F.cross_entropy(model(tokens), tokens).backward()
            optimizer.step()
    copied = {each.name: each.copied_from for each in read(tmp_path / "t").parameters}
    expected = "Tied_table.weight" if is_copied else None
    assert copied == {"Tied_table.weight": None, "Tied_head.weight": expected}


@pytest.mark.parametrize("is_inside", [True, False])
def test_layers_outside_of_autocast_are_counted(is_inside, tmp_path):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for x, y in DataLoader(DATA, 4):
            cast = torch.autocast("cpu", torch.bfloat16)
            with cast if is_inside else nullcontext():
                predicted = model(x)
            with torch.autocast("cpu", torch.bfloat16):
                loss = F.mse_loss(predicted, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    seen = read(tmp_path / "t").precision
    assert seen is not None
    assert seen.num_asked > 0
    assert (seen.num_low > 0, seen.num_full > 0) == (is_inside, not is_inside)


def test_the_rhythm_of_updates_is_known(tmp_path):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for number, (x, y) in enumerate(DataLoader(DATA, 1), 1):
            F.mse_loss(model(x), y).backward()
            if number % 4:
                optimizer.step()
                optimizer.zero_grad()
    rhythm = read(tmp_path / "t").rhythm
    assert rhythm is not None
    assert (rhythm.num_single, rhythm.num_double, rhythm.num_other) == (11, 4, 0)
    assert rhythm.gaps == {"3": 1, "2": 3}


@pytest.mark.parametrize("wrap", [spectral_norm, nn.utils.spectral_norm, lambda layer: layer])
def test_spectral_norms_of_both_kinds_are_known(wrap, tmp_path):
    model = nn.Sequential(wrap(nn.Linear(6, 8)), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tc.watch(model, out_dir=tmp_path / "t"):
        epoch(model, optimizer, DataLoader(DATA, 4))
    is_held = wrap in (spectral_norm, nn.utils.spectral_norm)
    assert read(tmp_path / "t").holds_spectral_norm is is_held
