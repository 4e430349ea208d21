"""The toolkit on Pythons older than ours, which it meets in images."""

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

import trackside
from trackside.supervisor.container_job import _START, LIBRARY

SOURCE = Path(trackside.__file__).parents[1]
VERSIONS = ("3.8", "3.9", "3.10")
SCRIPT = """
import json, os, sys
seen = [list(sys.version_info[:2]), sys.argv[1:], os.environ["SM_HPS"]]
print("RAN", json.dumps(seen), flush=True)
sys.exit(int(os.environ["SM_HP_CODE"]))
"""


@cache
def python(version: str) -> str:
    """An interpreter of this version, on the PATH or of pyenv; empty without one."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
    found = [shutil.which(f"python{version}"), *root.glob(f"{version}.*/bin/python")]
    for each in filter(None, found):
        command = [str(each), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return str(each)
    return ""


def run(version: str, base: Path, start: str = _START, **variables: str) -> tuple[int, str]:
    if not python(version):
        pytest.skip(f"there is no Python {version} on this machine")
    given = {"PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1", "SAGEMAKER_BASE_DIR": str(base)}
    done = subprocess.run(
        [python(version), "-c", start.replace(LIBRARY, str(SOURCE))],
        env={**given, "TRACKSIDE_SOURCE_IN_PLACE": "1", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def make_job(base: Path, code: int) -> None:
    for folder in ("input/config", "code", "output"):
        (base / folder).mkdir(parents=True)
    parameters = {"sagemaker_program": '"train.py"', "code": str(code), "my-token": '"hidden"'}
    (base / "input/config/hyperparameters.json").write_text(json.dumps(parameters))
    (base / "code/train.py").write_text(SCRIPT)


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_script_runs_and_its_end_is_reported(version: str, code: int, tmp_path: Path) -> None:
    make_job(tmp_path, code)
    returned, output = run(version, tmp_path)
    [line] = [line for line in output.splitlines() if line.startswith("RAN ")]
    seen, arguments, parameters = json.loads(line.removeprefix("RAN "))
    assert ".".join(map(str, seen)) == version
    assert arguments == ["--code", str(code), "--my-token", "hidden"]
    assert json.loads(parameters) == {"code": code, "my-token": "hidden"}
    assert "hidden" not in output.replace(line, "")
    assert returned == (1 if code else 0)
    assert (tmp_path / "output" / ("failure" if code else "success")).exists()


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.7"])
def test_a_python_that_is_too_old_is_told_so(version: str, tmp_path: Path) -> None:
    returned, output = run(version, tmp_path)
    assert returned == 1
    assert output.startswith(f"[trackside] The image has Python {version}, and Trackside needs")


@pytest.mark.parametrize("version", ["3.7", "3.8", "3.9"])
def test_a_python_that_is_too_old_for_capture_says_so(version: str, tmp_path: Path) -> None:
    site = SOURCE / "trackside" / "capture" / "site"
    variables = {"PYTHONPATH": str(site), "TRACKSIDE_CAPTURE": "auto"}
    returned, output = run(version, tmp_path, "print('runs')", **variables)
    assert returned == 0
    first, *rest = output.splitlines()
    assert first.startswith(f"[trackside] Not watched: Python {version} of this script: capture")
    assert rest == ["runs"]
