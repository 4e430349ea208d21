"""Small libraries in C that are preloaded by the processes of a case; built when they are used."""

import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.drill.case import NotShown


def built(name: str, folder: Path) -> Path:
    """The library of `name`.c beside this, in the folder; `NotShown` where it cannot be built."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        raise NotShown("a library is preloaded for this: on Linux, with a C compiler")
    library = folder / f"{name}.so"
    source = Path(__file__).with_name(f"{name}.c")
    command = [compiler, "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", str(source), "-ldl"]
    done = subprocess.run([*command, "-o", str(library)], capture_output=True, text=True)
    if done.returncode != 0:
        raise NotShown(f"{source.name} cannot be built here: {done.stderr.strip()[-300:]}")
    return library
