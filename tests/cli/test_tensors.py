"""Looking at saved tensors: those that are asked for, and what there is instead."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.rules.recording import Recording


@pytest.fixture
def saved(tmp_path: Path) -> str:
    recording = Recording(tmp_path / "trial")
    for step in (0, 5, 10):
        recording.step(step, {"gradient/a": [0.1, 0.2], "a.weight": [1.0]})
    recording.end()
    return str(tmp_path / "trial")


def test_each_tensor_has_a_row_with_its_figures(command: Command, saved: str):
    lines = command("tensors", saved).stdout.splitlines()
    assert lines[0].split()[:5] == ["TENSOR", "SHAPE", "STEPS", "STEP", "MIN"]
    assert [line.split()[0] for line in lines[1:]] == ["a.weight", "gradient/a"]


def test_a_collection_of_which_nothing_is_saved_is_answered_with_those_that_are(
    command: Command, saved: str
):
    shown = command("tensors", saved, "--collection", "gradiants").stdout
    assert "no tensors of 'gradiants', but of " in shown
    assert "gradients" in shown


def test_a_step_that_was_not_saved_is_answered_with_the_nearest(command: Command, saved: str):
    shown = command("tensors", saved, "--step", "6").stdout
    assert "nothing such at step 6. It has 3 steps, 0 to 10; the nearest is 5." in shown
