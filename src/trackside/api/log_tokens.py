"""Tokens of a search through logs: the position to continue from. Untrusted input."""

from typing import Any

from trackside.api import tokens
from trackside.api.json_service import OperationCall
from trackside.api.log_responses import position_in, wrong
from trackside.api.log_search import Cursor
from trackside.api.log_streams import Position

_MOST = 1 << 62
_FORM = (bool, None, None)
"""The direction, the heads, and the position of the source."""


def token(call: OperationCall, is_forward: bool, cursor: Cursor) -> str:
    heads = [[name, *position] for name, position in cursor.heads]
    return tokens.token(call.params, [is_forward, heads, cursor.rest])


def read(given: str | None, call: OperationCall, is_forward: bool) -> tuple[bool, Cursor | None]:
    """The direction, which is that of the first page, and the position."""
    if not given:
        return is_forward, None
    match position_in(given, call, _FORM):
        case [bool(direction), [*heads], rest] if rest is None or isinstance(rest, list):
            return direction, Cursor([_head(each) for each in heads], rest)
    raise invalid()


def invalid() -> Exception:
    return wrong("The specified nextToken is invalid.")


def is_offset(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MOST


def _head(value: Any) -> tuple[str, Position]:
    match value:
        case [str(name), attempt, offset, floor] if all(map(is_offset, (attempt, offset, floor))):
            return name, Position(attempt, offset, floor)
    raise invalid()
