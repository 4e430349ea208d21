"""What every rank records: figures and hashes of weights, bounded and cheap; flipped bits."""

import json
import random
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.capture.test_rank_times import run_two
from trackside.capture.copying.hashes import hash_of
from trackside.capture.failures import Failures
from trackside.capture.model.names import Names
from trackside.capture.reading.rank_figures import (
    RankFigureFiles,
    WorkerFigures,
    parse_figures,
)
from trackside.capture.reading.trial_folder import TrialFolder
from trackside.capture.steps import rank_figures
from trackside.capture.steps.common_steps import CommonSteps
from trackside.capture.steps.rank_figures import RankFigures, thinned
from trackside.capture.steps.watched import WatchedModel
from trackside.rules.saved.replicas import first_difference
from trackside.storage.locate import locate

_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def flip(tensor: Tensor, element: int, bit: int) -> None:
    """In memory, as a defect would."""
    size = tensor.element_size()
    mask = torch.tensor(1 << bit if bit < 8 * size - 1 or size == 1 else -(1 << bit))
    words = tensor.data.view(-1).view(_WORDS[size])
    words[element] ^= mask.to(words.dtype)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(7),
        torch.randn(64, 3).half(),
        torch.randn(5, 5).bfloat16(),
        torch.randn(3).double(),
        torch.randint(0, 9, (13,)),
        torch.randn(1)[0],
        torch.randn(33)[1:],
        torch.randn(6, 4).t(),
    ],
    ids=lambda tensor: f"{tensor.dtype}-{tuple(tensor.shape)}",
)
def test_every_bit_counts(tensor: Tensor):
    before = hash_of(tensor)
    assert before == hash_of(tensor.clone())
    flat = tensor.contiguous()
    for element, bit in product({0, flat.numel() - 1}, range(8 * flat.element_size())):
        changed = flat.clone()
        flip(changed, element, bit)
        assert hash_of(changed.reshape(tensor.shape)) != hash_of(flat), (element, bit)


def test_other_kinds_have_a_hash():
    for tensor in (torch.tensor([True, False]), torch.randn(3, dtype=torch.complex64)):
        assert hash_of(tensor) == hash_of(tensor.clone())


def test_ranks_choose_steps_in_common():
    cheap, costly = CommonSteps(3), CommonSteps(3)
    for steps, cost in ((cheap, 1e-4), (costly, 7e-3)):
        steps.spend(cost)
        steps.pass_time(0.1)
    assert (cheap.interval, costly.interval) == (1, 64)
    chosen = [number for number in range(300) if costly.is_due(number)]
    assert chosen == [0, 1, 2, 4, 8, 16, 32, 64, 128, 192, 256]
    assert all(cheap.is_due(number) for number in chosen)


def test_all_ranks_look_at_their_clocks_at_the_same_few_steps():
    timed = [number for number in range(260) if CommonSteps.is_timed(number)]
    assert timed[timed.index(64) :] == [64, 80, 96, 112, 128, 160, 192, 224, 256]
    assert sum(map(CommonSteps.is_timed, range(1 << 16))) < 64


@pytest.mark.parametrize("cost", [1e-5, 3e-4, 5e-3, 0.1])
def test_samples_cost_a_small_share(cost: float):
    steps, spent, number_of_steps = CommonSteps(3), 0.0, 50_000
    for number in range(number_of_steps):
        steps.pass_time(0.01)
        if steps.is_due(number):
            steps.spend(cost)
            spent += cost
    assert spent <= 0.0025 * 0.01 * number_of_steps + 20 * cost


def test_rows_are_bounded_and_those_of_all_ranks_stay():
    one = thinned([[number] for number in range(1100)], 1024)
    other = thinned([[number] for number in range(0, 8 * 1100, 8)], 1024)
    assert len(one) <= 512
    assert len(other) <= 512
    assert len({row[0] for row in one} & {row[0] for row in other}) >= 10


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 33)
        self.norm = nn.BatchNorm1d(33)
        self.last = nn.Linear(33, 3).double()


class Replica:
    """A rank without a process group."""

    def __init__(self, rank: int, tmp_path: Path) -> None:
        torch.manual_seed(0)
        self.rank = rank
        self.model = Net()
        watched = WatchedModel(self.model, Names(self.model))
        self.figures = RankFigures(Failures(tmp_path), lambda: [watched])

    def step(self, number: int) -> None:
        self.figures.begin(self.model, ((torch.randn(2, 16),), {}), number, True)

    def read(self) -> WorkerFigures:
        self.figures.close()
        content = {"host": "h", **json.loads(json.dumps(self.figures.to_json()))}
        return parse_figures(f"worker_{self.rank}", content)


@pytest.mark.parametrize("seed", range(50))
def test_a_flipped_bit_is_located_at_the_next_check(seed: int, tmp_path: Path):
    draw = random.Random(seed)
    replicas = [Replica(rank, tmp_path) for rank in range(3)]
    guilty = draw.choice(replicas)
    name, tensor = draw.choice(list(guilty.model.named_parameters()))
    element, bit = draw.randrange(tensor.numel()), draw.randrange(8 * tensor.element_size())
    when = draw.randrange(1, 16)
    for number in range(33):
        if number == when:
            flip(tensor, element, bit)
        for replica in replicas:
            replica.step(number)
    workers = [replica.read() for replica in replicas]
    found = first_difference(workers, lambda each: each.role != "buffer")
    assert found is not None
    assert found.tensors == (f"Net_{name}",)
    assert found.workers == (f"worker_{guilty.rank}",)
    checks = sorted(workers[0].checks)
    assert found.number == min(number for number in checks if number >= when)
    assert found.equal_at == max(number for number in checks if number < when)


def test_a_rank_whose_samples_are_costly_looks_at_its_clocks(tmp_path: Path):
    replica = Replica(0, tmp_path)
    replica.figures._samples.is_due = lambda number: number < 16  # type: ignore[method-assign]
    for number in range(130):
        replica.step(number)
    samples = replica.read().samples
    assert [number for number in samples if number >= 64] == [64, 80, 96, 112, 128]
    assert samples[15].fingerprint is not None
    assert samples[64].fingerprint is None
    assert samples[80].clock_seconds > samples[64].clock_seconds > samples[15].clock_seconds


def test_the_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rank_figures, "MOST_SAMPLES", 32)
    monkeypatch.setattr(rank_figures, "MOST_CHECKS", 32)
    monkeypatch.setattr(rank_figures, "_MOST_HASHES", 40)
    replica = Replica(0, tmp_path)
    replica.figures._samples.is_due = lambda number: True  # type: ignore[method-assign]
    replica.figures._checks.is_due = lambda number: True  # type: ignore[method-assign]
    for number in range(500):
        replica.step(number)
    worker = replica.read()
    assert len(worker.samples) <= 32
    assert len(worker.checks) <= 32
    assert sum(map(len, worker.hashes.values())) <= 40
    assert max(worker.hashes) == 499


JOB = """
import sys, torch, torch.distributed as dist
from torch import nn
from trackside.capture.autohook import discover
from trackside.capture import autohook
from trackside.capture.hook import Hook

discover()
dist.init_process_group("gloo")
torch.set_num_threads(1)
torch.manual_seed(dist.get_rank())
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(8, 5), nn.Linear(5, 1)))
hook = Hook(sys.argv[1], include_collections=["losses"])
hook.register_module(model)
hook.follow_training()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    if step == 20 and dist.get_rank() == 1 and sys.argv[2] == "flip":
        model.module[1].weight.data.view(torch.int32)[0, 2] ^= 1 << 3
    optimizer.zero_grad()
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
    if step % 10 == 3 and dist.get_rank() == 0:
        model.eval()
        with torch.no_grad():
            model.module(torch.randn(4, 8))
        model.train()
hook.close()
assert hook.failures.count == 0, hook.failures._kinds
dist.destroy_process_group()
"""


@pytest.mark.parametrize("fault", ["flip", pytest.param("none", marks=pytest.mark.nightly)])
def test_two_processes(tmp_path: Path, fault: str):
    run_two(JOB, str(tmp_path / "trial"), fault)
    folder = TrialFolder(locate(tmp_path / "trial", home=tmp_path))
    first, second = RankFigureFiles(folder).read()
    assert first.facts.num_called == second.facts.num_called == 40
    assert first.facts.group == (0, 1)
    assert first.facts.num_updates == 40
    shared = set.intersection(
        *({n for n, each in rank.samples.items() if each.rates} for rank in (first, second))
    )
    assert {*range(16), 32} <= shared
    for number in shared:
        one, other = first.samples[number], second.samples[number]
        assert one.loss != other.loss
        assert one.fingerprint != other.fingerprint
        assert one.gradient_norm == pytest.approx(other.gradient_norm, rel=1e-6)
        assert one.rates == other.rates == (0.01,)
    found = first_difference([first, second], lambda each: each.role == "shared")
    if fault == "none":
        assert found is None
        assert set(first.hashes) & set(second.hashes) >= {0, 1, 2, 4, 8, 16, 32}
    else:
        assert found is not None
        assert found.tensors == ("Sequential_1.weight",)
        assert found.is_tie
        assert found.workers == ("worker_1",)
        assert found.number in range(20, 33)
