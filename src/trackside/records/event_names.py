"""The names of event files, for modules that only list files."""

_MARK = ".tfevents"
"""What TensorBoard's Rust loader requires in a name; its Python loader requires less."""


def is_event_file(path: str) -> bool:
    return _MARK in path.rpartition("/")[2]
