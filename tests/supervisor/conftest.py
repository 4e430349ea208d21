"""What tests of the supervisor share."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervisor.synced_files import place
from trackside.supervisor.folder_sync import FolderSync


@pytest.fixture
def as_ordinary_user() -> Iterator[Path]:
    """A folder of a user from whom something can be kept; root reads everything."""
    with tempfile.TemporaryDirectory() as folder:
        if os.geteuid() != 0:
            yield Path(folder)
            return
        os.chown(folder, 65534, -1)
        os.seteuid(65534)
        try:
            yield Path(folder)
        finally:
            os.seteuid(0)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    return folder


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    return tmp_path / "stored"


@pytest.fixture
def folder(source: Path, stored: Path) -> FolderSync:
    return FolderSync("/opt/ml/checkpoints", source, place(stored), mirror=True)
