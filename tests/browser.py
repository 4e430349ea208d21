"""A page in a real browser: what it shows once its script has run, and what it complains about."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Shown:
    dom: str
    """As it is after the script."""
    complaints: list[str]
    """What the console said."""

    @property
    def is_drawn(self) -> bool:
        return 'data-drawn="yes"' in self.dom


def show(page: Path, profile: Path) -> Shown:
    """Open a page from disk. Skips without a browser, unless TRACKSIDE_REQUIRE names it."""
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={profile}",
        "--enable-logging=stderr",
        "--virtual-time-budget=3000",
        "--dump-dom",
    ]
    done = subprocess.run(
        [program(), *options, page.absolute().as_uri()], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return Shown(done.stdout, re.findall(r":CONSOLE.*", done.stderr))


def program() -> str:
    for name in PROGRAMS:
        if program := shutil.which(name):
            return program
    message = f"none of {', '.join(PROGRAMS)} is installed"
    if "browser" in os.environ.get("TRACKSIDE_REQUIRE", "").split(","):
        pytest.fail(message)
    pytest.skip(message)
