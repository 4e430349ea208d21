"""Both scanners: the compiled one, built here, and its twin in numpy."""

import ctypes
from pathlib import Path

import pytest

from tests.native_build import build
from trackside.curves import native


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    source = Path(native.__file__).with_name("scan.c")
    library = native.load(build(source, tmp_path_factory.mktemp("scan"), optimised="-O2"))
    assert library is not None
    return library


@pytest.fixture(params=["compiled", "numpy"])
def library(request: pytest.FixtureRequest) -> ctypes.CDLL | None:
    return request.getfixturevalue("compiled") if request.param == "compiled" else None
