"""A command of the image's own, as the supervisor starts it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def run(tmp_path: Path):
    def start(*command: str) -> subprocess.CompletedProcess[str]:
        code = "from trackside.toolkit.custom_command import main; main()"
        return subprocess.run(
            [sys.executable, "-P", "-c", code, *command],
            env={**os.environ, "SAGEMAKER_BASE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
        )

    return start


PROJECT = """
[project]
name = "only_here"
version = "1"
"""


def test_pip_installs_beside_the_packages_of_the_interpreter(run, tmp_path: Path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "pyproject.toml").write_text(PROJECT)
    (package / "only_here.py").write_text("where = __file__")
    install = f"pip3 install -q --no-deps {package}"
    show = "import only_here, numpy; print(only_here.where)"
    done = run("sh", "-ec", f"{install} && python3 -c '{show}'")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{tmp_path}/.overlay/")


def test_torchrun_is_that_of_the_interpreter(run, tmp_path: Path):
    (tmp_path / "train.py").write_text("import sys; print(sys.executable, *sys.argv[1:])")
    done = run("torchrun", "--nproc-per-node", "1", f"{tmp_path}/train.py", "--lr", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path}/.overlay/bin/python --lr 1\n"


def test_programs_of_its_packages_see_what_was_installed(run, tmp_path: Path):
    (tmp_path / "test_it.py").write_text(
        "import sys\ndef test_it(): print('in', sys.prefix, flush=True)"
    )
    done = run(
        "pytest", "-q", "-s", "-p", "no:cacheprovider", "-p", "no:kmock", f"{tmp_path}/test_it.py"
    )
    assert done.returncode == 0, done.stderr
    assert f"in {tmp_path}/.overlay\n" in done.stdout


def test_its_exit_code_is_the_command_s(run):
    assert run("sh", "-c", "exit 7").returncode == 7
    missing = run("no-such-program")
    assert missing.returncode == 127
    assert "'no-such-program' cannot be started" in missing.stderr
