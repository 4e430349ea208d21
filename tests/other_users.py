"""Users that jobs run as in tests: numbers that no file of this machine belongs to."""

import importlib.util
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

import trackside

FIRST, SECOND = 65531, 65532
_OTHERS_READ, _OTHERS_ENTER = 0o004, 0o001


@cache
def python_for_all() -> str:
    """An interpreter that every user may run, of a version that scripts may have."""
    for name in ("/usr/bin/python3", "/usr/local/bin/python3"):
        code = "import sys, venv; sys.exit(sys.version_info < (3, 11))"
        is_there = shutil.which(name) and _is_open(Path(name).resolve())
        if is_there and not subprocess.run([name, "-c", code]).returncode:
            return name
    return ""


@cache
def packages_for_all(package: str) -> str:
    """The folder of our own packages, if all users can import this one from there."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return ""
    folder = Path(spec.origin).parents[1]
    command = [python_for_all(), "-c", f"import {package}"]
    environment = {"PYTHONPATH": str(folder)}
    tried = subprocess.run(command, env=environment, user=FIRST, group=FIRST, capture_output=True)
    return str(folder) if tried.returncode == 0 else ""


def _is_open(path: Path) -> bool:
    return bool(path.stat().st_mode & _OTHERS_READ) and all(
        above.stat().st_mode & _OTHERS_ENTER for above in path.parents
    )


def _missing() -> str:
    if os.geteuid() != 0:
        return "needs root"
    if not python_for_all():
        return "needs a Python that every user may run"
    if not _is_open(Path(trackside.__file__).parent):
        return "needs a copy of Trackside that every user may read"
    return ""


needs_other_users = pytest.mark.skipif(bool(_missing()), reason=_missing() or "is met")
