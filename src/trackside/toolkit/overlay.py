"""An environment on top of the running interpreter's: its packages stay visible and unchanged.

A cached overlay is valid once its marker exists; an incomplete build is rebuilt.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import IO

from trackside.files.overlays import MARKER, open_lock
from trackside.files.permissions import close_tree_to_others, make_folder, private_opener
from trackside.toolkit.requirements import site_folders

_PROGRAM = '#!/bin/sh\nexec "$(dirname "$0")/python" -m {} "$@"\n'
_MODULES = {"pip": "pip", "pip3": "pip", "torchrun": "torch.distributed.run"}
# To the shell its second line is a command, to Python it is a string.
_SCRIPT = """#!/bin/sh
'''exec' "$(dirname "$0")/python" "$0" "$@"
' '''
import sys
from {module} import {first}
if __name__ == "__main__":
    sys.exit({attribute}())
"""
_CONSOLE_SCRIPT = re.compile(r"([\w.-]+)\s*=\s*([\w.]+)\s*:\s*([\w.]+)")

_in_use: list[IO[str]] = []
"""Locks that are held until this process ends."""


def cached_overlay(cache: str, key: str, paths: Sequence[str], fill: Callable[[str], None]) -> str:
    """The folder of the overlay with this key; `fill` installs into a new one.

    Several jobs may need it at once: one builds, the others wait for it. It is not removed while
    this process lives.
    """
    folder = os.path.join(cache, key)
    marker = os.path.join(folder, MARKER)
    make_folder(cache)
    lock = open_lock(folder)
    _in_use.append(lock)
    while not _is_shared(lock, marker):
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(marker):
            new_overlay(folder, paths)
            fill(folder)
            close_tree_to_others(folder)
            # Its scripts contain its path, so it cannot be built elsewhere and moved.
            with open(marker, "w", opener=private_opener):
                pass
    os.utime(marker)
    return folder


def _is_shared(lock: IO[str], marker: str) -> bool:
    """Converting the lock lets other processes in between: so check afterwards."""
    fcntl.flock(lock, fcntl.LOCK_SH)
    return os.path.exists(marker)


def new_overlay(folder: str, paths: Sequence[str]) -> None:
    """An empty one, replacing an existing one, on top of the packages in `paths`."""
    import venv

    shutil.rmtree(folder, ignore_errors=True)
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    lines = [f"import site; site.addsitedir({path!r})\n" for path in site_folders(paths)]
    with open(os.path.join(packages_of(folder), "_trackside_parent.pth"), "w") as file:
        file.writelines(lines)


def add_programs(folder: str, paths: Sequence[str]) -> None:
    """`pip`, `torchrun` and the programs of all packages in `paths`, run with the overlay's Python;
    its own are not replaced.
    """
    for name, module in _MODULES.items():
        _add_program(folder, name, _PROGRAM.format(module))
    for path in site_folders(paths):
        for name, module, attribute in _console_scripts(path):
            first = attribute.partition(".")[0]
            text = _SCRIPT.format(module=module, first=first, attribute=attribute)
            _add_program(folder, name, text)


def _add_program(folder: str, name: str, text: str) -> None:
    with suppress(FileExistsError), open(os.path.join(programs_of(folder), name), "x") as file:
        file.write(text)
        os.fchmod(file.fileno(), 0o755)


def _console_scripts(path: str) -> Iterator[tuple[str, str, str]]:
    """Name, module and function of each program that a package installed in `path` declares."""
    with suppress(OSError):
        for package in sorted(os.listdir(path)):
            if package.endswith(".dist-info"):
                yield from _declared(os.path.join(path, package, "entry_points.txt"))


def _declared(file: str) -> Iterator[tuple[str, str, str]]:
    with suppress(OSError, UnicodeDecodeError), open(file, encoding="utf-8") as lines:
        section = ""
        for line in lines:
            found = _CONSOLE_SCRIPT.match(line)
            if line.startswith("["):
                section = line.strip()
            elif found and section == "[console_scripts]":
                yield found[1], found[2], found[3]


def programs_of(folder: str) -> str:
    return os.path.join(folder, "bin")


def python_of(folder: str) -> str:
    return os.path.join(folder, "bin", "python")


def packages_of(folder: str) -> str:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return os.path.join(folder, "lib", version, "site-packages")
