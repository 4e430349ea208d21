"""TRACKSIDE_IMAGES: which interpreter of this machine, or which image, stands for the image that a
job names; and TRACKSIDE_ALLOW_IMAGES: which it may name besides.
"""

import os
import shutil
from fnmatch import fnmatchcase

from trackside.errors import InvalidSetting
from trackside.quick_dataclass import dataclass

TABLE, ALLOWED = "TRACKSIDE_IMAGES", "TRACKSIDE_ALLOW_IMAGES"
_CONTAINER = "docker:"


@dataclass(frozen=True, slots=True)
class Row:
    pattern: str
    image: str = ""
    """What a container is made of, or …"""
    program: str = ""
    """… the interpreter that runs the script as a process."""

    @property
    def interpreter(self) -> str:
        return find_program(self.program, TABLE)


def parse(text: str) -> list[Row]:
    return [_row(each, text) for each in text.split(",") if each.strip()]


def look_up(image: str | None, text: str) -> Row | None:
    """The first row whose pattern fits the image's name and tag, whatever its registry, or the
    whole name. A job without an image has the empty name, which `*` fits."""
    whole = image or ""
    names = (whole.rpartition("/")[2], whole)
    for row in parse(text):
        if any(fnmatchcase(name, row.pattern) for name in names):
            return row
    return None


def is_allowed(image: str, patterns: str) -> bool:
    """By the whole name, with its registry."""
    given = [pattern.strip() for pattern in patterns.split(",")]
    return any(fnmatchcase(image, pattern) for pattern in given if pattern)


def find_program(program: str, setting: str) -> str:
    path = os.path.abspath(os.path.expanduser(program)) if os.sep in program else None
    path = path or shutil.which(program)
    if path is None or not os.access(path, os.X_OK):
        raise InvalidSetting(f"{setting} names {program!r}, which is no program of this machine.")
    return path


def _row(row: str, text: str) -> Row:
    pattern, _, target = (part.strip() for part in row.partition("="))
    image = target.removeprefix(_CONTAINER).strip() if target.startswith(_CONTAINER) else ""
    if not pattern or not target or target == _CONTAINER:
        raise InvalidSetting(
            f"{TABLE} = {text!r} is not of the form PATTERN=PROGRAM,… or PATTERN=docker:IMAGE,…, "
            "such as 'pytorch-training:2.*=/opt/torch/bin/python,*=docker:my-training'."
        )
    return Row(pattern, image=image) if image else Row(pattern, program=target)
