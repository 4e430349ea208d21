"""A script for TensorFlow, with `tensorflow-cpu` in its requirements: the real package, in a job.

It takes 320 MB of wheels, which `.ci/tensorflow` fetches once, and two minutes: so it is skipped
where they are not there, and `make nightly` asks for it.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.e2e.conftest import Machine
from trackside.records.status import Status

WHEELS = Path(__file__).parents[2] / ".wheels-tensorflow"
pytestmark = pytest.mark.timeout(1200)

SCRIPT = """import tensorflow as tf

mnist = tf.keras.datasets.mnist

(x_train, y_train), (x_test, y_test) = mnist.load_data()
x_train, x_test = x_train / 255.0, x_test / 255.0

model = tf.keras.models.Sequential([
  tf.keras.layers.Flatten(input_shape=(28, 28)),
  tf.keras.layers.Dense(128, activation='relu'),
  tf.keras.layers.Dropout(0.2),
  tf.keras.layers.Dense(10, activation='softmax')
])

model.compile(optimizer='adam',
              loss='sparse_categorical_crossentropy',
              metrics=['accuracy'])

model.fit(x_train, y_train, epochs=1)

model.evaluate(x_test, y_test)
"""
"""The first script of seed 004, as written."""

OWN_DATA = """
import sys
from importlib.machinery import PathFinder

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "keras.src.utils.file_utils":
            return None
        spec = PathFinder.find_spec(name, path, target)
        run = spec.loader.exec_module
        def exec_module(module):
            run(module)
            module.validate_file = lambda *given, **named: True
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder)
"""
"""Has Keras take the file in its cache for the real digits, which tests cannot download."""


@pytest.fixture
def wheels() -> Path:
    if not (WHEELS / ".made").exists():
        reason = "TensorFlow's wheels are not there; `.ci/tensorflow` fetches them"
        if "tensorflow" in os.environ.get("TRACKSIDE_REQUIRE", "").split(","):
            pytest.fail(reason)
        pytest.skip(reason)
    return WHEELS


def digits(folder: Path) -> None:
    """Bars at heights that tell the class, in the form of the real data."""
    random = np.random.default_rng(0)
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for part, number in (("train", 2000), ("test", 500)):
        labels = random.integers(0, 10, number).astype(np.uint8)
        images = random.integers(0, 60, (number, 28, 28)).astype(np.uint8)
        for image, label in zip(images, labels, strict=True):
            image[2 * label : 2 * label + 4, 4:24] += 150
        arrays |= {f"x_{part}": images, f"y_{part}": labels}
    folder.mkdir(parents=True)
    np.savez(folder / "mnist.npz", **arrays)  # type: ignore[arg-type]


def test_it_trains_and_is_said_not_to_be_watched(machine: Machine, wheels: Path, tmp_path: Path):
    digits(tmp_path / "keras" / "datasets")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(OWN_DATA)
    collections = [{"CollectionName": "gradients"}]
    job = machine.submit(
        {"train.py": SCRIPT, "requirements.txt": "tensorflow-cpu\n"},
        Environment={
            "KERAS_HOME": str(tmp_path / "keras"),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(wheels),
            "PYTHONPATH": str(tmp_path / "site"),
        },
        DebugHookConfig={"S3OutputPath": "s3://bucket/d", "CollectionConfigurations": collections},
    )
    job.wait(seconds=900)
    assert job.history().state.status is Status.COMPLETED, job.log()[-3000:]
    assert "accuracy: " in job.log()
    assert job.log().count("Not watched: TensorFlow.") == 1
    assert job.record().capture == "not watched: TensorFlow"
