"""Whole jobs on every Python that pyproject.toml promises: the distribution's own, and later ones.

`.ci/interpreters` makes an environment of each, with nothing in it but what `pip install .[server]`
brings. What the tests themselves import is of no concern there: all is done by its programs.
"""

import json
import os
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.job_processes import end_processes_of
from tests.kept_port import kept_port, port_of

PROJECT = Path(__file__).parents[1]
OLDEST = "3.11"
VERSIONS = (OLDEST, "3.12", "3.13", "3.14")

SCRIPT = """
import argparse, os, pathlib, sys
from trackside import SummaryWriter

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
epochs = parser.parse_args().epochs
rows = (pathlib.Path(os.environ["SM_CHANNEL_TRAINING"]) / "rows.csv").read_text().split()
checkpoint = pathlib.Path("/opt/ml/checkpoints/last")
first = int(checkpoint.read_text()) + 1 if checkpoint.exists() else 0
print("python", sys.version.split()[0], "begins at", first, flush=True)
with SummaryWriter("/opt/ml/output/tensorboard") as writer:
    for epoch in range(first, first + epochs):
        print(f"loss={1 / (epoch + 1):.4f}", flush=True)
        writer.add_scalar("accuracy", epoch / 10, epoch)
        checkpoint.write_text(str(epoch))
(pathlib.Path(os.environ["SM_MODEL_DIR"]) / "model.txt").write_text(" ".join(rows))
(pathlib.Path(os.environ["SM_OUTPUT_DATA_DIR"]) / "notes.txt").write_text("notes")
"""


@dataclass(frozen=True)
class Interpreter:
    """One environment; its commands see no variable of ours but those given."""

    folder: Path
    workplace: Path

    def run(self, *command: str, **variables: str) -> str:
        done = subprocess.run(
            self.command(*command),
            cwd=self.workplace,
            env=self.environment(**variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def command(self, program: str, *arguments: str) -> list[str]:
        return [str(self.folder / "bin" / program), *arguments]

    def environment(self, **variables: str) -> dict[str, str]:
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        home = self.workplace / "home"
        return {"PATH": path, "HOME": str(home), "TRACKSIDE_HOME": str(home), **variables}

    def version(self) -> str:
        return self.run("python", "-c", "import sys; print(sys.version.split()[0])").strip()


@pytest.fixture(
    params=[
        pytest.param(each, marks=pytest.mark.nightly if each == "3.12" else ()) for each in VERSIONS
    ]
)
def interpreter(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Interpreter]:
    version = str(request.param)
    folder = PROJECT / f".venv-smoke-{version}"
    if not (folder / ".made").exists():
        reason = f"there is no {folder.name}; `.ci/interpreters` makes it, given that Python"
        if version == OLDEST and "interpreters" in os.environ.get("TRACKSIDE_REQUIRE", ""):
            pytest.fail(reason)
        pytest.skip(reason)
    workplace = tmp_path / "work place"
    (workplace / "home").mkdir(parents=True)
    (workplace / "data").mkdir()
    (workplace / "data" / "rows.csv").write_text("one\ntwo\n")
    (workplace / "train.py").write_text(SCRIPT)
    yield Interpreter(folder, workplace)
    end_processes_of(workplace)


@contextmanager
def server(interpreter: Interpreter) -> Iterator[dict[str, str]]:
    """`trackside server` on a home of its own; what leads a client there."""
    home = interpreter.workplace / "the server's home"
    holder = kept_port()
    address = f"127.0.0.1:{port_of(holder)}"
    created = interpreter.run(
        "trackside", "keys", "create", "tests", "--rights", "admin", TRACKSIDE_HOME=str(home)
    )
    exported = [line.removeprefix("export ").partition("=") for line in created.splitlines()]
    key = {name: value for name, _, value in exported}
    process = subprocess.Popen(
        interpreter.command("trackside", "server", "--listen", address, "--quiet"),
        env=interpreter.environment(TRACKSIDE_HOME=str(home)),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert address in process.stdout.readline(), "the server ended before it listened"
        yield {
            "TRACKSIDE_URL": f"http://{address}",
            "TRACKSIDE_ACCESS_KEY_ID": key["AWS_ACCESS_KEY_ID"],
            "TRACKSIDE_SECRET_ACCESS_KEY": key["AWS_SECRET_ACCESS_KEY"],
        }
        process.terminate()
        assert process.wait() == 0
    finally:
        process.kill()
        process.communicate()
        holder.close()


def check_whole_job(interpreter: Interpreter, checkpoints: str, **where: str) -> None:
    """Two jobs, of which the second goes on where the first has ended, and all there is to see."""
    tensorboard = checkpoints.replace("checkpoints", "curves")
    for name in ("first", "second"):
        shown = interpreter.run(
            *("trackside", "run", "train.py", "--name", name, "--wait", "-p", "epochs=3"),
            *("--channel", "training=data", "--checkpoint-uri", checkpoints),
            *("--tensorboard", tensorboard, "--metric", r"loss=loss=([0-9.]+)"),
            **where,
        )
    assert f"python {interpreter.version()} begins at 3" in shown
    assert "Completed - Training job completed" in shown

    series = json.loads(interpreter.run("trackside", "metrics", "second", "--json", **where))
    last = {each["tag"]: each["last"] for each in series}
    assert (last["loss"], last["accuracy"]) == pytest.approx((1 / 6, 0.5), abs=1e-3)

    interpreter.run("trackside", "artifacts", "second", "--download", "results", **where)
    results = interpreter.workplace / "results"
    found = {path.name for path in results.rglob("*")}
    assert {"model.tar.gz", "output.tar.gz", "last"} <= found
    archive = next(results.rglob("model.tar.gz"))
    code = (
        "import sys; from pathlib import Path; from trackside.files.extract import extract\n"
        "extract(Path(sys.argv[1]), Path('model')); print(Path('model/model.txt').read_text())"
    )
    assert interpreter.run("python", "-c", code, str(archive)) == "one two\n"

    interpreter.run("trackside", "report", "second", "-o", "page.html", **where)
    page = (interpreter.workplace / "page.html").read_text()
    assert "second" in page
    assert "accuracy" in page


def test_a_whole_job_on_this_machine(interpreter: Interpreter):
    check_whole_job(interpreter, "s3://bucket/checkpoints")


def test_a_whole_job_through_a_server(interpreter: Interpreter):
    with server(interpreter) as where:
        check_whole_job(interpreter, "s3://trackside/checkpoints", **where)


@pytest.mark.parametrize("interpreter", [OLDEST], indirect=True)
def test_hostile_archives_stay_inside(
    interpreter: Interpreter, tmp_path_factory: pytest.TempPathFactory
):
    """The tests of packing and unpacking once more, where Python itself checks the least."""
    modules = ("test_archive", "test_extract", "test_tar_reader")
    paths = [str(PROJECT / "tests" / "files" / f"{module}.py") for module in modules]
    options = ("-q", "--noconftest", "-c", os.devnull, "--rootdir", str(PROJECT))
    folder = tmp_path_factory.mktemp("old") / "t"  # a socket's path has to be short
    elsewhere = ("-p", "no:cacheprovider", "--basetemp", str(folder))
    shown = interpreter.run(
        *("python", "-m", "pytest", *options, *elsewhere, *paths), PYTHONPATH=str(PROJECT)
    )
    assert " passed" in shown


@pytest.mark.parametrize("interpreter", [OLDEST], indirect=True)
def test_the_oldest_has_a_tarfile_without_filters(interpreter: Interpreter):
    """Or it would not show what Debian 12's has shown."""
    if "interpreters" not in os.environ.get("TRACKSIDE_REQUIRE", ""):
        pytest.skip("it matters where TRACKSIDE_REQUIRE names the interpreters")
    interpreter.run("python", "-c", "import tarfile; assert not hasattr(tarfile, 'data_filter')")


def test_the_versions_that_are_promised_are_tried():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={OLDEST}"
    named = [line.rpartition(" ")[2] for line in project["classifiers"] if ":: 3." in line]
    assert named[0] == OLDEST
    assert set(named) <= set(VERSIONS)
