"""Makes a job's text safe to print on a terminal."""

import re

# Control characters except tab and newline, those that change the direction of text, and lone
# surrogates, which cannot be encoded.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str) -> str:
    """The text with every character that could control a terminal escaped."""
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    """For a cell of a table, or a line among others."""
    return visible(" ".join(text.split()))
