"""The true Apptainer that `.ci/apptainer` installs, with its images."""

import functools
import os
import subprocess
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "trackside-tests")
FOLDER = CACHE / "apptainer"
BIN = FOLDER / "program/usr/bin"
"""For PATH."""
PYTHON = FOLDER / "python.sif"
"""Debian's Python 3.11 with pip, and a shell."""
SHELL = FOLDER / "shell.sif"
"""A shell and a few programs; no Python."""


def apptainer_program() -> str:
    """Its path. Skips without one, unless TRACKSIDE_REQUIRE names apptainer."""
    if problem := _problem():
        if "apptainer" in os.environ.get("TRACKSIDE_REQUIRE", "").split(","):
            pytest.fail(problem)
        pytest.skip(problem)
    return str(BIN / "apptainer")


@functools.cache
def _problem() -> str:
    """Why there is none; empty when there is."""
    program = BIN / "apptainer"
    if os.geteuid() != 0:
        return "Apptainer is set up for root"
    if not program.exists() or not PYTHON.exists() or not SHELL.exists():
        return "no Apptainer for tests (.ci/apptainer installs it)"
    command = [str(program), "exec", "--containall", str(SHELL), "/bin/sh", "-c", ":"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"Apptainer runs no image here: {done.stderr}" if done.returncode else ""
