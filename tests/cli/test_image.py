"""`trackside image build` and `trackside run --image`, on the command line and in a terminal."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.terminal import Terminal
from tests.docker_engine import SHELL, docker, docker_engine
from tests.image_registry import running_registry

TAG = f"trackside-test/cli-{os.getpid()}"


@pytest.fixture(autouse=True)
def script(workplace: Path) -> Path:
    path = workplace / "train.py"
    path.write_text("print('trained')\n")
    return path


def test_without_an_engine_it_is_said_how_to_get_one(command: Command, workplace: Path) -> None:
    away = f"unix://{workplace}/no.sock"
    for arguments in (("run", "train.py", "--image", "x"), ("image", "build", "train.py", "-tx")):
        done = command(*arguments, DOCKER_HOST=away)
        assert done.returncode == 2
        assert f"No Docker engine at {away}: No such file or directory. " in done.stderr
        assert "sudo systemctl start docker" in done.stderr
        assert "Jobs without an image need none." in done.stderr


def test_a_script_that_is_not_there(command: Command, workplace: Path) -> None:
    done = command("image", "build", "absent.py", "-t", "x")
    assert done.returncode == 2
    assert "SCRIPT = 'absent.py': is no file of this folder" in done.stderr
    (workplace / "src").mkdir()
    done = command("image", "build", "../train.py", "--source-dir", "src", "-t", "x")
    assert "is not in the folder 'src', which alone is copied" in done.stderr
    assert not (workplace / "Dockerfile").exists()


@pytest.mark.parametrize(
    ("option", "given", "said"),
    [
        ("--shm", "much", "'much' is no size. Write gigabytes, as in 8 or 0.5g, or 512m."),
        ("--shm", "0", "is no size"),
        ("--memory", "1536m", "'1536m' is not whole gigabytes. Write 2."),
    ],
)
def test_a_size_is_as_docker_takes_it(command: Command, option: str, given: str, said: str) -> None:
    done = command("run", "train.py", "--image", "x", option, given)
    assert done.returncode == 2
    assert said in done.stderr


def test_without_an_image_a_program_is_needed(command: Command) -> None:
    done = command("run")
    assert done.returncode == 2
    assert "Missing argument 'SCRIPT'" in done.stderr
    done = command("run", "train.py", "--shm", "1")
    assert "--shm = 1.0: is the size of a container's /dev/shm; give --image too" in done.stderr


def test_a_dockerfile_of_ones_own_is_built_as_it_is(command: Command, workplace: Path) -> None:
    own = f"FROM {SHELL}\nRUN echo 'built here'\n"
    (workplace / "Dockerfile").write_text(own)
    done = command("image", "build", "train.py", "-t", TAG, DOCKER_HOST=docker_engine())
    docker("rmi", TAG)
    assert done.returncode == 0, done.stderr
    assert "built here\n" in done.stdout
    assert "\n\n" not in done.stdout
    assert "does not name 'train.py'" in done.stderr
    assert "ENV SAGEMAKER_PROGRAM=train.py" in done.stderr
    assert (workplace / "Dockerfile").read_text() == own


def test_a_build_that_fails_shows_its_output(command: Command, workplace: Path) -> None:
    text = f"FROM {SHELL}\nRUN echo why train.py fails >&2; exit 3\n"
    (workplace / "Dockerfile").write_text(text)
    done = command("image", "build", "train.py", "-t", TAG, DOCKER_HOST=docker_engine())
    assert done.returncode == 2
    assert "\nwhy train.py fails\n" in done.stdout
    assert "\x1b" not in done.stdout
    assert f"Error: The image {TAG!r} was not built: " in done.stderr


def test_a_pull_is_a_bar_on_a_terminal(terminal: Callable[..., Terminal], workplace: Path) -> None:
    engine = docker_engine()
    with running_registry(workplace) as registry:
        name = registry.push(SHELL, "shell")
        with terminal("run", "train.py", "--image", name, DOCKER_HOST=engine) as shown:
            shown.until_over()
        docker("rmi", name)
    assert f"Pulling {name}" in shown.shown
    assert "Started" in shown.shown
