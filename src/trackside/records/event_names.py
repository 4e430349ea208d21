"""What event files are called: the one thing about them that those who only list files need."""

_MARK = ".tfevents"
"""What TensorBoard's Rust loader requires in a name; its Python loader requires less."""


def is_event_file(path: str) -> bool:
    return _MARK in path.rpartition("/")[2]
