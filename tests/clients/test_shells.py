"""The lines that shells evaluate, by the shells themselves."""

import os
import shutil
import subprocess

import pytest

from tests.aws_clients import missing_clients
from trackside.clients.shells import SHELLS

HARD = 'it\'s "so" $HOME `x` \\n \\\\ ; é\nnext'


@pytest.mark.parametrize(
    ("program", "language"),
    [("bash", "posix"), ("dash", "posix"), ("zsh", "posix"), ("fish", "fish")],
)
def test_a_shell_sets_exactly_the_value_and_unsets(program: str, language: str):
    found = shutil.which(program)
    if found is None:
        missing_clients(f"{program} is not installed")
    lines = SHELLS[language]({"ADDED": HARD, "GONE": None, "A_PATH": "/a:/b"})
    shown = subprocess.run(
        [program, "-c", f"{lines}env -0"],
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "GONE": "x"},
        capture_output=True,
        check=True,
    )
    environment = dict(
        entry.split("=", 1) for entry in shown.stdout.decode().split("\0") if "=" in entry
    )
    assert environment["ADDED"] == HARD
    assert environment["A_PATH"] == "/a:/b"
    assert "GONE" not in environment
