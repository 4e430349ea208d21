"""Public names, loaded on first use so that the in-container half stays light."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from trackside.errors import TracksideError as TracksideError
    from trackside.spec import JobSpec as JobSpec

_HOMES = {
    "JobSpec": "trackside.spec",
    "TracksideError": "trackside.errors",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'trackside' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
