"""What the toolkit leaves for whoever started it."""

import json
import platform
from pathlib import Path

from trackside.toolkit import outcome


def installed(folder: Path, *names: str) -> str:
    for name in names:
        (folder / name).mkdir(parents=True)
    return str(folder)


def test_packages_are_reported_beside_the_exit_record_and_an_overlay_s_come_first(tmp_path: Path):
    below = installed(tmp_path / "below", "torch-2.13.0+cpu.dist-info", "numpy-2.0.0.dist-info")
    overlay = installed(tmp_path / "overlay", "numpy-1.26.0.dist-info", "typing_extensions")
    outcome.record_packages(str(tmp_path / "script.json"), [below, str(tmp_path / "no"), overlay])
    assert json.loads((tmp_path / "packages.json").read_text()) == {
        "python": platform.python_version(),
        "packages": {"numpy": "1.26.0", "torch": "2.13.0+cpu"},
    }


def test_nothing_is_recorded_unless_requested(tmp_path: Path, monkeypatch):
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    outcome.record_packages(None, [str(tmp_path)])
    assert list(empty.iterdir()) == []
