"""Build hook: compiles the event-file scanner where a C compiler is at hand.

Without one the installation goes on, and `trackside.curves` does the same with numpy.
"""

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("src", "trackside", "curves", "scan.c")


class ScanBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        source = Path(self.root, SOURCE)
        library = source.with_suffix(".so")
        if not compiled(source, library):
            self.app.display_warning("No C compiler: event files are read with numpy, more slowly.")
            return
        build_data["artifacts"].append(f"/{SOURCE.with_suffix('.so').as_posix()}")
        if version != "editable":
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            # No part of Python's own interface is used, so any version of Python will do.
            build_data["tag"] = f"py3-none-{platform}"
            build_data["pure_python"] = False


def compiled(source: Path, library: Path) -> bool:
    compiler = shlex.split(os.environ.get("CC", "cc"))
    made = library.with_suffix(f".{os.getpid()}")
    command = [*compiler, "-O3", "-std=gnu99", "-shared", "-fPIC", "-o", str(made), str(source)]
    try:
        subprocess.run(command, check=True, capture_output=True)
        made.replace(library)  # a running process keeps the one it has loaded
    except (OSError, subprocess.CalledProcessError):
        library.unlink(missing_ok=True)  # rather none than one of another source
        return False
    return True


if __name__ == "__main__":
    sys.exit(not compiled(SOURCE, SOURCE.with_suffix(".so")))
