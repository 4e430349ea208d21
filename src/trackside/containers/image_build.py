"""Builds an image through the Docker engine: the folder as a tar file, and the output as it comes.

The engine's own builder is used, so neither Docker's client nor BuildKit is needed.
"""

import json
import os
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

from trackside.containers import registry_credentials
from trackside.containers.docker_ignore import DockerIgnore
from trackside.containers.engine_client import Engine, EngineError
from trackside.containers.images import Image, find_image
from trackside.errors import ImageError

DOCKERFILE, IGNORE_FILE = "Dockerfile", ".dockerignore"
_FIRST_LINE = "# Written once by `trackside image build`, and yours from now on.\n"


def dockerfile_text(program: str, base: str, *, has_requirements: bool, whole_folder: bool) -> str:
    """For a script of this folder."""
    lines = [_FIRST_LINE + f"FROM {base}", ""]
    if has_requirements:
        lines += [
            "COPY requirements.txt /opt/ml/code/requirements.txt",
            "RUN pip install -r /opt/ml/code/requirements.txt",
            "",
        ]
    copied = ". /opt/ml/code/" if whole_folder else f"{program} /opt/ml/code/{program}"
    lines += ["# Copies the training code inside the container", f"COPY {copied}", ""]
    lines += ["# The script that is run", f"ENV SAGEMAKER_PROGRAM={program}", ""]
    lines += ["# SageMaker also needs `train` in the image; `trackside run --image` brings it:"]
    lines += ["# RUN pip install sagemaker-training", ""]
    return "\n".join(lines)


def build_image(
    engine: Engine,
    folder: Path,
    tag: str,
    *,
    dockerfile: str = DOCKERFILE,
    build_arguments: Mapping[str, str],
    environ: Mapping[str, str],
    network: str = "",
    left_out: Sequence[str] = (),
    show: Callable[[str], None],
) -> Image:
    """`dockerfile` is relative to the folder, and `left_out` are the patterns of what is not sent
    if there is no .dockerignore. `ImageError` has the engine's reason.
    """
    query: dict[str, object] = {"t": tag, "dockerfile": dockerfile, "rm": 1, "forcerm": 1}
    if build_arguments:
        query["buildargs"] = json.dumps(dict(build_arguments))
    if network:
        query["networkmode"] = network
    headers = {
        "Content-Type": "application/x-tar",
        **registry_credentials.header_for_all(environ),
    }
    try:
        with tempfile.TemporaryFile() as archive:
            write_context(folder, dockerfile, archive, left_out)
            messages = engine.stream("/build", query, headers, archive)
            with closing(messages):
                for message in messages:
                    _note(message, show, tag)
        image = find_image(engine, tag)
    except EngineError as error:
        raise ImageError(f"The image {tag!r} was not built: {error}") from error
    if image is None:
        raise ImageError(f"The image {tag!r} was not built: the engine ended the build early.")
    return image


def _note(message: Mapping[str, object], show: Callable[[str], None], tag: str) -> None:
    if text := message.get("error"):
        reason = str(text).rstrip(".")
        raise ImageError(f"The image {tag!r} was not built: {reason}. The output above says more.")
    if text := message.get("stream"):
        show(str(text))
    elif (text := message.get("status")) and not message.get("progressDetail"):
        layer = f"{message['id']}: " if message.get("id") else ""
        show(f"{layer}{text}\n")


def write_context(
    folder: Path, dockerfile: str, archive: BinaryIO, left_out: Sequence[str] = ()
) -> None:
    """The folder as a tar file. Owned by root, as by `docker build`: the engine's cache of layers
    then does not depend on who builds.
    """
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sent_files(folder, dockerfile, left_out):
            entry = tar.gettarinfo(str(folder / path), path)
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            if entry.isreg():
                with _opened(folder / path) as content:
                    tar.addfile(entry, content)
            else:
                tar.addfile(entry)
    archive.truncate(tar.offset)  # without the padding, which an engine does not read
    archive.seek(0)


def sent_files(folder: Path, dockerfile: str, left_out: Sequence[str] = ()) -> Iterator[str]:
    """Paths below the folder, parents first; sockets and devices cannot be sent."""
    ignore = _read_ignore(folder, dockerfile, left_out)
    always = (dockerfile, IGNORE_FILE)
    for parent, folders, files in os.walk(folder):
        below = os.path.relpath(parent, folder)
        prefix = "" if below == "." else f"{below}/"
        linked = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        for name in sorted(set(folders) - set(linked)):
            if not ignore.leaves_out(prefix + name):
                yield prefix + name
            elif not ignore.takes_back and not dockerfile.startswith(f"{prefix}{name}/"):
                folders.remove(name)
        for name in sorted([*files, *linked]):
            path = prefix + name
            if path in always or not ignore.leaves_out(path):
                mode = os.lstat(os.path.join(parent, name)).st_mode
                if stat.S_ISREG(mode) or stat.S_ISLNK(mode):
                    yield path


def _read_ignore(folder: Path, dockerfile: str, left_out: Sequence[str]) -> DockerIgnore:
    """Of this Dockerfile, or of the folder; `left_out` without either."""
    for name in (f"{dockerfile}{IGNORE_FILE}", IGNORE_FILE):
        path = folder / name
        if path.is_file():
            try:
                return DockerIgnore(path.read_text(errors="surrogateescape").splitlines())
            except ValueError as error:
                raise ImageError(f"{str(path)!r}: {error}. Correct the line.") from error
    return DockerIgnore(left_out)


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except PermissionError as error:
        raise ImageError(
            f"{str(path)!r} cannot be read, and the image's folder is sent as a whole. Make it "
            f"readable, or name it in {IGNORE_FILE}."
        ) from error
