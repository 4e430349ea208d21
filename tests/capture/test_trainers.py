"""Loops that are not the script's own: Lightning and Hugging Face trainers, watched unchanged."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import trackside.capture
from tests.capture.networks import read
from trackside.capture.modes import ModeKeys
from trackside.capture.trial import Trial

SITE = Path(trackside.capture.__file__).parent / "site"
SOURCE = Path(trackside.capture.__file__).parents[2]

pytestmark = pytest.mark.timeout(900)  # each test starts two processes that load a large framework

LIGHTNING = """
import json, sys
import lightning, torch, torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 8)
        self.out = torch.nn.Linear(8, 2)
        self.seen = []

    def forward(self, x):
        return self.out(self.fc(x).relu())

    def training_step(self, batch, index):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.seen.append(loss.item())
        return loss

    def on_before_optimizer_step(self, optimizer):
        self.last_gradient = self.fc.weight.grad.tolist()

    def validation_step(self, batch, index):
        x, y = batch
        F.cross_entropy(self(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)

lightning.seed_everything(0)
x = torch.randn(32, 4)
data = TensorDataset(x, (x.sum(1) > 0).long())
net = Net()
trainer = lightning.Trainer(
    max_epochs=7, accelerator="cpu", devices=1, default_root_dir=sys.argv[1], logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
)
trainer.fit(net, DataLoader(data, batch_size=8, shuffle=True), DataLoader(data, batch_size=8))
results = {
    "losses": net.seen,
    "last_gradient": net.last_gradient,
    "weights": [parameter.tolist() for parameter in net.parameters()],
}
"""

TRANSFORMERS = """
import json, sys
import torch
from transformers import (
    BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments, set_seed
)

set_seed(0)
model = BertForSequenceClassification(
    BertConfig(
        vocab_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=16,
    )
)
words = torch.randint(0, 32, (32, 8))
data = [{"input_ids": row, "labels": int(row[0] > 15)} for row in words]
last_gradient = []

class KeepGradient(TrainerCallback):
    def on_pre_optimizer_step(self, *args, **kwargs):
        last_gradient[:] = model.classifier.weight.grad.tolist()

trainer = Trainer(
    model,
    TrainingArguments(
        output_dir=sys.argv[1], num_train_epochs=7, per_device_train_batch_size=8, logging_steps=1,
        eval_strategy="epoch", save_strategy="no", report_to="none", use_cpu=True,
        disable_tqdm=True, max_grad_norm=0,
    ),
    train_dataset=data,
    eval_dataset=data,
    callbacks=[KeepGradient()],
)
trainer.train()
results = {
    "losses": [float(entry["loss"]) for entry in trainer.state.log_history if "loss" in entry],
    "last_gradient": last_gradient,
    "weights": [parameter.tolist() for parameter in model.parameters()],
}
"""

STEPS = list(range(28))  # seven epochs of four batches: on after the search for models ends


def test_a_lightning_loop_is_watched_without_a_change(tmp_path):
    needs_package("lightning")

    watched, trial = run_watched(tmp_path, LIGHTNING)

    check_losses(trial, watched, tolerance=1e-6)
    check_gradients(trial, watched, "gradient/Net_fc.weight")


def test_a_hugging_face_trainer_is_watched_without_a_change(tmp_path):
    needs_package("transformers")
    needs_package("accelerate")

    watched, trial = run_watched(tmp_path, TRANSFORMERS)

    check_losses(trial, watched, tolerance=1e-3)
    check_gradients(trial, watched, "gradient/BertForSequenceClassification_classifier.weight")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("script", "package"),
    [(LIGHTNING, "lightning"), (TRANSFORMERS, "accelerate")],
    ids=["lightning", "transformers"],
)
def test_a_loop_learns_the_same_with_and_without(tmp_path, script, package):
    """In CI test_never_hurts.py and test_autohook.py compare loops of plain torch."""
    needs_package(package)
    watched, _ = run_watched(tmp_path, script)
    assert watched == run(tmp_path / "alone", script)


def needs_package(name: str) -> None:
    """Skip without the package, unless TRACKSIDE_REQUIRE names the trainers."""
    if importlib.util.find_spec(name):
        return
    message = f"{name} is not installed: pip install 'trackside[all]'"
    if "trainers" in os.environ.get("TRACKSIDE_REQUIRE", "").split(","):
        pytest.fail(message)
    pytest.skip(message)


def run_watched(tmp_path: Path, script: str) -> tuple[dict[str, Any], Trial]:
    config = tmp_path / "debughookconfig.json"
    config.write_text(
        json.dumps(
            {
                "LocalPath": str(tmp_path / "trial"),
                "HookParameters": {"save_interval": "1"},
                "CollectionConfigurations": [{"CollectionName": "gradients"}],
            }
        )
    )
    switches = {"TRACKSIDE_CAPTURE": "auto", "SMDEBUG_CONFIG_FILE_PATH": str(config)}
    results = run(tmp_path / "watched", script, PYTHONPATH=search_path(SITE, SOURCE), **switches)
    return results, read(tmp_path / "trial")


def run(folder: Path, script: str, **environment: str) -> dict[str, Any]:
    """What the script leaves in `results`, from a process of its own without a network."""
    folder.mkdir()
    results = folder / "results.json"
    program = folder / "train.py"
    program.write_text(f"{script}\njson.dump(results, open(sys.argv[2], 'w'))\n")
    ended = subprocess.run(
        [sys.executable, str(program), str(folder), str(results)],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(results.read_text())


def search_path(*first: Path) -> str:
    inherited = os.environ.get("PYTHONPATH")
    return os.pathsep.join([*map(str, first), *([inherited] if inherited else [])])


def check_losses(trial: Trial, results: dict[str, Any], *, tolerance: float) -> None:
    """Every step has the loss that the loop itself saw, under one name."""
    loss = trial.tensor("loss_output_0")
    assert trial.tensor_names(collection="losses") == ["loss_output_0"]
    assert loss.steps(ModeKeys.TRAIN) == STEPS
    saved = [float(loss.value(step, ModeKeys.TRAIN)) for step in STEPS]
    assert saved == pytest.approx(results["losses"], rel=tolerance)


def check_gradients(trial: Trial, results: dict[str, Any], name: str) -> None:
    gradient = trial.tensor(name)
    assert gradient.steps(ModeKeys.TRAIN) == STEPS
    assert gradient.value(STEPS[-1], ModeKeys.TRAIN).tolist() == results["last_gradient"]
