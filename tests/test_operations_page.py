"""What docs/operations.md tells people to install is right, as far as this machine can say."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
