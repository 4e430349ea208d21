"""`trackside check`: remarks, exit codes and JSON."""

import json
from pathlib import Path

from tests.cli.conftest import Command

SICK = """\
import torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(9):
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
"""


def written(folder: Path, text: str) -> str:
    script = folder / "train.py"
    script.write_text(text)
    return str(script)


def test_a_mistake_has_its_line_and_exit_code_1(command: Command, tmp_path: Path):
    script = written(tmp_path, SICK)

    done = command("check", script)

    assert done.returncode == 1
    assert f"{script}:6: ForgottenZeroGrad: " in done.stdout
    assert "Try: Call optimizer.zero_grad()" in done.stdout


def test_nothing_found_is_exit_code_0(command: Command, tmp_path: Path):
    script = written(tmp_path, SICK.replace("    model(", "    optimizer.zero_grad()\n    model("))

    done = command("check", script)

    assert (done.returncode, done.stdout.startswith("Nothing found.")) == (0, True)


def test_json_and_ignored_rules(command: Command, tmp_path: Path):
    script = written(tmp_path, SICK)

    found = json.loads(command("check", script, "--json").stdout)
    ignored = command("check", script, "--json", "--ignore", "ForgottenZeroGrad")

    assert [(each["line"], each["rule"]) for each in found] == [(6, "ForgottenZeroGrad")]
    assert (ignored.returncode, json.loads(ignored.stdout)) == (0, [])


def test_what_is_not_python_or_no_rule_is_named(command: Command, tmp_path: Path):
    broken = command("check", written(tmp_path, "def ("))
    unknown = command("check", written(tmp_path, SICK), "--ignore", "Forgotten")

    assert (broken.returncode, "train.py:1: invalid syntax" in broken.stderr) == (2, True)
    assert (unknown.returncode, "'Forgotten' is none of: " in unknown.stderr) == (2, True)
