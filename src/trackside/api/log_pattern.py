"""CloudWatch's filter patterns: by terms in a line, and by fields of a line of JSON. Pure.

Regular expressions and columns are rejected: no pattern may block the server.
"""

import re
from collections.abc import Callable

from trackside.api.call import ServiceError
from trackside.api.log_json_pattern import Malformed, json_pattern
from trackside.jobs.log_prefilter import MayHold

Matcher = Callable[[str], bool]
"""Whether a message does."""

_TERM = re.compile(r'([-?]?)(?:"((?:[^"\\]|\\.)*)"|([^\s"]+))\s*')


def pattern(text: str) -> Matcher:
    """`InvalidParameterException` for an invalid pattern. An empty one matches everything."""
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


def may_hold(text: str) -> MayHold | None:
    """Whether bytes of a log may contain a matching message; None if all may.

    The pattern must be valid.
    """
    text = text.strip()
    if text.startswith("{"):
        return lambda data: b"{" in data
    terms = _terms(text)
    wanted, either = (
        [term.encode() for term in terms[sign] if _is_in_bytes(term)] for sign in ("", "?")
    )
    if len(either) < len(terms["?"]):
        either = []
    if not wanted and not either:
        return None

    def may(data: bytes) -> bool:
        return all(term in data for term in wanted) and (
            not either or any(term in data for term in either)
        )

    return may


def _is_in_bytes(term: str) -> bool:
    """Not blanks, which may be an empty line, and not the replacement character for invalid
    bytes."""
    return bool(term.strip()) and "\ufffd" not in term and term.isprintable()


def _words(text: str) -> Matcher:
    terms = _terms(text)

    def matches(message: str) -> bool:
        return (
            all(term in message for term in terms[""])
            and (not terms["?"] or any(term in message for term in terms["?"]))
            and not any(term in message for term in terms["-"])
        )

    return matches


def _terms(text: str) -> dict[str, list[str]]:
    """By their sign."""
    terms: dict[str, list[str]] = {"": [], "?": [], "-": []}
    position = 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None:
            raise Malformed("a quote is open")
        sign, quoted, bare = match.groups()
        terms[sign].append(bare if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
        position = match.end()
    return terms
