"""The measured training: one of the workloads, with the processor time at each of its phases."""

import time

_FIRST_LINE = time.process_time()

import json  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable  # noqa: E402
from typing import Any  # noqa: E402

import torch  # noqa: E402

_TORCH = time.process_time()

sys.path.insert(0, os.environ["JOB_COST_ROOT"])

from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from benchmarks.workloads import Training  # noqa: E402

DENSE = 50
"""Steps at the start, that are counted apart."""


def small_mlp() -> Callable[[], Any]:
    """A model of a thousand weights and a loader: nothing hides what a step costs."""
    torch.manual_seed(0)
    inputs = torch.randn(2000, 20)
    targets = (inputs[:, 0] + inputs[:, 1] * inputs[:, 2] > 0).long()
    hidden = [nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU()]
    model = nn.Sequential(*hidden, nn.Linear(64, 2))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    loader = DataLoader(TensorDataset(inputs, targets), 64, shuffle=True)
    batches: list[Any] = []

    def step() -> None:
        if not batches:
            batches.append(iter(loader))
        found = next(batches[0], None)
        if found is None:
            batches.clear()
            return step()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(found[0]), found[1]).backward()
        optimizer.step()

    return step


def main(workload: str, num_steps: int) -> None:
    torch.set_num_threads(1)
    step = small_mlp() if workload == "small MLP" else Training(workload).step
    marks = {"first line": _FIRST_LINE, "torch imported": _TORCH, "model made": _now()}
    for number in range(num_steps):
        step()
        if number == 0:
            marks["first step"] = _now()
        elif number == DENSE - 1:
            marks["first 50 steps"] = _now()
    marks["last step"] = _now()
    print("MARKS", json.dumps({**marks, "num_steps": num_steps}), flush=True)


def _now() -> float:
    return time.process_time()


main(os.environ["JOB_COST_WORKLOAD"], int(os.environ["JOB_COST_STEPS"]))
