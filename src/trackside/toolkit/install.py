"""Installs what the source requires, before the script: requirements.txt, or its own package.

In a container pip changes the running interpreter, as on SageMaker. If the interpreter belongs to a
user (TRACKSIDE_OVERLAYS is set), everything goes into an overlay.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable

from trackside.errors import CommandFailed, StoppedEarly, ToolkitError
from trackside.toolkit import log
from trackside.toolkit.entry_point import EntryPoint, Interpreter, Kind
from trackside.toolkit.environment import Job, process_variables
from trackside.toolkit.overlay import (
    add_programs,
    cached_overlay,
    new_overlay,
    packages_of,
    programs_of,
    python_of,
)
from trackside.toolkit.process import StopSignals, run
from trackside.toolkit.requirements import FILE_NAME, fingerprint, is_satisfied


def install(job: Job, entry_point: EntryPoint, signals: StopSignals) -> Interpreter:
    """Install into the right place, in the current folder; returns the interpreter that has it."""
    is_package = entry_point.kind is Kind.PACKAGE
    has_requirements = os.path.isfile(FILE_NAME)
    paths = interpreter_paths()
    if not is_package and (not has_requirements or is_satisfied(FILE_NAME, paths)):
        return Interpreter(sys.executable)
    if not any(os.path.isdir(os.path.join(path, "pip")) for path in paths):
        raise ToolkitError(
            f"The source has requirements, and {sys.executable} has no pip. "
            f"Run `{sys.executable} -m ensurepip`, or install the packages beforehand."
        )
    wanted = ["."] if is_package else []
    wanted += ["-r", FILE_NAME] if has_requirements else []
    kind = "InstallModuleError" if is_package else "InstallRequirementsError"
    if job.settings.overlays is None:
        _pip(kind, [], wanted, signals)
        return Interpreter(sys.executable)
    key = None if is_package else fingerprint(FILE_NAME, job.settings.pip_options, paths)
    fill = _filler(kind, wanted, signals)
    if key is not None:
        folder = cached_overlay(job.settings.overlays, key, paths, fill)
        return Interpreter(python_of(folder), folder)
    folder = os.path.join(job.settings.base, ".overlay")
    new_overlay(folder, paths)
    fill(folder)
    return Interpreter(python_of(folder), folder, is_temporary=True)


def put_on_path(job: Job, interpreter: Interpreter) -> Interpreter:
    """The same for commands that run `python`, `pip` or `torchrun` by name: in an overlay of the
    job's own, so that installs change neither the machine's packages nor those of other jobs.
    """
    own = os.path.join(job.settings.base, ".overlay")
    lower = interpreter.overlay if interpreter.overlay != own else None
    paths = [*([packages_of(lower)] if lower else []), *interpreter_paths()]
    if interpreter.overlay != own:
        new_overlay(own, paths)
    add_programs(own, paths)
    programs = [programs_of(own), *([programs_of(lower)] if lower else [])]
    beside = os.path.dirname(sys.executable)
    if beside not in process_variables({}).get("PATH", "").split(os.pathsep):
        programs.append(beside)
    return Interpreter(python_of(own), own, is_temporary=True, programs=tuple(programs))


def interpreter_paths() -> list[str]:
    """Where the script's interpreter finds packages, also if ours was started without them."""
    if not sys.flags.no_site:
        return sys.path
    command = [sys.executable, "-c", "import sys; print(*sys.path[1:], sep='\\0', end='')"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")


def discard(interpreter: Interpreter) -> None:
    """Remove what was created for this job only."""
    if interpreter.overlay is not None and interpreter.is_temporary:
        shutil.rmtree(interpreter.overlay, ignore_errors=True)


def _filler(kind: str, wanted: list[str], signals: StopSignals) -> Callable[[str], None]:
    return lambda folder: _pip(kind, ["--python", python_of(folder)], wanted, signals)


def _pip(kind: str, where: list[str], wanted: list[str], signals: StopSignals) -> None:
    # A file of the source with the name of a pip module must not replace it.
    safe = "-P" if sys.version_info >= (3, 11) else "-I"
    command = [sys.executable, safe, "-m", "pip", *where, "install", *wanted]
    log.info(f"Installing: {' '.join(command)}")
    quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    began = time.monotonic()
    ended = run(command, process_variables(quiet), signals)
    if signals.received:
        raise StoppedEarly(signals.name)
    if ended.code != 0:
        raise CommandFailed(
            kind,
            ended.code,
            output=ended.output,
            command=" ".join(command),
            seconds=time.monotonic() - began,
        )
