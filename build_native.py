"""Build hook: compiles the C sources if there is a compiler, builds the page, records the commit.

Without a compiler the wheel is pure Python: `curves` then uses numpy, `capture` torch.
Without Node, or without a network, it has no page: `build_page.py` builds that.
An editable installation also gets a path file for `smdebug`, which a wheel has at a fixed location.
"""

import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = (
    Path("src", "trackside", "curves", "scan.c"),
    Path("src", "trackside", "capture", "copying", "reduce.c"),
)
ALIAS = Path("src", "trackside", "smdebug_alias", "trackside_smdebug.pth")
COMMIT = Path("src", "trackside", "commit.txt")
"""Only in what is built; `trackside --version` reads it. An editable installation reads `.git`."""
BUILD_PAGE = "TRACKSIDE_BUILD_PAGE"
"""`0` builds no page; with `1` a page that cannot be built is an error."""


class NativeBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if version == "editable":
            build_data["force_include_editable"][alias_path(root)] = ALIAS.name
        elif name := commit(root):
            target = COMMIT if self.target_name == "sdist" else COMMIT.relative_to("src")
            build_data["force_include"][temporary(COMMIT.name, name)] = target.as_posix()
        self._build_page(root, build_data)
        if self.target_name == "wheel":
            self._compile(root, version, build_data)

    def dependencies(self) -> list[str]:
        """Node, for builds in isolation on a machine that has none."""
        page = page_builder(Path(self.root))
        if page is None or skips_page() or page.is_current(Path(self.root)) or page.system_node():
            return []
        return [page.NODE_REQUIREMENT]

    def _build_page(self, root: Path, build_data: dict[str, Any]) -> None:
        page = page_builder(root)
        if page is None or skips_page():
            return
        try:
            page.build(root)
        except (OSError, page.PageNotBuilt) as error:
            if os.environ.get(BUILD_PAGE) == "1":
                raise
            self.app.display_warning(f"`trackside ui` will have no page. {error}")
        build_data["artifacts"].append(f"/{page.STATIC.as_posix()}/")

    def _compile(self, root: Path, version: str, build_data: dict[str, Any]) -> None:
        made = [source for source in SOURCES if compiled(root / source)]
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


def page_builder(root: Path) -> ModuleType | None:
    """`build_page.py`, which is not on the path of a build; none in an image that lacks it."""
    file = root / "build_page.py"
    if not file.exists():
        return None
    spec = importlib.util.spec_from_file_location("build_page", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["build_page"] = module
    spec.loader.exec_module(module)
    return module


def skips_page() -> bool:
    return os.environ.get(BUILD_PAGE) == "0"


def commit(root: Path) -> str:
    """The commit of a clone, with a note if files differ from it; empty outside of one.

    An unpacked sdist is no clone: it has the file already.
    """
    if not (root / ".git").exists():
        return ""
    try:
        name = _git(root, "rev-parse", "HEAD")
        return f"{name} modified" if _git(root, "status", "--porcelain") else name
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def alias_path(root: Path) -> str:
    """A file that puts the alias's folder, where it is, at the end of sys.path."""
    return temporary(ALIAS.name, str(root / ALIAS.parent))


def temporary(name: str, line: str) -> str:
    path = Path(tempfile.mkdtemp(), name)
    path.write_text(f"{line}\n")
    return str(path)


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
