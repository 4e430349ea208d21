"""Apptainer's and Singularity's command lines: `pull` and `exec`.

Apptainer 1.4 is what the tests run; for Singularity this is written after the documentation of
SingularityCE 4.1.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from trackside.containers.engine_client import find_engine
from trackside.errors import ImageError

PROGRAMS = ("apptainer", "singularity")
"""The first one that is there."""
_UNIX = "unix://"
_KEPT = ("HOME", "LANG", "LOGNAME", "PATH", "TMPDIR", "USER", "XDG_RUNTIME_DIR")
"""What the program itself needs of its machine's environment, besides its own settings."""
_NOT_GIVEN = ("HOME",)
"""The program refuses it; `--home` says where it is."""
_LOOK_SECONDS = 0.2


def find_program(environ: Mapping[str, str]) -> str:
    """The program, on a machine that has no engine of Docker's kind; else empty."""
    engine = find_engine(environ)
    if not engine.startswith(_UNIX) or os.path.exists(engine.removeprefix(_UNIX)):
        return ""
    path = environ.get("PATH", os.defpath)
    return next(filter(None, (shutil.which(name, path=path) for name in PROGRAMS)), "")


def image_uri(name: str) -> str:
    """A name as Docker has it is one of a registry; files and other sources stay as they are."""
    is_named = "://" in name or name.startswith("/")
    return name if is_named else f"docker://{name}"


def pull_words(program: str, image: str, target: Path) -> list[str]:
    return [program, "pull", "--force", str(target), image_uri(image)]


def exec_words(
    program: str,
    image: str,
    command: Sequence[str],
    *,
    mounts: Mapping[str, Path],
    read_only: frozenset[str] = frozenset(),
    home: tuple[Path, str],
    work: Path,
    has_gpus: bool = False,
) -> list[str]:
    """A command in an image that sees nothing of the machine but these folders. `home` is a folder
    here and its path inside; /tmp and /var/tmp are in `work`. No word has a secret in it."""
    words = [program, "exec", "--containall", "--writable-tmpfs", "--pwd", "/opt/ml"]
    words += ["--home", f"{home[0]}:{home[1]}", "--workdir", str(work)]
    words += ["--nv"] if has_gpus else []
    for target in sorted(mounts):  # a folder before what is in it
        words += ["--mount", _mount(str(mounts[target]), target, target in read_only)]
    return [*words, image, *command]


def _mount(source: str, target: str, is_read_only: bool) -> str:
    """Fields of comma-separated values, so that a path may have a comma or a colon."""
    fields = ["type=bind", f"source={source}", f"destination={target}"]
    return ",".join(map(_field, [*fields, "ro"] if is_read_only else fields))


def _field(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"') else text


def environment(program: str, job: Mapping[str, str], machine: Mapping[str, str]) -> dict[str, str]:
    """Of the program, which gives the job's variables to the command: they are on no command
    line. Without NO_EVAL it would run what is `in backquotes` in them."""
    own = tuple(f"{name.upper()}_" for name in PROGRAMS)
    kept = {name: value for name, value in machine.items() if name in _KEPT or name.startswith(own)}
    prefix = _prefix(program)
    kept[f"{os.path.basename(program).upper()}_NO_EVAL"] = "1"
    given = {f"{prefix}{name}": value for name, value in job.items() if name not in _NOT_GIVEN}
    return {**kept, **given}


def marked(program: str, variable: str, words: Sequence[str]) -> list[str]:
    """The same, with a variable that the sandbox sets passed on to the command."""
    script = f'export {_prefix(program)}{variable}="${variable}"; exec "$@"'
    return ["/bin/sh", "-c", script, "sh", *words]


def _prefix(program: str) -> str:
    return f"{os.path.basename(program).upper()}ENV_"


def pull(
    program: str,
    image: str,
    target: Path,
    environ: Mapping[str, str],
    look: Callable[[], None],
) -> Path:
    """The image's file, made unless it is there; `look` is called meanwhile, and may end it by
    raising. `ImageError` in the program's own words."""
    if image.startswith("/"):
        if not os.path.exists(image):
            raise ImageError(f"There is no image {image!r} on this machine.")
        return Path(image)
    if target.exists():
        return target
    draft = target.with_name(f".{target.name}")
    words = pull_words(program, image, draft)
    with subprocess.Popen(
        words,
        env=environment(program, {}, environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        said = _waited(process, look)
    if process.returncode != 0:
        raise ImageError(f"{os.path.basename(program)} cannot get {image!r}: {said}")
    os.rename(draft, target)
    return target


def _waited(process: "subprocess.Popen[str]", look: Callable[[], None]) -> str:
    """Its last words."""
    try:
        said = None
        while said is None:
            look()
            with suppress(subprocess.TimeoutExpired):
                _, said = process.communicate(timeout=_LOOK_SECONDS)
    except BaseException:
        process.kill()
        raise
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1][:500] if lines else f"exit code {process.returncode}"
