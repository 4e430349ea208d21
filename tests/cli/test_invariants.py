"""What held in good trainings and not in another, from real ones."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.cli.conftest import Command
from trackside.capture.hook import Hook

STEPS = 12


def train(folder: Path, *, seed: int, is_frozen: bool = False, updates_every: int = 1) -> str:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    model[2].requires_grad_(not is_frozen)
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.1)
    hook = Hook(out_dir=folder, include_collections=["weights", "gradients", "losses"])
    hook.register_module(model)
    for step in range(STEPS):
        loss = nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
        loss.backward()
        if step % updates_every == 0:
            optimizer.step()
            optimizer.zero_grad()
    hook.close()
    return str(folder)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("good")
    return [train(folder / str(seed), seed=seed) for seed in (1, 2)]


def test_another_seed_breaks_nothing(command: Command, good: list[str], tmp_path: Path):
    place = train(tmp_path / "t", seed=3)
    shown = command("invariants", place, "--like", good[0], "--like", good[1])
    assert shown.returncode == 0
    assert "Of them 0 do not hold here" in shown.stdout


def test_what_does_not_hold_is_named(command: Command, good: list[str], tmp_path: Path):
    place = train(tmp_path / "t", seed=3, is_frozen=True, updates_every=3)
    shown = command("invariants", place, "--like", good[0], "--json")
    assert shown.returncode == 1
    held = {each["held"]: each["found"] for each in json.loads(shown.stdout)["broken"]}
    assert held["parameters[Sequential_2.weight].requires_grad is True"] == "it is False"
    assert held["backwards[training=True].count is 1 times optimizers[0].num_steps"] == (
        f"they are {STEPS} and {STEPS // 3}"
    )
    shown = command("invariants", place, "--like", good[0])
    assert "parameters[Sequential_2.weight].requires_grad is True; here it is" in shown.stdout


def test_without_a_good_job_there_is_nothing_to_learn_from(command: Command, good: list[str]):
    assert "Name one by --like" in command("invariants", good[0]).stderr
