"""Ten scripts as found in public repositories, run unmodified: every file that they write and every
value that they log is found afterwards.

They are in `public_scripts/`, written from memory of the habits of each kind. A row of the table
lists the files that a script writes, as far as they are known beforehand, and the values it logs.
"""

import csv
import io
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from PIL import Image

from tests.e2e.conftest import Machine, made_machine
from tests.public_scripts import public_scripts_python
from trackside import curves
from trackside.sdk.job import TrainingJob

SCRIPTS = Path(__file__).parent / "public_scripts"


class Left:
    """What is to be had of a job when it is over: files are where the bare script had put them."""

    def __init__(self, job: TrainingJob, source: Path, folder: Path, log: str) -> None:
        self.files = {path: (folder / path).read_bytes() for path in paths(folder) - paths(source)}
        self.log = log
        self.scalars = curves.read(job.curves_uri).scalars

    def found(self, pattern: str) -> bytes:
        """Of those that the pattern names, the last by name."""
        return self.files[max(path for path in self.files if fnmatchcase(path, pattern))]

    def printed(self, pattern: str) -> float:
        """The last number that the script printed there."""
        return float(re.findall(pattern, self.log)[-1])

    def cell(self, pattern: str, column: str) -> float:
        """The last one of a column of a CSV that is not empty."""
        rows = csv.DictReader(io.StringIO(self.found(pattern).decode()))
        return float([row[column] for row in rows if row[column]][-1])

    def trainer_state(self, name: str) -> float:
        history = json.loads(self.files["out/trainer_state.json"])["log_history"]
        return [each[name] for each in history if name in each][-1]


def paths(folder: Path) -> set[str]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)) for path in found if path.suffix != ".pyc"}


def is_zip(data: bytes) -> bool:
    """Of torch or Keras, whole: every member fits its checksum."""
    return zipfile.ZipFile(io.BytesIO(data)).testzip() is None


def is_image(data: bytes) -> bool:
    Image.open(io.BytesIO(data)).load()
    return True


def is_json(data: bytes) -> bool:
    return bool(json.loads(data))


def is_safetensors(data: bytes) -> bool:
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    ends = [each["data_offsets"][1] for key, each in header.items() if key != "__metadata__"]
    return len(data) == 8 + size + max(ends)


def has(*texts: str) -> Callable[[bytes], bool]:
    return lambda data: all(text.encode() in data for text in texts)


def is_there(data: bytes) -> bool:
    return True


Last = Callable[[Left], float]


def printed(pattern: str) -> Last:
    return lambda left: left.printed(pattern)


def cell(pattern: str, column: str) -> Last:
    return lambda left: left.cell(pattern, column)


def in_trainer_state(name: str) -> Last:
    return lambda left: left.trainer_state(name)


def in_history(data: str, metric: str) -> Last:
    return lambda left: float(pickle.loads(left.files["history.pkl"])[data][metric][-1])


@dataclass(frozen=True)
class PublicScript:
    entry: str
    arguments: tuple[str, ...] = ()
    writes: Mapping[str, Callable[[bytes], bool]] = field(default_factory=dict)
    """By pattern of its path, every file that it leaves and that is not an event file."""
    logs: Mapping[tuple[str, str], Last] = field(default_factory=dict)
    """By pattern of the run, and tag, the last value."""


EVENTS = "*events.out.tfevents.*"
PRINTED = "trackside/algo-1"
LOG_BEFORE_THEY_PRINT = ("nanogpt", "lightning", "hydra", "rl")
TABLE = {
    "nanogpt": PublicScript(
        "train.py",
        ("config/train_tiny.py", "--max_iters=20", "--learning_rate=0.02", "--wandb_log=True"),
        {
            "out-nanogpt/ckpt.pt": is_zip,
            "wandb/offline-run-*/run-*.wandb": is_there,
            "wandb/offline-run-*/files/*": is_there,
            "wandb/offline-run-*/logs/*": is_there,
        },
        {
            ("wandb/*", "train/loss"): printed(r"train loss ([\d.]+)"),
            ("wandb/*", "val/loss"): printed(r"val loss ([\d.]+)"),
            ("wandb/*", "lr"): lambda left: 0.02,
        },
    ),
    "mnist": PublicScript(
        "main.py",
        ("--epochs", "2", "--save-model", "--log-interval", "2"),
        {"mnist_cnn.pt": is_zip},
        {
            (PRINTED, "Loss"): printed(r"Loss: ([\d.]+)"),
            (PRINTED, "Average loss"): printed(r"Average loss: ([\d.]+)"),
        },
    ),
    "lightning": PublicScript(
        "train.py",
        (),
        {
            "tb_logs/regressor/version_0/hparams.yaml": has("lr: 0.1"),
            "tb_logs/regressor/version_0/checkpoints/epoch=2-step=12.ckpt": is_zip,
            "tb_logs/regressor/version_0/checkpoints/last.ckpt": is_zip,
            "csv_logs/lightning_logs/version_0/hparams.yaml": has("lr: 0.1"),
            "csv_logs/lightning_logs/version_0/metrics.csv": has("train_loss"),
        },
        {
            (run, tag): cell("csv_logs/*/metrics.csv", tag)
            for run in ("tb_logs/regressor/version_0", "csv_logs/lightning_logs/*/metrics")
            for tag in ("train_loss", "val_loss")
        },
    ),
    "hf-trainer": PublicScript(
        "run_clm.py",
        (
            *("--output_dir", "out", "--max_steps", "12", "--logging_steps", "2", "--use_cpu"),
            *("--eval_strategy", "steps", "--eval_steps", "6", "--save_steps", "6"),
        ),
        {
            "out/checkpoint-6/*": is_there,
            "out/checkpoint-12/optimizer.pt": is_zip,
            "out/checkpoint-12/trainer_state.json": is_json,
            "out/checkpoint-12/*": is_there,
            "out/model.safetensors": is_safetensors,
            "out/*.json": is_json,
            "out/training_args.bin": is_zip,
        },
        {
            (PRINTED, tag): in_trainer_state(tag)
            for tag in ("loss", "eval_loss", "learning_rate", "train_loss")
        },
    ),
    "hydra": PublicScript(
        "train.py",
        ("-m", "model=linear,mlp", "model.lr=0.05", "max_epochs=3"),
        {
            "multirun/*/multirun.yaml": has("hydra:"),
            "multirun/*/[01]/train.log": has("epoch 2 train/loss"),
            "multirun/*/[01]/last.ckpt": is_zip,
            "multirun/*/0/.hydra/overrides.yaml": has("model=linear", "model.lr=0.05"),
            "multirun/*/[01]/.hydra/*.yaml": has("max_epochs"),
        },
        {("multirun/*/1/tensorboard", "train/loss"): printed(r"train/loss (\S+)")},
    ),
    "timm": PublicScript(
        "train.py",
        ("--model", "tinynet", "-b", "32", "--epochs", "3", "--amp"),
        {
            "output/train/*-tinynet/args.yaml": has("model: tinynet", "amp: true"),
            "output/train/*-tinynet/summary.csv": has("epoch,train_loss,eval_loss,eval_top1"),
            # The older one is gone, as the script wished; of hard links each is a file.
            "output/train/*-tinynet/checkpoint-[12].pth.tar": is_zip,
            "output/train/*-tinynet/last.pth.tar": is_zip,
            "output/train/*-tinynet/model_best.pth.tar": is_zip,
        },
        {
            ("output/train/*-tinynet/summary", tag): cell("output/train/*/summary.csv", tag)
            for tag in ("train_loss", "eval_loss", "eval_top1")
        },
    ),
    "rl": PublicScript(
        "reinforce.py",
        ("--seed", "3", "--total-timesteps", "600", "--save-model"),
        {"runs/CartPole-v1__reinforce__3__*/reinforce.cleanrl_model": is_zip},
        {
            ("runs/CartPole-v1__reinforce__3__*", "charts/episodic_return"): printed(
                r"episodic_return=(\S+)"
            )
        },
    ),
    "diffusion": PublicScript(
        "ddpm.py",
        (),
        {"results/sample-[123].png": is_image, "results/model-[123].pt": is_zip},
        {(PRINTED, "training/loss"): printed(r"loss=([\d.]+)")},
    ),
    "xgboost": PublicScript(
        "train.py",
        ("--num-round", "12", "--max-depth=3"),
        {
            "model.json": is_json,
            "history.pkl": lambda data: len(pickle.loads(data)["train"]["logloss"]) == 12,
        },
        {
            (PRINTED, f"{data}-{metric}"): in_history(data, metric)
            for data in ("train", "validation")
            for metric in ("logloss", "error")
        },
    ),
    "keras": PublicScript(
        "train.py",
        (),
        {
            "training.csv": has("val_loss"),
            "checkpoints/best.keras": is_zip,
            "model.keras": is_zip,
        },
        {
            ("training", tag): printed(rf" - {tag}: ([\d.]+)")
            for tag in ("accuracy", "loss", "val_accuracy", "val_loss")
        },
    ),
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """Its scripts run in the environment of public scripts, and know no home but an empty one."""
    (tmp_path / "user").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("TRACKSIDE_PYTHON", public_scripts_python())
    with made_machine(tmp_path) as machine:
        yield machine


def trackside(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "trackside.cli", *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run(name: str, folder: Path, script: PublicScript, *arguments: str) -> str:
    return trackside(
        *("run", script.entry, "--source-dir", str(folder), "--name", name, "--bring-back"),
        *("--", *script.arguments, *arguments),
    )


def of_its_own(name: str, tmp_path: Path) -> Path:
    """A copy of the script's folder."""
    return shutil.copytree(
        SCRIPTS / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__")
    )


# What they write and how they log is in others, too: losses that are printed in `mnist`, CSV files
# in `timm`, a SummaryWriter in `hydra`, another framework in `xgboost`.
TOO_LONG_FOR_CI = ("keras", "diffusion", "rl")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.nightly if name in TOO_LONG_FOR_CI else ())
        for name in TABLE
        if name != "nanogpt"  # below
    ],
)
def test_all_that_it_writes_and_logs_is_found(name: str, home: Machine, tmp_path: Path):
    run_and_check(name, name, of_its_own(name, tmp_path), home)


def run_and_check(name: str, job: str, folder: Path, home: Machine) -> None:
    script = TABLE[name]
    log = run(job, folder, script)
    left = Left(TrainingJob(job, home.jobs), SCRIPTS / name, folder, log)

    assert "Not kept" not in log
    plain = {path: data for path, data in left.files.items() if not fnmatchcase(path, EVENTS)}
    for pattern, check in script.writes.items():
        matching = {path: data for path, data in plain.items() if fnmatchcase(path, pattern)}
        assert matching, f"{pattern} is not among {[*plain]}"
        assert [path for path, data in matching.items() if not check(data)] == []
    unknown = [path for path in plain if not any(fnmatchcase(path, each) for each in script.writes)]
    assert unknown == []

    if name in LOG_BEFORE_THEY_PRINT:  # else a loss would be there twice
        assert [run for run, _ in left.scalars if run == PRINTED] == []
    for (runs, tag), last in script.logs.items():
        matching_runs = {
            run: series
            for (run, its_tag), series in left.scalars.items()
            if its_tag == tag and fnmatchcase(run, runs)
        }
        assert matching_runs, f"{tag} of {runs} is not among {[*left.scalars]}"
        [series] = matching_runs.values()
        assert series.values[-1] == pytest.approx(last(left), rel=1e-3), (runs, tag)


def test_a_second_run_resumes_from_the_checkpoint_of_the_first(home: Machine, tmp_path: Path):
    """Of the nanoGPT kind, by the folder that `--bring-back` filled with all that was written."""
    script, folder = TABLE["nanogpt"], of_its_own("nanogpt", tmp_path)
    run_and_check("nanogpt", "first", folder, home)
    log = run("second", folder, script, "--init_from=resume", "--max_iters=25")
    assert "Resuming training from out-nanogpt" in log
    assert log.count("iter 20:") == 1
    assert "iter 19:" not in log
    assert "iter 25:" in log
