"""The Docker engine that `.ci/docker` starts, or the one that DOCKER_HOST names; and one of a
test's own, which it may kill."""

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from tests.machines import INSIDE, Machine
from tests.wait import until
from trackside.containers.engine_client import Engine, EngineError

PYTHON = "trackside-test/python"
"""Debian's Python 3.11 with pip, and a shell."""
SHELL = "trackside-test/shell"
"""A shell and a few programs; no Python."""
TOOLKIT = "trackside-test/toolkit"
"""As PYTHON, with sagemaker-training (its `train` is on the PATH), Open MPI and sshd."""
FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "trackside-tests/docker")
ADDRESS = os.environ.get("DOCKER_HOST") or f"unix://{FOLDER}/docker.sock"


@functools.cache
def engine_problem() -> str:
    """Why tests cannot have containers; empty when they can."""
    try:
        for image in (PYTHON, SHELL, TOOLKIT):
            Engine(ADDRESS).image(image)
    except EngineError as error:
        return f"no Docker engine for tests (.ci/docker starts one): {error}"
    return ""


def docker_engine() -> str:
    """Its address. Skips without one, unless TRACKSIDE_REQUIRE names docker."""
    if problem := engine_problem():
        _give_up(problem)
    return ADDRESS


def _give_up(problem: str) -> NoReturn:
    if "docker" in os.environ.get("TRACKSIDE_REQUIRE", "").split(","):
        pytest.fail(problem)
    pytest.skip(problem)


def docker(*arguments: str, address: str = ADDRESS) -> str:
    """What Docker's own client says."""
    command = ["docker", "--host", address, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class OwnEngine:
    """With live-restore: containers go on while it is dead. As on most machines, containerd is a
    service of its own, and not the engine's child."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.address = f"unix://{folder}/docker.sock"
        places = [f"--{name}={folder}/containerd/{name}" for name in ("root", "state")]
        socket = f"{folder}/containerd.sock"
        self._containerd = self._run("containerd", *places, f"--address={socket}")
        self._options = [
            *("--iptables=false", "--bridge=none", "--storage-driver=overlay2", "--live-restore"),
            *(f"--host={self.address}", f"--containerd={socket}"),
            *(
                f"--data-root={folder}/data",
                f"--exec-root={folder}/exec",
                f"--pidfile={folder}/pid",
            ),
        ]
        self.start()

    def start(self) -> None:
        self._process = self._run("dockerd", *self._options)
        until(self._answers)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(60)

    def close(self) -> None:
        """Containers included, or their mounts would stay."""
        if self._process.poll() is not None:
            self.start()
        for container in docker("ps", "-aq", address=self.address).split():
            Engine(self.address).remove(container)
        for process in (self._process, self._containerd):
            process.terminate()
            process.wait(60)
        subprocess.run(["umount", f"{self._folder}/data"], check=False, capture_output=True)
        shutil.rmtree(self._folder)

    def _run(self, *command: str) -> "subprocess.Popen[bytes]":
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    def _answers(self) -> bool:
        assert self._process.poll() is None, (self._folder / "log").read_text()[-2000:]
        return not _problem_of(self.address)


@contextmanager
def own_engine() -> Iterator[OwnEngine]:
    """Has the shell's image alone."""
    docker_engine()
    if os.geteuid() != 0 or not shutil.which("dockerd") or not (FOLDER / "shell.tar").exists():
        pytest.skip("an engine of the test's own needs root, dockerd and what .ci/docker has made")
    # Elsewhere than pytest's folders, whose names are too long for a socket's.
    folder = Path(tempfile.mkdtemp(prefix="trackside-docker-"))
    with closing(OwnEngine(folder)) as engine:
        docker("import", str(FOLDER / "shell.tar"), SHELL, address=engine.address)
        yield engine


@contextmanager
def engine_on(machine: Machine, name: str) -> Iterator[str]:
    """An engine that sees this machine's files and network, with one image; its address there."""
    archive = FOLDER / f"{name.rpartition('/')[2]}.tar"
    if not shutil.which("dockerd") or not archive.exists():
        _give_up("an engine on a machine needs dockerd and what .ci/docker has made")
    folder = machine.disk / "docker"
    folder.mkdir()
    places = [f"--{place}={INSIDE}/docker/{place}" for place in ("data-root", "exec-root")]
    options = ["--iptables=false", "--bridge=none", "--storage-driver=overlay2", *places]
    inside = f"unix://{INSIDE}/docker/docker.sock"
    with (folder / "log").open("wb") as log:
        engine = machine.start(
            "dockerd", *options, f"--host={inside}", f"--pidfile={INSIDE}/docker/pid", output=log
        )
    address = f"unix://{folder}/docker.sock"
    try:
        until(lambda: not _problem_of(address))
        docker("import", str(archive), name, address=address)
        yield inside
    finally:
        machine.run("sh", "-c", f"kill $(cat {INSIDE}/docker/pid)")
        engine.wait(60)
        machine.run("sh", "-c", f"umount -R {INSIDE}/docker/data-root; rm -rf {INSIDE}/docker")


def _problem_of(address: str) -> str:
    try:
        Engine(address).call("GET", "/version")
    except EngineError as error:
        return str(error)
    return ""


_RUNTIME = """#!/usr/bin/python3
import json, os, sys
words = sys.argv[1:]
if "create" in words:
    path = os.path.join(words[words.index("--bundle") + 1], "config.json")
    with open(path) as file:
        made = json.load(file)
    made["process"].pop("rlimits", None)
    with open(path, "w") as file:
        json.dump(made, file)
os.execvp("runc", ["runc", *words])
"""
"""Podman as root raises limits, which root itself may not do in a small machine."""


@contextmanager
def podman_on(machine: Machine, name: str) -> Iterator[str]:
    """As `engine_on`, by Podman."""
    archive = FOLDER / f"{name.rpartition('/')[2]}.tar"
    if not shutil.which("podman") or not shutil.which("catatonit") or not archive.exists():
        _give_up("Podman on a machine needs podman, catatonit and what .ci/docker has made")
    folder = machine.disk / "podman"
    folder.mkdir()
    runtime = folder / "runtime"
    runtime.write_text(_RUNTIME)
    runtime.chmod(0o755)
    podman = [
        *("podman", f"--root={INSIDE}/podman/root", f"--runroot={INSIDE}/podman/run"),
        *(f"--runtime={INSIDE}/podman/runtime", "--cgroup-manager=cgroupfs"),
        *("--storage-driver=overlay", "--events-backend=file"),
    ]
    made = machine.run(*podman, "import", "-c", "ENV PATH=/usr/bin:/bin", str(archive), name)
    assert made.returncode == 0, made.stderr
    inside = f"unix://{INSIDE}/podman/podman.sock"
    with (folder / "log").open("wb") as log:
        service = machine.start(*podman, "system", "service", "--time=0", inside, output=log)
    try:
        until(lambda: not _problem_of(f"unix://{folder}/podman.sock"))
        yield inside
    finally:
        service.terminate()
        service.wait(60)
        unmount = f"umount -R {INSIDE}/podman/root/overlay {INSIDE}/podman/root"
        machine.run("sh", "-c", f"{unmount}; rm -rf {INSIDE}/podman")
