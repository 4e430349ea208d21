"""Text that a job wrote, made harmless for the terminals of people."""

import re

# Control characters but tab and newline, those that turn the direction of text, and halves of
# surrogate pairs, which cannot be written at all.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str) -> str:
    """The text with every character that could steer or stop a terminal written as its escape."""
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    """For a cell of a table, or a line among others."""
    return visible(" ".join(text.split()))
