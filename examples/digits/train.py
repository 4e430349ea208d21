"""Trains a small network on handwritten digits.

Written for the SageMaker contract and for nothing else: it runs under Trackside, on SageMaker, and
as bare `python train.py`, where everything goes to folders beside it.
"""

import argparse
import json
import os
import signal
from pathlib import Path

import torch
from digits import load, prepare
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter

HERE = Path(__file__).parent
OUTPUT = Path(os.environ.get("SM_OUTPUT_DIR", HERE / "output"))
"""/opt/ml/output in a job."""


def main() -> None:
    options = parse_arguments()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)  # the network is too small to share out
    if not options.training.exists() and "SM_CHANNEL_TRAINING" not in os.environ:
        prepare(options.training)
    train, test = load(options.training)
    model = nn.Sequential(nn.Linear(64, options.width), nn.ReLU(), nn.Linear(options.width, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9)
    checkpoint = options.checkpoints / "last.pt"
    first = restore(checkpoint, model, optimizer)
    stop = StopRequest()
    with SummaryWriter(str(OUTPUT / "tensorboard")) as curves:
        for epoch in range(first, options.epochs):
            loss = train_once(model, optimizer, DataLoader(train, options.batch_size, shuffle=True))
            accuracy = measure(model, DataLoader(test, 256))
            curves.add_scalar("loss/train", loss, epoch)
            curves.add_scalar("accuracy/test", accuracy, epoch)
            print(f"epoch={epoch} loss={loss:.4f} accuracy={accuracy:.4f}", flush=True)
            save(checkpoint, model, optimizer, epoch + 1)
            if stop.requested:
                print(f"Asked to stop: epoch {epoch} is saved.", flush=True)
                break
    options.model_dir.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), options.model_dir / "model.pt")
    metrics = {"accuracy": measure(model, DataLoader(test, 256))}
    (options.model_dir / "metrics.json").write_text(json.dumps(metrics))


def parse_arguments() -> argparse.Namespace:
    """Hyperparameters arrive as arguments, folders as SM_ variables."""
    environ = os.environ
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--training", type=Path, default=environ.get("SM_CHANNEL_TRAINING", HERE / "data")
    )
    parser.add_argument(
        "--model-dir", type=Path, default=environ.get("SM_MODEL_DIR", HERE / "model")
    )
    parser.add_argument("--checkpoints", type=Path, default=OUTPUT.parent / "checkpoints")
    return parser.parse_args()


class StopRequest:
    """SIGTERM says that the job is being stopped: there is time to save, so save."""

    def __init__(self) -> None:
        self.requested = False
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, number: int, frame: object) -> None:
        self.requested = True


def train_once(model: nn.Module, optimizer: torch.optim.Optimizer, batches: DataLoader) -> float:
    """One epoch; the mean loss of its batches."""
    total = 0.0
    for images, labels in batches:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(batches)


@torch.no_grad()
def measure(model: nn.Module, batches: DataLoader) -> float:
    """The share of digits read correctly."""
    hits = [(model(images).argmax(1) == labels).float() for images, labels in batches]
    return torch.cat(hits).mean().item()


def save(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int) -> None:
    """Under a temporary name first: a checkpoint is whole or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
    temporary = path.with_suffix(".part")
    torch.save(state, temporary)
    temporary.replace(path)


def restore(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """The epoch to go on with: 0 where there is no checkpoint."""
    if not path.exists():
        return 0
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    print(f"Going on from epoch {state['epoch']}.", flush=True)
    return int(state["epoch"])


if __name__ == "__main__":
    main()
