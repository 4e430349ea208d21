"""scikit-learn's handwritten digits as files of a channel: 1,797 images of 8 x 8 pixels."""

from pathlib import Path

import numpy as np
import torch
from torch.utils.data import TensorDataset

NUM_TEST = 360


def prepare(folder: Path) -> None:
    """Write train.npz and test.npz, shuffled the same way every time."""
    from sklearn.datasets import load_digits  # only needed where the data is made

    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    parts = {"test": order[:NUM_TEST], "train": order[NUM_TEST:]}
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in parts.items():
        images = (digits.data[rows] / 16).astype(np.float32)
        np.savez(folder / f"{name}.npz", images=images, labels=digits.target[rows])


def load(folder: Path) -> tuple[TensorDataset, TensorDataset]:
    return _load(folder / "train.npz"), _load(folder / "test.npz")


def _load(path: Path) -> TensorDataset:
    with np.load(path) as arrays:
        return TensorDataset(
            torch.from_numpy(arrays["images"]), torch.from_numpy(arrays["labels"]).long()
        )
