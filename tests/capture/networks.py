"""Networks, loops and readers shared by the hook's tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from trackside.capture.hook import Hook
from trackside.capture.trial import Trial, create_trial


class Sub(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.fc(x)
        return self.relu(x), x


class Net(nn.Module):
    """The net of the reference listing: a reused module, a Sequential, a pair of outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 2, 3)
        self.relu = nn.ReLU()
        self.seq = nn.Sequential(nn.Linear(32, 6), nn.ReLU())
        self.sub = Sub()
        self.bn = nn.BatchNorm1d(6)
        self.out = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.conv1(x)).flatten(1)
        x, _ = self.sub(self.relu(self.seq(x)))
        result: Tensor = self.out(self.bn(x))
        return result


def batch() -> tuple[Tensor, Tensor]:
    return torch.randn(4, 1, 6, 6), torch.randint(0, 3, (4,))


def train(
    model: nn.Module,
    steps: int,
    *,
    criterion: Callable[..., Tensor] | None = None,
    make_batch: Callable[[], tuple[Tensor, Tensor]] = batch,
    each: Callable[[int], Any] = lambda step: None,
) -> list[float]:
    criterion = criterion or nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        inputs, targets = make_batch()
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        each(step)
    return losses


def read(out_dir: Path | str) -> Trial:
    return create_trial(str(out_dir))


def assert_no_failure(hook: Hook) -> None:
    assert hook.failures.count == 0, [*hook.failures._kinds.values()]
