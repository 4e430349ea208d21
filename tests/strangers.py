"""The environment of scripts that have never heard of Trackside, and of what they log with."""

import os
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]


def strangers_python() -> str:
    """Skips without the environment, unless TRACKSIDE_REQUIRE names the strangers."""
    folder = _ROOT / ".venv-strangers"
    if not (folder / ".made").exists():
        reason = f"there is no {folder.name}; `.ci/strangers` makes it"
        if "strangers" in os.environ.get("TRACKSIDE_REQUIRE", "").split(","):
            pytest.fail(reason)
        pytest.skip(reason)
    return str(folder / "bin" / "python")
