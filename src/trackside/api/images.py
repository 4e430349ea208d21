"""Which interpreter of this machine stands for a training image: jobs run as processes here."""

import os
import shutil
from fnmatch import fnmatchcase

from trackside.errors import InvalidSetting
from trackside.settings import Settings


def interpreter_for(image: str | None, settings: Settings) -> str | None:
    """By the first pattern of TRACKSIDE_IMAGES that fits the image's name and tag, whatever its
    registry; else TRACKSIDE_PYTHON. None is the interpreter that Trackside itself runs in."""
    name = (image or "").rpartition("/")[2]
    for pattern, program in table(settings.images):
        if fnmatchcase(name, pattern):
            return _found(program, "TRACKSIDE_IMAGES")
    return _found(settings.python, "TRACKSIDE_PYTHON") if settings.python else None


def table(text: str) -> list[tuple[str, str]]:
    rows = [row.partition("=") for row in text.split(",") if row.strip()]
    for pattern, _, program in rows:
        if not pattern.strip() or not program.strip():
            raise InvalidSetting(
                f"TRACKSIDE_IMAGES = {text!r} is not of the form PATTERN=PROGRAM,…, such as "
                "'pytorch-training:2.*=/opt/torch/bin/python'."
            )
    return [(pattern.strip(), program.strip()) for pattern, _, program in rows]


def _found(program: str, setting: str) -> str:
    path = os.path.abspath(os.path.expanduser(program)) if os.sep in program else None
    path = path or shutil.which(program)
    if path is None or not os.access(path, os.X_OK):
        raise InvalidSetting(f"{setting} names {program!r}, which is no program of this machine.")
    return path
