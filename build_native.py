"""Build hook: compiles the event-file scanner and the reductions where a C compiler is at hand.

Without one the installation goes on: `curves` then does the same with numpy, `capture` with torch.
For an editable installation it also says where `smdebug` is, which a wheel has at a fixed place.
"""

import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = (
    Path("src", "trackside", "curves", "scan.c"),
    Path("src", "trackside", "capture", "taking", "reduce.c"),
)


ALIAS = Path("src", "trackside", "smdebug_alias", "trackside_smdebug.pth")


class NativeBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        if version == "editable":
            build_data["force_include_editable"][alias_path(Path(self.root))] = ALIAS.name
        made = [source for source in SOURCES if compiled(Path(self.root, source))]
        for source in SOURCES:
            if source not in made:
                self.app.display_warning(f"{source.name} was not compiled: slower without.")
        if not made:
            return
        build_data["artifacts"] += [f"/{each.with_suffix('.so').as_posix()}" for each in made]
        if version != "editable":
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            # No part of Python's own interface is used, so any version of Python will do.
            build_data["tag"] = f"py3-none-{platform}"
            build_data["pure_python"] = False


def alias_path(root: Path) -> str:
    """A file that puts the alias's folder, where it is, at the end of sys.path."""
    made = Path(tempfile.mkdtemp(), ALIAS.name)
    made.write_text(f"{root / ALIAS.parent}\n")
    return str(made)


def compiled(source: Path) -> bool:
    library = source.with_suffix(".so")
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
    sys.exit(sum(not compiled(source) for source in SOURCES))
