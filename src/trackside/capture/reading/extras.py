"""Imports what only some users need, with the way to get it in the message."""

from importlib import import_module
from typing import Any


def import_extra(module: str) -> Any:
    """A module of the `analysis` extra."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"This needs {module.partition('.')[0]}. "
            "Install it with: pip install 'trackside[analysis]'"
        ) from error
