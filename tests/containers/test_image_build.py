"""Images are built by a real engine of what `docker build` would send."""

import io
import os
import socket
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker_engine import PYTHON, SHELL, docker, docker_engine
from trackside.containers.docker_ignore import DockerIgnore
from trackside.containers.engine_client import Engine
from trackside.containers.image_build import (
    build_image,
    dockerfile_text,
    sent_files,
    write_context,
)
from trackside.containers.images import Image
from trackside.errors import ImageError

TAG = f"trackside-test/built-{os.getpid()}"


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine(docker_engine())
    yield engine
    if docker("images", "-q", TAG):
        docker("rmi", TAG)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    for name in (
        "train.py",
        "requirements.txt",
        "data/big.bin",
        "data/keep.csv",
        "lib/a.py",
        "lib/a.pyc",
        "lib/deep/b.pyc",
        "lib/deep/b.py",
        ".git/config",
        "notes.md",
        "README.md",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def build(engine: Engine, folder: Path, shown: list[str], **options: str) -> Image:
    return build_image(
        engine, folder, TAG, build_arguments=options, environ={"HOME": "/"}, show=shown.append
    )


IGNORES = [
    "",
    "# a comment\n\n.git\n",
    "data\n!data/keep.csv\n",
    "**/*.pyc\n",
    "*.pyc\n",
    "lib/*\n!lib/deep\n",
    "/data/\nlib/deep/b.p?\n",
    "*.md\n!README.md\n",
    "*\n!train.py\n!lib/*.py\n",
    "**/deep\n",
    "./data/../notes.md\n",
    "lib/[ab].pyc\n  data/big.bin  \n",
    "**\n!data/*.csv\n",
    "lib/a\\.py\n",
]


@pytest.mark.parametrize("lines", IGNORES)
def test_what_is_sent_is_what_docker_itself_would_send(
    engine: Engine, folder: Path, lines: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_BUILDKIT", "0")
    (folder / "Dockerfile").write_text(
        f"FROM {PYTHON}\nCOPY . /sent\nCMD find /sent -type f | sort\n"
    )
    if lines:
        (folder / ".dockerignore").write_text(lines)
    docker("build", "--quiet", "--tag", TAG, str(folder))
    expected = docker("run", "--rm", "--network", "none", TAG).split()
    sent = [*sent_files(folder, "Dockerfile")]
    files = {f"/sent/{path}" for path in sent if (folder / path).is_file()}
    always = {"/sent/Dockerfile", "/sent/.dockerignore"}  # Docker sends them, and removes them
    assert files - always == set(expected) - always


def test_what_is_taken_back_is_found_in_any_folder(folder: Path) -> None:
    """As by BuildKit; the older builder skips folders that no `!` names."""
    (folder / ".dockerignore").write_text("*\n!**/*.csv\n!lib/**/b.py\n")
    sent = [path for path in sent_files(folder, "Dockerfile") if (folder / path).is_file()]
    assert sorted(sent) == [".dockerignore", "data/keep.csv", "lib/deep/b.py"]


def test_a_pattern_that_names_nothing_is_shown(folder: Path) -> None:
    (folder / ".dockerignore").write_text("data\n!\n")
    with pytest.raises(ImageError, match=r"\.dockerignore': '!' names nothing"):
        [*sent_files(folder, "Dockerfile")]


def test_a_dockerfile_may_have_patterns_of_its_own(folder: Path) -> None:
    (folder / ".dockerignore").write_text("data\n")
    (folder / "Dockerfile.gpu.dockerignore").write_text("lib\n")
    sent = [*sent_files(folder, "Dockerfile.gpu")]
    assert "data/big.bin" in sent
    assert "lib/a.py" not in sent


def test_the_last_pattern_decides() -> None:
    ignore = DockerIgnore(["a", "!a/b", "a/b/c"])
    assert [ignore.leaves_out(path) for path in ("a", "a/b", "a/b/c", "a/b/d")] == [
        True,
        False,
        True,
        False,
    ]


def test_links_are_sent_as_links_and_sockets_not_at_all(folder: Path) -> None:
    (folder / "link").symlink_to("train.py")
    (folder / "linked").symlink_to("lib")
    (folder / "broken").symlink_to("nowhere")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(folder)
        listener.bind("socket")
        os.chdir(here)
        archive = io.BytesIO()
        write_context(folder, "Dockerfile", archive)
    with tarfile.open(fileobj=archive) as tar:
        kinds = {entry.name: entry.type for entry in tar}
        assert {entry.uid for entry in tar} == {0}
    assert kinds["link"] == kinds["linked"] == kinds["broken"] == tarfile.SYMTYPE
    assert "socket" not in kinds
    assert "linked/a.py" not in kinds


def test_an_image_is_built_and_its_output_shown(engine: Engine, folder: Path) -> None:
    (folder / "Dockerfile").write_text(
        f"FROM {SHELL}\nARG WHO=nobody\nCOPY train.py /opt/ml/code/train.py\n"
        'RUN echo "hello $WHO"\n'
    )
    shown: list[str] = []
    image = build(engine, folder, shown, WHO="you")
    assert image.id == docker("image", "inspect", "--format", "{{.Id}}", TAG)
    assert "hello you" in "".join(shown)
    assert docker("run", "--rm", TAG, "cat", "/opt/ml/code/train.py") == "train.py"


def test_a_line_that_fails_ends_the_build_with_its_words(engine: Engine, folder: Path) -> None:
    (folder / "Dockerfile").write_text(f"FROM {SHELL}\nRUN echo why; exit 3\n")
    shown: list[str] = []
    with pytest.raises(ImageError, match="was not built: .* returned a non-zero code: 3"):
        build(engine, folder, shown)
    assert "why" in "".join(shown)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("FRM x\n", "unknown instruction: FRM"),
        (f"FROM {SHELL}\nCOPY absent /\n", "absent"),
        ("FROM 127.0.0.1:1/no-such\n", "127.0.0.1:1"),
    ],
)
def test_a_dockerfile_that_cannot_be_built_is_said(
    engine: Engine, folder: Path, text: str, said: str
) -> None:
    (folder / "Dockerfile").write_text(text)
    with pytest.raises(ImageError) as refused:
        build(engine, folder, [])
    assert f"The image {TAG!r} was not built: " in str(refused.value)
    assert said.lower() in str(refused.value).lower()


def test_the_dockerfile_that_is_written() -> None:
    text = dockerfile_text("train.py", "base", has_requirements=True, whole_folder=False)
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert lines == [
        "FROM base",
        "COPY requirements.txt /opt/ml/code/requirements.txt",
        "RUN pip install -r /opt/ml/code/requirements.txt",
        "COPY train.py /opt/ml/code/train.py",
        "ENV SAGEMAKER_PROGRAM=train.py",
    ]
    text = dockerfile_text("a/train.py", "base", has_requirements=False, whole_folder=True)
    assert "COPY . /opt/ml/code/\n" in text
    assert "requirements" not in text
