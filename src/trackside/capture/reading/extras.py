"""Imports optional dependencies, with an error that says how to install them."""

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
