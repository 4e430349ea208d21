"""Starts a command of the image's own (ContainerEntrypoint) with the job's interpreter on PATH.

`python3`, `pip`, `torchrun` and the programs of all its packages are those of an overlay: a command
may install as in a container of its own, and changes nothing of the interpreter beneath.
"""

import os
import sys
from typing import NoReturn

from trackside.toolkit import log
from trackside.toolkit.environment import base_folder, process_variables, take_log
from trackside.toolkit.install import interpreter_paths
from trackside.toolkit.overlay import add_programs, new_overlay, programs_of


def main() -> NoReturn:
    """Becomes the command in the arguments."""
    log.read_from(take_log())
    variables = process_variables({})
    overlay = os.path.join(base_folder(), ".overlay")
    paths = interpreter_paths()
    new_overlay(overlay, paths)
    add_programs(overlay, paths)
    variables["PATH"] = os.pathsep.join([programs_of(overlay), variables.get("PATH", os.defpath)])
    command = sys.argv[1:]
    try:
        os.execvpe(command[0], command, variables)
    except OSError as error:
        log.error(f"{command[0]!r} cannot be started: {error.strerror}")
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)  # as a shell would
