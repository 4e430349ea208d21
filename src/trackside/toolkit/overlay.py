"""An environment on top of the running interpreter's: its packages stay visible, none is changed.

A cached overlay counts once its marker is there; whatever a killed build left is built anew.
"""

import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Sequence

from trackside.permissions import close_tree_to_others, make_folder, private_opener
from trackside.toolkit.requirements import site_folders

_MARKER = ".complete"


def cached_overlay(cache: str, key: str, paths: Sequence[str], fill: Callable[[str], None]) -> str:
    """The folder of the overlay with this key; `fill` installs into a new one.

    Several jobs may ask at once: one builds, the others wait for it.
    """
    folder = os.path.join(cache, key)
    marker = os.path.join(folder, _MARKER)
    if os.path.exists(marker):
        return folder
    make_folder(cache)
    with open(f"{folder}.lock", "w", opener=private_opener) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(marker):
            new_overlay(folder, paths)
            fill(folder)
            close_tree_to_others(folder)
            # Its scripts name its path, so it cannot be built elsewhere and moved.
            with open(marker, "w", opener=private_opener):
                pass
    return folder


def new_overlay(folder: str, paths: Sequence[str]) -> None:
    """An empty one, in place of whatever is there, on top of the packages in `paths`."""
    import venv

    shutil.rmtree(folder, ignore_errors=True)
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    lines = [f"import site; site.addsitedir({path!r})\n" for path in site_folders(paths)]
    with open(os.path.join(packages_of(folder), "_trackside_parent.pth"), "w") as file:
        file.writelines(lines)


def python_of(folder: str) -> str:
    return os.path.join(folder, "bin", "python")


def packages_of(folder: str) -> str:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return os.path.join(folder, "lib", version, "site-packages")
