"""Checks a module or command that is run instead of a script, before the job exists.

Its folder is packed like a script's source_dir, by `source`.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trackside.errors import InvalidSpec, Violation
from trackside.records.spec import MODULE_NAME, MODULE_NAME_SAYS
from trackside.sdk.locations import is_remote

_OF_INTERPRETER = frozenset({"python", "python3", "pip", "pip3", "torchrun"})
"""Programs that every command finds: those of the job's interpreter."""
_KINDS = ("entry_point", "module", "command")


def is_script(arguments: Mapping[str, Any]) -> bool:
    return "entry_point" in arguments


def has_source(arguments: Mapping[str, Any]) -> bool:
    return any(name in arguments for name in _KINDS)


def base_of_program(arguments: Mapping[str, Any]) -> str | None:
    """The base of the job's name: the script or module, also inside a command."""
    if "module" in arguments:
        return f"{arguments['module'].rpartition('.')[2]}.py"
    words: Sequence[str] = arguments.get("command", ())
    if "-m" in words[:-1]:
        return words[words.index("-m") + 1].replace(".", "-")
    files = [word for word in words if word.endswith((".py", ".sh"))]
    return next(iter([*files, *words]), None)


def check_kind(arguments: Mapping[str, Any]) -> None:
    """`InvalidSpec` when it is unclear what to run."""
    given = [name for name in _KINDS if name in arguments]
    if len(given) > 1:
        advice = f"cannot be given with {' and '.join(given[:-1])}"
        raise InvalidSpec([Violation(given[-1], arguments[given[-1]], advice)])
    module = arguments.get("module", "module")
    if not isinstance(module, str) or not re.fullmatch(MODULE_NAME, module):
        raise InvalidSpec([Violation("module", module, f"must be {MODULE_NAME_SAYS}")])
    command = arguments.get("command", ["command"])
    is_list = isinstance(command, Sequence) and not isinstance(command, str)
    if not is_list or not all(isinstance(word, str) for word in command) or not [*command, ""][0]:
        advice = "must be a list of texts that begins with the name of a program"
        raise InvalidSpec([Violation("command", command, advice)])


def problems(arguments: Mapping[str, Any], python: str, *, runs_here: bool) -> Iterator[Violation]:
    """Problems other than with a script's file. `python` is the job's interpreter."""
    if has_source(arguments) and not is_script(arguments):
        yield from _folder_problems(arguments)
    if "command" not in arguments:
        return
    yield from _clashes(arguments)
    folder = arguments.get("source_dir") or "."
    if not is_remote(folder):
        looked_at = Path(os.path.expanduser(folder))
        name = arguments["command"][0]
        yield from _program_problems(name, looked_at, python, runs_here=runs_here)


def in_place_problems(arguments: Mapping[str, Any], *, runs_here: bool) -> Iterator[Violation]:
    """For a job that runs directly in a folder of this machine."""
    if not arguments.get("in_place"):
        return
    folder = arguments.get("source_dir") or os.curdir
    if not runs_here:
        advice = (
            "cannot be had at a server, which has not this folder; leave it away to send a copy"
        )
        yield Violation("in_place", True, advice)
    elif is_remote(folder):
        yield Violation("source_dir", str(folder), "is no folder of this machine to run in")
    elif Path(os.path.abspath(os.path.expanduser(folder))) in (Path("/"), Path.home()):
        advice = "is too much to look through for what the script makes; go to the code's folder"
        yield Violation("source_dir", str(folder), advice)
    if dependencies := arguments.get("dependencies"):
        advice = "are packed, and a job in place packs nothing; put them on PYTHONPATH"
        yield Violation("dependencies", [*map(str, dependencies)], advice)


def _folder_problems(arguments: Mapping[str, Any]) -> Iterator[Violation]:
    here = Path.cwd()
    if arguments.get("in_place"):
        return
    if "source_dir" not in arguments and here in (Path("/"), Path.home()):
        advice = (
            "would be packed as a whole, for the job runs in a copy of the folder that it is "
            "started from; go to the folder of the code, or name it"
        )
        yield Violation("source_dir", str(here), advice)


def _clashes(arguments: Mapping[str, Any]) -> Iterator[Violation]:
    """A command is run as given: nothing is appended or prepended."""
    if hyperparameters := arguments.get("hyperparameters"):
        advice = "are not added to a command; write them into it, or name a script or module"
        yield Violation("hyperparameters", [*hyperparameters], advice)
    distribution = arguments.get("distribution") or {}
    if distribution and "mpi" not in distribution:
        advice = "starts scripts and modules; let the command begin with torchrun instead"
        yield Violation("distribution", [*distribution], advice)


def _program_problems(
    name: str, folder: Path, python: str, *, runs_here: bool
) -> Iterator[Violation]:
    inside = folder / name
    if "/" not in name:
        if name in _OF_INTERPRETER or not runs_here:
            return
        if not shutil.which(name) and not os.access(Path(python).with_name(name), os.X_OK):
            yield Violation("command", name, _unknown(name, inside))
    elif os.path.isabs(name):
        if runs_here and not os.access(name, os.X_OK):
            yield Violation("command", name, "is no program of this machine")
    elif not inside.is_file():
        yield Violation("command", name, f"is not in the folder {str(folder.resolve())!r}")
    elif (inside.parent.parent / "pyvenv.cfg").exists():
        advice = "is in a virtual environment, which is not packed; begin the command with python,"
        yield Violation("command", name, f"{advice} and give this one as the option python")
    elif not os.access(inside, os.X_OK):
        yield Violation("command", name, f"is not executable; `chmod +x {name}` makes it so")


def _unknown(name: str, inside: Path) -> str:
    if inside.is_file():
        return "is a file, not a program; name it as the entry_point, its arguments behind `--`"
    return "is no program of this machine"
