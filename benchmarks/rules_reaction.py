"""From the end of the step that went wrong to SIGTERM at the script, by ExplodingTensor and
StopTraining: whole local jobs, one after the other.

The script says when its loss became NaN and when the signal came; nothing else is looked at.
"""

import json
import os
import statistics
import tarfile
import tempfile
import time
from pathlib import Path

from benchmarks.report import Comparison, Target
from trackside.jobs.jobs import Jobs
from trackside.records.spec import JobSpec
from trackside.settings import Settings

TARGET_SECONDS = 2.0
_SCRIPT = """\
import os, signal, sys, time
import torch
from torch import nn

def stop(*_):
    print("STOP", time.time(), flush=True)
    os._exit(0)

signal.signal(signal.SIGTERM, stop)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
sick_at = int(os.environ["SICK_AT"])
for step in range(100_000):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(torch.randn(32, 64)), torch.ones(32, 1))
    if step >= sick_at:
        loss = loss * float("nan")
    loss.backward()
    optimizer.step()
    if step == sick_at:
        print("SICK", time.time(), flush=True)
    time.sleep(0.02)
"""


def run(quick: bool = False) -> list[Comparison]:
    num_runs = 3 if quick else 11
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        # At another moment of the polls in each run.
        seconds = [_react(home, f"run-{n}", sick_at=40 + 7 * n) for n in range(num_runs)]
    return [
        Comparison(
            title="From the wrong step to SIGTERM (ExplodingTensor, StopTraining)",
            unit="s",
            figures={"trackside": statistics.median(seconds), "the target": TARGET_SECONDS},
            targets=(Target("the target", 1.0),),
            notes=(
                f"Median of {num_runs} jobs; from {min(seconds):.2f} s to {max(seconds):.2f} s. "
                "The loss and reductions of weights and gradients are saved at each step of 20 ms.",
            ),
        )
    ]


def _react(home: Path, name: str, sick_at: int) -> float:
    settings = Settings.load({"TRACKSIDE_HOME": str(home)})
    jobs = Jobs(settings, {**os.environ, "TRACKSIDE_HOME": str(home)})
    jobs.submit(JobSpec.from_request(_request(home, name, sick_at)))
    jobs.wait(name, timeout_seconds=60)
    said = dict(line.split() for line in _lines(jobs, name) if line.startswith(("SICK", "STOP")))
    _wait_for_rules(jobs, name)
    return float(said["STOP"]) - float(said["SICK"])


def _request(home: Path, name: str, sick_at: int) -> dict[str, object]:
    (home / "train.py").write_text(_SCRIPT)
    with tarfile.open(home / f"{name}.tar.gz", "w:gz") as tar:
        tar.add(home / "train.py", "train.py")
    saved = {"reductions": "abs_mean,min,max"}
    return {
        "TrainingJobName": name,
        "HyperParameters": {
            "sagemaker_program": json.dumps("train.py"),
            "sagemaker_submit_directory": json.dumps(str(home / f"{name}.tar.gz")),
        },
        "OutputDataConfig": {"S3OutputPath": "s3://bench/out"},
        "Environment": {"SICK_AT": str(sick_at)},
        "DebugHookConfig": {
            "S3OutputPath": "s3://bench/debug",
            "HookParameters": {"save_interval": "1"},
            "CollectionConfigurations": [
                {"CollectionName": "losses"},
                {"CollectionName": "weights", "CollectionParameters": saved},
                {"CollectionName": "gradients", "CollectionParameters": saved},
            ],
        },
        "DebugRuleConfigurations": [
            {
                "RuleConfigurationName": "Exploding",
                "RuleParameters": {
                    "rule_to_invoke": "ExplodingTensor",
                    "action_json": '[{"name": "stoptraining"}]',
                },
            }
        ],
    }


def _lines(jobs: Jobs, name: str) -> list[str]:
    data = b"".join(line.data for line in jobs.logs(name))
    return data.decode(errors="replace").splitlines()


def _wait_for_rules(jobs: Jobs, name: str) -> None:
    """The next job has the machine for itself, and the folder can be removed."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        rules = jobs.settings.layout.job(name).rules
        if not rules.evaluator.exists():
            return
        time.sleep(0.05)
