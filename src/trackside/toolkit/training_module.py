"""SAGEMAKER_TRAINING_MODULE: a function of the image takes over instead of the toolkit."""

import logging
from importlib import import_module

from trackside.errors import ToolkitError
from trackside.toolkit import log


def call_hook(named: str, log_level: int) -> None:
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
