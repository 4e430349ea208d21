"""Which way a policy gradient goes, by what the script calls its reward."""

import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributions import Categorical

import trackside.capture as tc
from trackside.capture.reading.anatomy import PolicyFacts, read_anatomy


def learn(folder: Path, sign: float, *, as_list: bool = False) -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tc.watch(model, out_dir=folder):
        for _ in range(12):
            policy = Categorical(logits=model(torch.randn(32, 4)))
            action = policy.sample()
            returns: Any = (action == 0).float() + 0.1 * torch.rand(32)
            loss = sign * (policy.log_prob(action) * (returns - returns.mean())).mean()
            if as_list:
                returns = returns.tolist()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def policy_of(folder: Path) -> PolicyFacts | None:
    anatomy = read_anatomy(folder)
    assert anatomy is not None
    return anatomy.policy


@pytest.mark.parametrize("as_list", [False, True])
def test_descent_makes_good_actions_likelier_with_a_minus(tmp_path, as_list):
    learn(tmp_path / "t", -1.0, as_list=as_list)
    assert policy_of(tmp_path / "t") == PolicyFacts("returns", num_encouraged=12)


def test_descent_makes_good_actions_rarer_without_it(tmp_path):
    learn(tmp_path / "t", 1.0)
    assert policy_of(tmp_path / "t") == PolicyFacts("returns", num_discouraged=12)


def test_costs_are_not_judged(tmp_path):
    model = nn.Linear(4, 3)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for _ in range(3):
            policy = Categorical(logits=model(torch.randn(32, 4)))
            action = policy.sample()
            cost = neg_reward = (action != 0).float()
            assert cost is neg_reward
            (policy.log_prob(action) * cost).mean().backward()
    assert policy_of(tmp_path / "t") is None


class Payload:
    """Something that can be seen to go."""


def test_what_a_script_drops_is_gone_though_its_variables_were_read(tmp_path):
    dropped: list[weakref.ref[Payload]] = []

    def act(model: nn.Module) -> None:
        payload = Payload()
        dropped.append(weakref.ref(payload))
        policy = Categorical(logits=model(torch.randn(32, 4)))
        action = policy.sample()
        returns = (action == 0).float()
        (-policy.log_prob(action) * returns).mean().backward()
        del payload
        assert dropped[-1]() is None

    model = nn.Linear(4, 3)
    with tc.watch(model, out_dir=tmp_path / "t"):
        for _ in range(3):
            act(model)
    assert policy_of(tmp_path / "t") == PolicyFacts("returns", num_encouraged=3)


def test_locals_that_a_script_holds_are_not_cleared(tmp_path):
    def act(model: nn.Module, rate: float) -> dict[str, Any]:
        held = locals()
        policy = Categorical(logits=model(torch.randn(32, 4)))
        action = policy.sample()
        returns = (action == 0).float()
        (-policy.log_prob(action) * returns).mean().backward()
        return held

    model = nn.Linear(4, 3)
    with tc.watch(model, out_dir=tmp_path / "t"):
        assert act(model, 0.5)["rate"] == 0.5
