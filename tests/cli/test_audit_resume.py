"""`trackside audit-resume` on real scripts: what is named, exit codes and JSON."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command

TRAIN = """\
from pathlib import Path
import torch
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
optimizer = torch.optim.Adam(model.parameters())
path = Path("checkpoint.pt")
step = 0
if path.exists():
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    torch.set_rng_state(saved["rng"])
    step = saved["step"]
while step < 20:
    model(torch.randn(8, 3)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    step += 1
    if step % 5 == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state | {"rng": torch.get_rng_state(), "step": step}, path)
"""
BY_CLOSURE = TRAIN.replace(
    "    model(torch.randn(8, 3)).square().mean().backward()\n    optimizer.step()\n",
    "    def closure():\n"
    "        loss = model(torch.randn(8, 3)).square().mean()\n"
    "        loss.backward()\n"
    "        return loss\n"
    "    optimizer.step(closure)\n",
)
"""As Lightning does: the first update begins before its model is known."""
assert BY_CLOSURE != TRAIN


def written(folder: Path, text: str) -> str:
    script = folder / "train.py"
    script.write_text(text)
    return str(script)


@pytest.mark.parametrize(
    "text", [pytest.param(TRAIN, marks=pytest.mark.nightly), BY_CLOSURE], ids=["plain", "closure"]
)
def test_a_script_that_continues(command: Command, tmp_path: Path, text: str):
    """CI tries the harder one; a job without a closure is resumed below."""
    done = command("audit-resume", written(tmp_path, text), "--keep", "kept")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "kept" / "stopped" / "checkpoint.pt").is_file()
    assert "Stopped after 5 updates, and compared 10 after it." in done.stdout
    assert "The resumed run is the same, bit for bit" in done.stdout
    assert [each.name for each in tmp_path.iterdir() if each.suffix == ".pt"] == []


@pytest.mark.nightly
def test_what_was_not_restored_is_named(command: Command, tmp_path: Path):
    text = TRAIN.replace('    optimizer.load_state_dict(saved["optimizer"])\n', "")
    done = command("audit-resume", written(tmp_path, text), "--json", "--keep", "kept")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert (found["same"], found["seam"]) == (False, 5)
    assert [each["part"] for each in found["differences"]] == ["optimizer"]
    assert "empty" in found["differences"][0]["message"]
    assert (tmp_path / "kept" / "stopped" / "checkpoint.pt").is_file()


def test_a_script_that_fails_or_saves_nothing(command: Command, tmp_path: Path):
    done = command("audit-resume", written(tmp_path, "raise SystemExit('no data')"))
    assert done.returncode not in (0, 1)
    assert "no data" in done.stderr
    done = command("audit-resume", written(tmp_path, "print('done')"))
    assert done.returncode not in (0, 1)
    assert "wrote no checkpoint" in done.stderr


def test_a_job_runs_again_with_checkpoints_of_its_own(command: Command, tmp_path: Path):
    text = TRAIN.replace('Path("checkpoint.pt")', 'Path("/opt/ml/checkpoints/last.pt")')
    text = text.replace('    optimizer.load_state_dict(saved["optimizer"])\n', "")
    kept = tmp_path / "checkpoints"
    script = written(tmp_path, text)
    ran = command("run", script, "--name", "seen", "--checkpoint-uri", str(kept), "--wait")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    before = {path: path.read_bytes() for path in kept.rglob("*.pt")}
    done = command("audit-resume", "seen", "--json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert (found["same"], found["seam"]) == (False, 5)
    assert [each["part"] for each in found["differences"]] == ["optimizer"]
    assert "empty" in found["differences"][0]["message"]
    assert before == {path: path.read_bytes() for path in kept.rglob("*.pt")}
