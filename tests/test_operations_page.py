"""What docs/operations.md tells people to install is right, as far as this machine can say."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.other_users import FIRST, needs_other_users, python_for_all
from trackside.cli.server import DEFAULT_DRAIN_SECONDS, server

PAGE = (Path(__file__).parents[1] / "docs" / "operations.md").read_text()


def block(language: str) -> str:
    [found] = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)
    return str(found)


def unit_values() -> dict[str, str]:
    lines = [line.partition("=") for line in block("ini").splitlines() if "=" in line]
    return {name: value for name, _, value in lines}


def test_systemd_takes_the_unit(tmp_path: Path):
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not here")
    unit = tmp_path / "trackside.service"
    unit.write_text(block("ini").replace("/opt/trackside/bin/trackside", sys.executable))
    done = subprocess.run(
        [program, "verify", "--man=no", str(unit)], capture_output=True, text=True
    )
    about_ours = [line for line in done.stderr.splitlines() if "trackside" in line]
    assert about_ours == []


def test_the_commands_of_unit_and_container_are_ones_that_there_are():
    for arguments in (
        unit_values()["ExecStart"].split()[1:],
        re.findall(r'"([^"]+)"', re.findall(r"^CMD (.*)$", block("dockerfile"), re.M)[0]),
    ):
        assert arguments[0] == server.name
        with server.make_context("server", arguments[1:]) as context:
            assert context.params["log_format"] == "json"


def test_systemd_waits_longer_than_the_server_drains():
    assert float(unit_values()["TimeoutStopSec"]) > DEFAULT_DRAIN_SECONDS + 10
    assert unit_values()["KillMode"] == "process"


@needs_other_users
def test_the_capabilities_of_the_unit_are_enough_to_run_scripts_as_others(tmp_path: Path):
    program = shutil.which("setpriv")
    if program is None:
        pytest.skip("setpriv is not here")
    names = re.findall(r"CAP_(\w+)", " ".join(re.findall(r"^CapabilityBoundingSet=.*", PAGE, re.M)))
    assert len(names) > 5
    kept = ",".join(["-all", *(f"+{name.lower()}" for name in names)])
    script = tmp_path / "train.py"
    script.write_text("import os; open('/opt/ml/model/m', 'w'); print('IS', os.getuid())")
    run = [sys.executable, "-m", "trackside.cli", "run", str(script), "--wait"]
    variables = {"TRACKSIDE_RUN_AS": str(FIRST), "TRACKSIDE_PYTHON": python_for_all()}
    done = subprocess.run(
        [program, "--bounding-set", kept, *run],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"IS {FIRST}" in done.stdout
