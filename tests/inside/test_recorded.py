"""What a run that called `trackside.init` is made of is recorded as for other jobs."""

import io
import json
import subprocess
import tarfile
from importlib.metadata import version
from pathlib import Path

from tests.inside.conftest import Scripts
from trackside.records import machine, script_packages
from trackside.records.layout import JobKeys
from trackside.storage.locate import locate_object


def stored(scripts: Scripts, uri: str) -> bytes:
    place = locate_object(uri, home=scripts.settings.home)
    return place.store.get(place.key)


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def test_commit_change_script_packages_and_machine(scripts: Scripts):
    (scripts.folder / "model.py").write_text("width = 1\n")
    git(scripts.folder, "init", "-q")
    git(scripts.folder, "add", "model.py")
    git(scripts.folder, "commit", "-qm", "First")
    (scripts.folder / "model.py").write_text("width = 2\n")
    patient = "from trackside.sdk import git_state; git_state.WAIT_SECONDS = 60.0\n"

    done = scripts.run(f"{patient}trackside.init(name='a')\n", "--lr", "0.1")

    assert done.returncode == 0, done.stderr
    spec = scripts.ended("a").spec
    keys = JobKeys.of(spec)
    assert spec.options.git is not None
    assert spec.options.git.is_changed is True
    assert spec.options.launch is not None
    assert spec.options.launch.folder == str(scripts.folder)
    assert spec.options.command[-2:] == ("--lr", "0.1")
    assert b"-width = 1\n+width = 2\n" in stored(scripts, keys.git_diff)
    with tarfile.open(fileobj=io.BytesIO(stored(scripts, keys.source))) as source:
        assert source.getnames() == ["train.py"]
    packages = script_packages.from_bytes(stored(scripts, keys.packages("algo-1")))
    assert packages.packages["pytest"] == version("pytest")
    facts = machine.from_bytes(stored(scripts, keys.machine("algo-1"))).facts
    assert facts["python"] == packages.python


def test_outside_of_a_repository_there_is_no_commit(scripts: Scripts):
    done = scripts.run("trackside.init(name='a')\n")

    assert done.returncode == 0, done.stderr
    request = json.loads(scripts.settings.layout.job("a").spec.read_text())
    assert "Git" not in request["Trackside"]
