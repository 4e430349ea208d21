"""The clients that people have for AWS, unmodified, in an environment of their own."""

import os
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[1] / ".venv-clients" / "bin"


def program(name: str) -> str:
    """Skips without the environment, unless TRACKSIDE_REQUIRE names the clients."""
    path = PROGRAMS / name
    if not path.exists():
        missing = f"{name} is not in .venv-clients; CONTRIBUTING.md has the line that makes it"
        if "clients" in os.environ.get("TRACKSIDE_REQUIRE", "").split(","):
            pytest.fail(missing)
        pytest.skip(missing)
    return str(path)
