"""CloudWatch's filter patterns: by words of a line, and by fields of a line of JSON. Pure.

Regular expressions and columns are refused: a pattern must not be able to hold up the server.
"""

import re
from collections.abc import Callable

from trackside.api.call import ServiceError
from trackside.api.log_json_pattern import Malformed, json_pattern

Fits = Callable[[str], bool]
"""Whether a message does."""

_TERM = re.compile(r'([-?]?)(?:"((?:[^"\\]|\\.)*)"|([^\s"]+))\s*')


def pattern(text: str) -> Fits:
    """`InvalidParameterException` for what is none. Empty fits everything."""
    text = text.strip()
    try:
        if text.startswith(("[", "%")):
            raise Malformed(
                "columns and regular expressions are not offered here; "
                'write word, "a phrase", ?either ?or, -without, or { $.field = value }'
            )
        return json_pattern(text) if text.startswith("{") else _words(text)
    except Malformed as error:
        text = f"Invalid filter pattern {text!r}: {error}."
        raise ServiceError("InvalidParameterException", text) from None


def _words(text: str) -> Fits:
    terms: dict[str, list[str]] = {"": [], "?": [], "-": []}
    position = 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None:
            raise Malformed("a quote is open")
        sign, quoted, bare = match.groups()
        terms[sign].append(bare if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
        position = match.end()

    def fits(message: str) -> bool:
        return (
            all(term in message for term in terms[""])
            and (not terms["?"] or any(term in message for term in terms["?"]))
            and not any(term in message for term in terms["-"])
        )

    return fits
