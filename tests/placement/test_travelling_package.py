"""Trackside and what it imports, as one file for machines that have none of it."""

import subprocess
import sys
import zipfile
from pathlib import Path

from trackside.placement.travelling_package import OTHERS, OWN, packed

PROGRAM = "import trackside.supervisor.program, trackside.jobs.jobs, obstore; print(obstore)"


def test_an_interpreter_without_any_package_runs_a_supervisor_of_it(tmp_path: Path):
    package = packed(tmp_path / "packages")
    with zipfile.ZipFile(package.path) as archive:
        archive.extractall(tmp_path)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path += sys.argv[1:]; {PROGRAM}"]
        + [str(tmp_path / OWN), str(tmp_path / OTHERS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / OTHERS) in done.stdout


def test_it_is_made_once_for_the_same_versions(tmp_path: Path):
    first = packed(tmp_path)
    made = first.path.stat().st_mtime_ns
    assert packed(tmp_path) == first
    assert first.path.stat().st_mtime_ns == made


def test_those_of_versions_before_are_removed(tmp_path: Path):
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "before.zip").touch()
    package = packed(folder)
    assert [*folder.iterdir()] == [package.path]
