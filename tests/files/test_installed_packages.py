"""Which packages an interpreter could import."""

import sys
from importlib.metadata import version
from pathlib import Path

from trackside.files.installed_packages import installed_packages


def test_those_of_this_interpreter_are_found():
    assert installed_packages(sys.path)["pytest"] == version("pytest")


def test_of_a_package_in_two_folders_the_first_is_imported(tmp_path: Path):
    for name in (
        "one/numpy-1.26.0.dist-info",
        "two/numpy-2.0.0.dist-info",
        "two/typing_extensions-4.12.dist-info",
        "two/python_apt-2.6.0-py3.11.egg-info",
        "two/PyYAML-6.0.1.egg-info",
        "two/no_version.egg-info",
        "two/notes-1.0",
    ):
        (tmp_path / name).mkdir(parents=True)
    folders = [str(tmp_path / "one"), str(tmp_path / "missing"), str(tmp_path / "two")]
    assert installed_packages(folders) == {
        "numpy": "1.26.0",
        "python-apt": "2.6.0",
        "pyyaml": "6.0.1",
        "typing-extensions": "4.12",
    }


def test_an_empty_folder_name_is_the_current_folder(tmp_path: Path, monkeypatch):
    (tmp_path / "own-1.0.dist-info").mkdir()
    monkeypatch.chdir(tmp_path)
    assert installed_packages([""]) == {"own": "1.0"}
