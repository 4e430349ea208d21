"""A job that goes on with the checkpoint of another one is judged over the seam between them."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command

TRAIN = """\
import os
from pathlib import Path
import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
x = torch.randn(640, 8)
data = torch.utils.data.TensorDataset(x, (x @ torch.randn(8, 3)).argmax(1))
loader = torch.utils.data.DataLoader(data, batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.98)
path, kept = Path(os.environ["SOURCE"]), Path("/opt/ml/checkpoints/last.pt")
if path.exists():
    saved = torch.load(path, weights_only=False)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    schedule.load_state_dict(saved["schedule"])
    torch.set_rng_state(saved["rng"])
for epoch in range(6):
    for inputs, labels in loader:
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    if kept.parent.exists():
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        state |= {"schedule": schedule.state_dict(), "rng": torch.get_rng_state()}
        torch.save(state, kept)
"""
NOT_OPTIMIZER = '    optimizer.load_state_dict(saved["optimizer"])\n'
NOT_SCHEDULE = '    schedule.load_state_dict(saved["schedule"])\n'
NOT_RANDOM = '    torch.set_rng_state(saved["rng"])\n'


def causes(command: Command, folder: Path, name: str, text: str, *options: str) -> list[str]:
    script = folder / "train.py"
    script.write_text(text)
    findings = folder / f"{name}.json"
    done = command(
        *("run", str(script), "--name", name, "--rule", "all", "--findings", str(findings)),
        *("--wait", *options),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = findings.read_text().splitlines()
    return [json.loads(line)["rule"] for line in lines]


def first_job(command: Command, folder: Path) -> tuple[str, ...]:
    """Options of a second job in the folder of its checkpoints."""
    kept = folder / "kept"
    own = ("--checkpoint-uri", str(kept), "--environment", "SOURCE=/opt/ml/checkpoints/last.pt")
    assert causes(command, folder, "first", TRAIN, *own) == []
    assert (kept / "last.pt").is_file()
    return own


def channel(folder: Path) -> tuple[str, ...]:
    """Options of a second job that has the checkpoints of the first as a channel."""
    place = "/opt/ml/input/data/before/last.pt"
    return ("--channel", f"before={folder / 'kept'}", "--environment", f"SOURCE={place}")


@pytest.mark.nightly
def test_data_that_are_repeated_over_the_seam(command: Command, tmp_path: Path):
    """In CI test_checkup.py judges such a training, without jobs."""
    first_job(command, tmp_path)
    text = TRAIN.replace(NOT_RANDOM, "")
    found = causes(command, tmp_path, "again", text, *channel(tmp_path))
    assert {"DataRepeatedAtResume", "StateNotRestored"} <= {*found}


def test_over_the_seam_between_two_jobs(command: Command, tmp_path: Path):
    own = first_job(command, tmp_path)
    assert causes(command, tmp_path, "right", TRAIN, *channel(tmp_path)) == []
    text = TRAIN.replace(NOT_SCHEDULE, "").replace(NOT_OPTIMIZER, "")
    found = causes(command, tmp_path, "wrong", text, *own)
    assert {"StateNotRestored", "RateJumpsAtResume"} <= {*found}
