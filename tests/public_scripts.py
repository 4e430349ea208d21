"""The environment in which scripts as in public repositories run, with what they import."""

import os
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]


def public_scripts_python() -> str:
    """Skips without the environment, unless TRACKSIDE_REQUIRE names `public_scripts`."""
    folder = _ROOT / ".venv-public-scripts"
    if not (folder / ".made").exists():
        reason = f"there is no {folder.name}; `.ci/public_scripts` makes it"
        if "public_scripts" in os.environ.get("TRACKSIDE_REQUIRE", "").split(","):
            pytest.fail(reason)
        pytest.skip(reason)
    return str(folder / "bin" / "python")
