"""What a script needs from beside it, when only the script is packed."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from trackside.cli.left_behind import warnings


@pytest.mark.parametrize(
    ("script", "missing"),
    [
        ("import model", "model.py beside it stays"),
        ("from model import Net", "model.py beside it stays"),
        ("def main():\n    import nets.small", "nets/ beside it stays"),
        ("import model, nets", "model.py and nets/ beside it stay behind"),
    ],
)
def test_modules_beside_a_script_are_named(tmp_path: Path, script: str, missing: str):
    (tmp_path / "model.py").write_text("")
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets/__init__.py").write_text("")
    (tmp_path / "train.py").write_text(script)
    [told] = warnings(str(tmp_path / "train.py"))
    assert missing in told


@pytest.mark.parametrize("script", ["import os, sys", "from . import model", "def f(:", "\0"])
def test_a_script_that_needs_nothing_is_left_alone(tmp_path: Path, script: str):
    (tmp_path / "model.py").write_text("")
    (tmp_path / "train.py").write_text(script)
    assert warnings(str(tmp_path / "train.py")) == []
    assert warnings(str(tmp_path / "missing.py")) == []


def test_the_way_out_is_told_before_the_job_starts(command: Command, workplace: Path):
    (workplace / "src").mkdir()
    (workplace / "src/train.py").write_text("import model\n")
    (workplace / "src/model.py").write_text("")
    (workplace / "src/requirements.txt").write_text("")
    assert command("run", "src/train.py").stderr == (
        "Warning: Only train.py itself is packed; model.py and requirements.txt beside it stay "
        "behind. `trackside run train.py --source-dir src …` takes the whole folder.\n"
    )
    assert command("run", "train.py", "--source-dir", "src").stderr == ""
