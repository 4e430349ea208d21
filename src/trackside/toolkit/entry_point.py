"""The user's entry point: its kind, whether its name is valid, how it is started."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from trackside.errors import ToolkitError

_NAME = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._+-]*(/[A-Za-z0-9._+-]+)*")
_ALLOWED = re.compile(r"[A-Za-z0-9._+/-]")


class Kind(Enum):
    PROGRAM = "program"
    """A Python file."""
    PACKAGE = "package"
    """A module of a package with setup.py, installed first."""
    COMMAND = "command"
    """Another file of the source: it is executed."""
    MODULE = "module"
    """A module, by its dotted name; nothing is installed."""
    GIVEN = "given"
    """A program of the machine or of the source, as it was typed."""

    @property
    def starts_programs(self) -> bool:
        """Whether it searches PATH for `python` and others."""
        return self in (Kind.COMMAND, Kind.GIVEN)


class Interpreter(NamedTuple):
    """The interpreter for Python files."""

    python: str
    overlay: str | None = None
    """The environment with the requirements, if it is not the interpreter's own."""
    is_temporary: bool = False
    programs: tuple[str, ...] = ()
    """Folders whose programs come before all others on PATH."""


class EntryPoint(NamedTuple):
    name: str
    kind: Kind
    needs_shell: bool = False
    """A text without `#!`: run by /bin/sh, as a shell would.

    Everything else is executed without a shell: signals reach it, and names like SM_HP_BATCH-SIZE
    survive (dash drops them).
    """

    def command(self, python: str, arguments: Sequence[str]) -> list[str]:
        """To be run in the code folder."""
        if self.kind is Kind.PROGRAM:
            return [python, "--", self.name, *arguments]
        if self.kind in (Kind.MODULE, Kind.PACKAGE):
            return [python, "-m", self.module, *arguments]
        if self.kind is Kind.GIVEN:
            return [self.name, *arguments]
        shell = ["/bin/sh"] if self.needs_shell else []
        return [*shell, f"./{self.name}", *arguments]

    @property
    def module(self) -> str:
        if self.kind is Kind.MODULE:
            return self.name
        name = self.name[:-3] if self.name.endswith(".py") else self.name
        return name.replace("/", ".")


def find_entry_point(name: str | None, code: str) -> EntryPoint:
    """Check the name and the code folder; a command is made executable."""
    name = _checked(name)
    if name.endswith(".sh"):
        kind = Kind.COMMAND
    elif os.path.isfile(os.path.join(code, "setup.py")):
        kind = Kind.PACKAGE
    else:
        kind = Kind.PROGRAM if name.endswith(".py") else Kind.COMMAND
    if kind is not Kind.COMMAND:
        return EntryPoint(name, kind)
    path = _make_executable(name, code)
    with open(path, "rb") as file:
        start = file.read(64)
    return EntryPoint(name, kind, needs_shell=not start.startswith(b"#!") and b"\0" not in start)


def _checked(name: str | None) -> str:
    if not name:
        raise ToolkitError(
            "No entry point is named. Set the variable SAGEMAKER_PROGRAM or the hyperparameter "
            "sagemaker_program to a file of the source, for example 'train.py'."
        )
    relative = name[2:] if name.startswith("./") else name
    if _NAME.fullmatch(relative) and not {".", ".."} & set(relative.split("/")):
        return relative
    strange = "".join(sorted(set(_ALLOWED.sub("", name))))
    because = f"it contains {strange!r}" if strange else "it has to be a path below the source"
    raise ToolkitError(
        f"Entry point {name!r} is not accepted: {because}. Name a file by letters, digits and "
        "'._+-', relative to the source, for example 'train.py' or 'bin/train.sh'."
    )


def _make_executable(name: str, code: str) -> str:
    root = os.path.realpath(code)
    path = os.path.realpath(os.path.join(root, name))
    if os.path.commonpath([root, path]) != root:
        raise ToolkitError(
            f"Entry point {name!r} is a link to {path!r}, outside the source. Copy the file in."
        )
    if not os.path.isfile(path):
        held = ", ".join(sorted(os.listdir(code))[:20]) or "nothing"
        raise ToolkitError(f"Entry point {name!r} is not in the source, which holds: {held}.")
    if not os.access(path, os.X_OK):
        os.chmod(path, os.stat(path).st_mode | 0o111)
    return path
