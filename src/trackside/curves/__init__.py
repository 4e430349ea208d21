"""TensorBoard event files: writing, chunking, reading and comparing. Public names are loaded on
first use.

`records` frames, `wire` encodes, `event_writer` writes, `chunks` names what is synced,
`event_reader` reads, `log_metrics` extracts metrics from logs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trackside.curves.event_reader import Curves as Curves
    from trackside.curves.event_reader import Follower as Follower
    from trackside.curves.event_reader import read as read
    from trackside.curves.merging import merge as merge

_HOMES = {
    "Curves": "trackside.curves.event_reader",
    "Follower": "trackside.curves.event_reader",
    "merge": "trackside.curves.merging",
    "read": "trackside.curves.event_reader",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'trackside.curves' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
