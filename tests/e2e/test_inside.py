"""One script, two ways: it tracks itself when it is run by hand, and adds to its job when it is
run as one. All commands show both alike."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.job_processes import end_processes_of

SCRIPT = """
import torch
import trackside
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3), nn.Softmax(dim=1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
trackside.init(project="toy", name="by-hand", config={"lr": 0.01})
trackside.watch(model)
print("training")
for step in range(20):
    inputs = torch.randn(32, 8)
    loss = nn.functional.cross_entropy(model(inputs), inputs[:, :3].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    trackside.log({"my/loss": loss}, step=step)
"""


@pytest.fixture
def script(tmp_path: Path):
    (tmp_path / "train.py").write_text(SCRIPT)
    yield tmp_path / "train.py"
    end_processes_of(tmp_path / "trackside home")


def trackside(*arguments: str, cwd: Path) -> str:
    return ran([sys.executable, "-m", "trackside.cli", *arguments], cwd)


def ran(command: list[str], cwd: Path) -> str:
    environ = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def loss_of(job: str, cwd: Path) -> tuple[int, float]:
    reported = json.loads(trackside("metrics", job, "--json", cwd=cwd))
    [found] = [each for each in reported if each["tag"] == "my/loss"]
    return found["points"], found["last"]


@pytest.mark.timeout(400)
def test_by_hand_and_as_a_job(script: Path):
    here = script.parent
    ran([sys.executable, script.name], here)
    trackside("run", script.name, "--rule", "all", "--name", "as-a-job", "--wait", cwd=here)

    listed = trackside("jobs", cwd=here)
    assert [line.split()[:2] for line in listed.splitlines()[1:3]] == [
        ["as-a-job", "Completed"],
        ["by-hand", "Completed"],
    ]
    assert len(listed.splitlines()) == 3, "init in a job made another one"
    assert loss_of("by-hand", here) == loss_of("as-a-job", here)
    for job in ("by-hand", "as-a-job"):
        assert "LossInputAlreadySoftmax" in trackside("findings", job, cwd=here)
        assert "training\n" in trackside("logs", job, cwd=here)
        shown = trackside("show", job, cwd=here)
        assert "IssuesFound" in shown
        assert ("model.tar.gz" in shown) is (job == "as-a-job")
        trackside("report", job, "-o", f"{job}.html", cwd=here)
        assert "Softmax" in (here / f"{job}.html").read_text()
    compared = trackside("compare", "by-hand", "as-a-job", cwd=here)
    assert "my/loss" in compared
    described = json.loads(trackside("show", "by-hand", "--json", cwd=here))
    assert described["HyperParameters"] == {"lr": "0.01"}
    assert described["Trackside"]["options"]["Command"][-1] == "train.py"
    trackside("delete", "by-hand", cwd=here)
    assert "by-hand" not in trackside("jobs", cwd=here)
