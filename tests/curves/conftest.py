"""Both scanners: the compiled one, built here, and its twin in numpy."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from trackside.curves import native


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    built = tmp_path_factory.mktemp("scan") / "scan.so"
    source = Path(native.__file__).with_name("scan.c")
    flags = ["-O2", "-std=gnu99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", built, source], check=True)
    library = native.load(built)
    assert library is not None
    return library


@pytest.fixture(params=["compiled", "numpy"])
def library(request: pytest.FixtureRequest) -> ctypes.CDLL | None:
    return request.getfixturevalue("compiled") if request.param == "compiled" else None
