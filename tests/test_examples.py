"""Each example runs: by itself, and as a job."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import trackside
from tests.wait import until

EXAMPLES = Path(trackside.__file__).parents[2] / "examples"

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """A copy: what an example writes, it writes beside itself."""
    return Path(shutil.copytree(EXAMPLES, tmp_path / "clone" / "examples"))


def run(script: Path, *arguments: str, **environ: str) -> str:
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environ},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_the_digits_script_runs_bare_and_goes_on_from_its_checkpoint(examples: Path):
    script = examples / "digits" / "train.py"
    assert "epoch=0 " in run(script, "--epochs", "1")
    assert list((script.parent / "output" / "tensorboard").iterdir())
    shown = run(script, "--epochs", "2")
    assert "Going on from epoch 1." in shown
    assert "epoch=0 " not in shown
    metrics = json.loads((script.parent / "model" / "metrics.json").read_text())
    assert metrics["accuracy"] > 0.5


def test_the_digits_script_saves_when_it_is_stopped(examples: Path):
    script = examples / "digits" / "train.py"
    process = subprocess.Popen(
        [sys.executable, str(script), "--epochs", "100000"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process:
        until(lambda: (script.parent / "checkpoints" / "last.pt").exists(), seconds=300)
        process.send_signal(signal.SIGTERM)
        assert "Asked to stop" in process.stdout.read()
    assert process.returncode == 0
    assert (script.parent / "model" / "model.pt").exists()


def test_the_demonstration_trains_well_and_badly_and_says_where_everything_is(examples: Path):
    home = examples.parent / ".demo"
    shown = run(examples / "demo.py")
    assert "Completed - Training job completed" in shown
    assert "Diagnosis: LearningRateTooHigh" in shown
    places = {
        line.split()[0]: home / "buckets" / line.split()[-1].removeprefix("s3://")
        for line in shown.splitlines()
        if line.startswith(("model ", "checkpoints ", "tensorboard "))
    }
    assert places["model"].is_file()
    assert list(places["checkpoints"].iterdir())
    assert list(places["tensorboard"].iterdir())
    assert len([*home.glob("*.html")]) == 2
