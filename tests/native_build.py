"""Builds a C source of ours as `build_native.py` does, with every warning an error."""

import shutil
import subprocess
from pathlib import Path

import pytest


def build(source: Path, folder: Path, *, optimised: str) -> Path:
    """The library; a skip where there is no compiler: each source has a twin in Python."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    built = folder / source.with_suffix(".so").name
    flags = [optimised, "-std=gnu99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", built, source], check=True)
    return built
