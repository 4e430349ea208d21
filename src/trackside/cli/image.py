"""`trackside image`: builds the container image of a training script."""

import re
import sys
from pathlib import Path

import click

from trackside.cli.messages import print_message
from trackside.cli.run_command_line import FORM, as_mapping
from trackside.errors import InvalidSpec, Violation
from trackside.settings import environment
from trackside.texts.terminal_text import visible

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_BASE = f"python:{sys.version_info.major}.{sys.version_info.minor}-slim"


@click.group
def image() -> None:
    """Build container images, for `trackside run --image`.

    \b
    Example:
      trackside image build train.py --source-dir src -t my-training
    """


@image.command
@click.argument("script")
@click.option(
    "--source-dir",
    metavar="DIR",
    help="The folder with SCRIPT and all that it needs; by default SCRIPT alone is copied.",
)
@click.option("-t", "--tag", required=True, metavar="NAME", help="The image's name, as NAME[:TAG].")
@click.option(
    "--base",
    default=_BASE,
    metavar="IMAGE",
    show_default=True,
    help="What a new Dockerfile builds on: any image with Python 3.8 or later.",
)
@click.option(
    "--build-arg",
    "build_arguments",
    multiple=True,
    callback=as_mapping,
    metavar=FORM,
    help="For an ARG of the Dockerfile; may be repeated.",
)
@click.option(
    "--network", default="", metavar="NAME", help="Of its RUN lines, such as host or none."
)
def build(
    script: str,
    source_dir: str | None,
    tag: str,
    base: str,
    build_arguments: dict[str, str],
    network: str,
) -> None:
    """Build an image that trains with SCRIPT.

    A Dockerfile is written to the folder of the script, or to DIR, unless there is one: then that
    one is built. Files that .dockerignore names are not sent. The image is built by Docker or
    Podman on this machine.

    \b
    Examples:
      trackside image build train.py -t my-training
      trackside image build train.py --source-dir src -t my-training --base my-torch
      trackside run --image my-training -p epochs=3 --wait
    """
    from trackside.containers.engine_client import Engine, find_engine
    from trackside.containers.image_build import DOCKERFILE, build_image
    from trackside.sdk.source import LEFT_OUT

    folder, program = _found(script, source_dir)
    _write_dockerfile(folder / DOCKERFILE, program, base, whole_folder=source_dir is not None)
    environ = environment()
    made = build_image(
        Engine(find_engine(environ)),
        folder,
        tag,
        build_arguments=build_arguments,
        environ=environ,
        network=network,
        left_out=[f"**/{name}" for name in (*LEFT_OUT, ".venv", "venv")],
        show=_print_output,
    )
    print(f"Built {tag} ({made.id})")
    print(f"  trackside run --image {tag} --wait   trains with it", flush=True)


def _found(script: str, source_dir: str | None) -> tuple[Path, str]:
    """The folder that is sent, and the script below it."""
    path = Path(source_dir or ".", script).expanduser()
    if not path.is_file():
        where = f"the folder {source_dir!r}" if source_dir else "this folder"
        raise InvalidSpec([Violation("SCRIPT", script, f"is no file of {where}")])
    if source_dir is None:
        return path.parent, path.name
    folder = Path(source_dir).expanduser()
    if not path.resolve().is_relative_to(folder.resolve()):
        advice = f"is not in the folder {source_dir!r}, which alone is copied to the image"
        raise InvalidSpec([Violation("SCRIPT", script, advice)])
    return folder, path.resolve().relative_to(folder.resolve()).as_posix()


def _write_dockerfile(path: Path, program: str, base: str, *, whole_folder: bool) -> None:
    from trackside.containers.image_build import dockerfile_text

    if not path.exists():
        text = dockerfile_text(
            program,
            base,
            has_requirements=(path.parent / "requirements.txt").is_file(),
            whole_folder=whole_folder,
        )
        path.write_text(text)
        print(f"Wrote {path}")
        return
    print(f"Using {path}")
    if program not in path.read_text(errors="replace"):
        print_message(
            f"Warning: {str(path)!r} does not name {program!r}: the image may run something else. "
            f"`ENV SAGEMAKER_PROGRAM={program}` there lets it run that, or remove the file to have "
            "it written."
        )


def _print_output(text: str) -> None:
    """Comes in pieces of lines, and coloured."""
    plain = _COLOURS.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    sys.stdout.write("\n".join(map(visible, plain.split("\n"))))
    sys.stdout.flush()
