"""A script's folder, what it logs there, and the curves that become of it."""

from pathlib import Path

import pytest

from trackside import curves
from trackside.curves.loggers.logger_files import LoggerFiles
from trackside.files.script_folder import ScriptFolder
from trackside.supervisor.folder_scan import scan


class Logging:
    def __init__(self, root: Path) -> None:
        self.code = root / "code"
        self.code.mkdir()
        self.curves = root / "curves"
        self.curves.mkdir()
        self.state = root / "state.json"
        self.files = self.taken_over()

    def taken_over(self) -> LoggerFiles:
        source = ScriptFolder(self.code)
        return LoggerFiles(source, lambda: dict(scan(source, {})), self.curves, self.state)

    def write(self, path: str, data: str | bytes) -> Path:
        file = self.code / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data.encode() if isinstance(data, str) else data)
        return file

    def points(self, run: str, tag: str) -> list[tuple[int, float]]:
        series = curves.read(str(self.curves)).scalars[run, tag]
        return [*zip(series.steps.tolist(), map(float, series.values), strict=True)]

    @property
    def tags(self) -> set[tuple[str, str]]:
        return {*curves.read(str(self.curves)).scalars}


@pytest.fixture
def logging(tmp_path: Path) -> Logging:
    return Logging(tmp_path)
