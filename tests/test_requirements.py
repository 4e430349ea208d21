"""What CI and the container install is pinned: all of it, with hashes, and by name alone."""

import hashlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parents[1]
PINS = sorted((PROJECT / "requirements").glob("*.txt"))
LEFT_OUT = {"torch", "trackside"}
"""Torch's file differs between machines; its version is pinned by pyproject.toml."""


def pins(file: str) -> dict[str, str]:
    text = (PROJECT / "requirements" / f"{file}.txt").read_text()
    return {
        canonicalize_name(name): version
        for name, version in re.findall(r"(?m)^([\w.-]+)==(\S+)", text)
    }


def asked_for(extra: str) -> dict[str, Requirement]:
    """What pyproject.toml names for an extra, and for those that it is made of."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    found: dict[str, Requirement] = {}
    lines = [*project["dependencies"], *project["optional-dependencies"][extra]]
    while lines:
        requirement = Requirement(lines.pop())
        if requirement.name == "trackside":
            lines += [
                line
                for each in requirement.extras
                for line in project["optional-dependencies"][each]
            ]
        else:
            found[canonicalize_name(requirement.name)] = requirement
    return found


def asked_for_beside(file: str) -> dict[str, Requirement]:
    lines = (PROJECT / "requirements" / f"{file}.in").read_text().splitlines()
    wanted = [
        Requirement(line.partition("#")[0]) for line in lines if line.partition("#")[0].strip()
    ]
    return {canonicalize_name(each.name): each for each in wanted}


@pytest.mark.parametrize("path", PINS, ids=lambda path: path.stem)
def test_every_pin_has_a_version_and_hashes_and_names_no_place(path: Path):
    text = path.read_text()
    entries = text.replace("\\\n", " ").splitlines()[1:]
    form = r"[\w.-]+==[\w.+!]+(?: ; [^\\]+?)?(?:\s+--hash=sha256:[0-9a-f]{64})+"
    assert [entry for entry in entries if not re.fullmatch(form, entry.strip())] == []
    assert not set(pins(path.stem)) & LEFT_OUT


@pytest.mark.parametrize(
    ("file", "extra"),
    [
        ("server", "server"),
        ("smoke", "server"),
        ("dev", "dev"),
        ("clients", "server"),
        ("clients-1", "server"),
        ("clients-3", "server"),
    ],
)
def test_requirements_of_pyproject_are_pinned(file: str, extra: str):
    pinned = pins(file)
    wanted = asked_for(extra) | asked_for_beside("build")
    if (PROJECT / "requirements" / f"{file}.in").exists():
        wanted |= asked_for_beside(file)
    wrong = [
        f"{name}: {requirement} is asked for, and {pinned.get(name, 'nothing')} is pinned"
        for name, requirement in wanted.items()
        if name not in LEFT_OUT
        and not requirement.specifier.contains(pinned.get(name, ""), prereleases=True)
    ]
    assert wrong == [], "`requirements/lock` brings it up to date"


def test_the_container_installs_what_is_pinned():
    page = (PROJECT / "docs" / "operations.md").read_text()
    assert "--no-deps --require-hashes -r /src/requirements/server.txt" in page
    copied = [name for line in re.findall(r"(?m)^COPY (.*) \S+$", page) for name in line.split()]
    assert {"pyproject.toml", "requirements", "src"} <= set(copied)
    assert [name for name in copied if not (PROJECT / name).exists()] == []


def test_a_file_with_another_hash_is_refused_with_a_way_out(tmp_path: Path):
    wheel = tmp_path / "nothing-1.0-py3-none-any.whl"
    wheel.write_bytes(b"not what was pinned")
    hash_of_another = hashlib.sha256(b"what was pinned").hexdigest()
    pinned = tmp_path / "pins.txt"
    pinned.write_text(f"nothing==1.0 --hash=sha256:{hash_of_another}\n")
    options = ("--no-index", "--find-links", str(tmp_path), "--dry-run")
    done = subprocess.run(
        [str(PROJECT / ".ci" / "install"), sys.prefix, str(pinned), ".", *options],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "HASHES" in done.stderr
    assert "pins.txt cannot be installed as pinned" in done.stderr
    assert "make install PINS=" in done.stderr


@pytest.mark.parametrize(
    ("refuses", "words"),
    [("*ensurepip*", "apt-get install python3-venv"), ("*version_info*", "needs Python 3.11")],
    ids=["without venv", "too old"],
)
def test_an_unsupported_python_is_named_in_the_error(tmp_path: Path, refuses: str, words: str):
    """Debian's lacks what makes environments until another package is installed."""
    python = tmp_path / "python3"
    lines = ("#!/bin/sh", f'case "$*" in {refuses}) echo 3.10.2; exit 1;; esac')
    python.write_text("\n".join((*lines, f'exec {sys.executable} "$@"')))
    python.chmod(0o755)
    command = ["make", "install", f"PYTHON={python}", f"VENV={tmp_path / 'venv'}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True)
    assert done.returncode != 0
    assert words in done.stderr
    assert not (tmp_path / "venv").exists()
