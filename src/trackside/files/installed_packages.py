"""Which packages an interpreter could import, by the names of their metadata folders: nothing of
them is imported or opened. Also for the older Pythons of containers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress

_METADATA = re.compile(
    r"(?P<name>.+?)-(?P<version>[^-]+)(?:\.dist-info|(?:-py[\d.]+)?\.egg-info)", re.DOTALL
)


def installed_packages(folders: Sequence[str]) -> dict[str, str]:
    """Name to version, sorted; of a package in several folders, the first is imported."""
    found: dict[str, str] = {}
    for folder in folders:
        with suppress(OSError):
            for entry in os.listdir(folder or os.curdir):
                if metadata := _METADATA.fullmatch(entry):
                    name = metadata["name"].replace("_", "-").lower()
                    found.setdefault(name, metadata["version"])
    return dict(sorted(found.items()))
