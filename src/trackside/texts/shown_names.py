"""Job names as users write them, which may have `.` and `_`, and as on the wire, where only dashes
are allowed.

The mapping is one-to-one, so nothing has to be stored: `my_run.v2` is `my-run-v2--x5` on the wire.
The code at its end encodes what each dash stands for.
"""

import re

JOB_NAME = "[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}"
"""As on the wire."""
MOST_CHARACTERS = 63

_SHOWN = "[a-zA-Z0-9]+([._-]+[a-zA-Z0-9]+)*"
_SEPARATORS = "-_."
_MARK = "--x"
_CODED = f"(?P<words>.+){_MARK}(?P<code>[1-9a-z][0-9a-z]*)"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def wire_name(shown: str) -> str:
    """A text that is neither is returned unchanged."""
    if with_dashes(shown) == shown or not re.fullmatch(_SHOWN, shown):
        return shown
    return f"{with_dashes(shown)}{_MARK}{_code(shown)}"


def shown_name(wire: str) -> str:
    """The job's name for users; usually the same."""
    coded = re.fullmatch(_CODED, wire) if _MARK in wire else None
    if coded is None:
        return wire
    shown = _decoded(coded["words"], int(coded["code"], 36))
    return shown if wire_name(shown) == wire else wire


def with_dashes(text: str) -> str:
    """A part of a displayed name as it appears in the name on the wire."""
    return re.sub("[._]", "-", text)


def _code(shown: str) -> str:
    number = 0
    for letter in shown:
        if letter in _SEPARATORS:
            number = number * len(_SEPARATORS) + _SEPARATORS.index(letter)
    digits = ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits


def _decoded(words: str, number: int) -> str:
    letters = []
    for letter in reversed(words):
        if letter == "-":
            number, which = divmod(number, len(_SEPARATORS))
            letter = _SEPARATORS[which]
        letters.append(letter)
    return "".join(reversed(letters))
