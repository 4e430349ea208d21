"""The command that the page and `trackside show` offer to run a job again makes the same job."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from trackside.jobs.jobs import Jobs
from trackside.records.spec import JobSpec
from trackside.settings import Settings, environment
from trackside.views.job_setup.repeat_command import repeated

HOOK = ("--capture", "gradients,weights,losses,my_own")
CASES: dict[str, tuple[str, ...]] = {
    "what it reads and writes": (
        *("--channel", "training=./data", "--channel", "test=./data", "-p", "epochs=3"),
        *("-p", "name=a=b c", "--environment", "OMP_NUM_THREADS=1", "--environment", "MODE=x y"),
        *("--tag", "team=vision", "--tag", "stage=dev 1", "--output", "out"),
        *("--checkpoint-uri", "s3://ckpt/x", "--tensorboard", "s3://curves/x"),
        *("--metric", "loss=loss=([0-9.]+)", "--metric", "acc=acc: (.*)", "--notify", "mail:a@b.c"),
        *("--input-mode", "FastFile", "--", "--amp", "data file.yaml", "model.lr=0.1"),
    ),
    "its machines": (
        *("--instances", "2", "--instance-type", "ml.x", "--max-run", "60", "--max-retries", "2"),
        *("--grace", "7", "--distribution", "torchrun", "--processes-per-host", "2"),
        *("--cores", "1", "--memory", "2g"),
    ),
    "collections alone": (*HOOK, "--every", "10"),
    "the last steps": (*HOOK, "--ring", "5"),
    "all rules and collections": ("--rule", "all", *HOOK),
    "all rules at every step": ("--rule", "all", "--capture", "losses,weights", "--every", "1"),
    "rules with parameters": (
        *("--rule", "vanishing_gradient:threshold=1e-9", "--stop-on", "exploding_tensor"),
        *("--rule", "mine.py:Mine:limit=3", "--capture", "losses,biases"),
    ),
    "rules alone": ("--rule", "all", "--rule", "Overfit:patience=5,ratio_threshold=0.2"),
    "rules that read values": ("--rule", "dead_relu", "--rule", "weight_update_ratio"),
    "a rule that stops it": ("--rule", "all", "--stop-on", "loss_not_decreasing"),
}


@pytest.fixture(autouse=True)
def source(workplace: Path) -> None:
    (workplace / "train.py").write_text("print('hello')\n")
    (workplace / "mine.py").write_text("class Mine: ...\n")
    (workplace / "data").mkdir()
    (workplace / "data" / "a.csv").write_text("1,2\n")


def spec_of(name: str) -> JobSpec:
    return JobSpec.from_stored(Settings.load().layout.job(name).spec.read_bytes())


def compared(spec: JobSpec) -> dict[str, Any]:
    """All of it but the job's own name, and what tells how it was submitted."""
    options = replace(spec.options, launch=None, git=None)
    request = replace(spec, name="same", options=options).to_request()
    rules = request.get("DebugRuleConfigurations", [])
    request["DebugRuleConfigurations"] = sorted(rules, key=str)
    # Names of jobs are part of where code and rules are stored.
    text = json.dumps(request).replace("made-first", "same").replace("made-again", "same")
    found: dict[str, Any] = json.loads(text.replace("file:///", "/"))  # two names of one place
    return found


# Other cases have each of their options, if not together.
TOO_LONG_FOR_CI = ("all rules and collections", "all rules at every step", "rules alone")


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=pytest.mark.nightly if case in TOO_LONG_FOR_CI else ())
        for case in CASES
    ],
)
def test_the_command_of_a_job_makes_the_same_job(command: Command, jobs: Jobs, case: str):
    done = command("run", "train.py", "--name", "made-first", *CASES[case])
    assert done.returncode == 0, done.stderr
    described = Jobs(Settings.load(), environment()).describe("made-first")
    tags = described["Trackside"].get("tags") or {}
    again = repeated(described, tags, jobs.settings.output)
    assert again.left_out == ()
    at = again.words.index("--") if "--" in again.words else len(again.words)
    words = (*again.words[1:at], "--name", "made-again", *again.words[at:])
    done = command(*words)
    assert done.returncode == 0, done.stderr
    first, other = compared(spec_of("made-first")), compared(spec_of("made-again"))
    assert other == first
