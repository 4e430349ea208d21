"""Runs what an image defines instead of the toolkit: its own command (ContainerEntrypoint), with
the job's interpreter on PATH, or a function (SAGEMAKER_TRAINING_MODULE).

`python3`, `pip`, `torchrun` and the programs of all its packages are those of an overlay: a command
may install packages as in a container, without changing the interpreter below.
"""

import os
import sys
from typing import NoReturn

from trackside.errors import ToolkitError
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


def call_training_module(named: str, log_level: int) -> None:
    """SAGEMAKER_TRAINING_MODULE: a function of the image runs instead of the script."""
    import logging  # 6 ms that a command need not wait for
    from importlib import import_module

    module_name, _, function_name = named.partition(":")
    if not module_name or not function_name:
        raise ToolkitError(
            f"SAGEMAKER_TRAINING_MODULE = {named!r}. It has the form 'package.module:function'."
        )
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as missing:
        if not f"{module_name}.".startswith(f"{missing.name}."):
            raise
        raise ToolkitError(
            f"SAGEMAKER_TRAINING_MODULE = {named!r}, and there is no module {missing.name!r}."
        ) from missing
    # After the import, so that a framework may set up logging first.
    logging.basicConfig(format=log.FORMAT, level=log_level)
    try:
        function = getattr(module, function_name)
    except AttributeError:
        raise ToolkitError(
            f"SAGEMAKER_TRAINING_MODULE = {named!r}, and {module_name} has no {function_name!r}."
        ) from None
    log.info(f"{named} takes over.")
    function()
