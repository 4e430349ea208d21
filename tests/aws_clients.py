"""The clients that people have for AWS, unmodified, in environments of their own."""

import os
import shutil
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_ENVIRONMENTS = {1: ".venv-clients-1", 2: ".venv-clients", 3: ".venv-clients-3"}
"""By the version of SageMaker's SDK; the command-line programs are with the second."""


def program(name: str, *, sdk: int = 2) -> str:
    """Skips without the environment, unless TRACKSIDE_REQUIRE names the clients."""
    environment = _ENVIRONMENTS[sdk]
    path = _ROOT / environment / "bin" / name
    if not path.exists():
        missing_clients(f"{name} is not in {environment}; `.ci/clients` makes it")
    return str(path)


def second_aws_cli() -> str:
    """Version 2 of the AWS CLI is on no package index; Debian has one."""
    found = shutil.which("aws", path="/usr/bin:/usr/local/bin")
    if found is None:
        missing_clients("version 2 of the AWS CLI is not installed; `apt-get install awscli` does")
    assert found is not None
    return found


def missing_clients(reason: str) -> None:
    if "clients" in os.environ.get("TRACKSIDE_REQUIRE", "").split(","):
        pytest.fail(reason)
    pytest.skip(reason)
