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
    folders = [overlay, str(tmp_path / "no"), below]
    outcome.Packages(str(tmp_path / "script.json"), folders).record()
    assert json.loads((tmp_path / "packages.json").read_text()) == {
        "python": platform.python_version(),
        "packages": {"numpy": "1.26.0", "torch": "2.13.0+cpu"},
    }


def test_nothing_is_recorded_unless_requested(tmp_path: Path, monkeypatch):
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    outcome.Packages(None, [str(tmp_path)]).record()
    assert list(empty.iterdir()) == []


def test_packages_are_reported_again_only_if_a_folder_has_changed(tmp_path: Path):
    folder = installed(tmp_path / "site", "torch-2.13.0.dist-info")
    packages = outcome.Packages(str(tmp_path / "script.json"), [folder])
    packages.record()
    written = tmp_path / "packages.json"
    written.unlink()
    packages.record()
    assert not written.exists()
    installed(tmp_path / "site", "numpy-2.0.0.dist-info")
    packages.record()
    assert json.loads(written.read_text())["packages"] == {"numpy": "2.0.0", "torch": "2.13.0"}
