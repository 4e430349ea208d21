"""Opaque positions in a listing that clients pass back: bound to the parameters of the listing.

Untrusted: a position is accepted only in the form that its listing creates.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from trackside.api.bounded_json import read_json
from trackside.api.validation import invalid
from trackside.jobs.index import Order

_DIGEST_CHARACTERS = 16
_PAGING = ("NextToken", "MaxResults", "nextToken", "limit", "startFromHead")
_COUNTED_MOST = 2**53
_COLUMNS = {"name": str, "status": str, "created": float, "modified": float}

Form = type | tuple["Form", ...] | None
"""A number, a text, a truth; several of them in this order; None for what may be null or a list."""


def key_form(order: Order) -> tuple[Form, ...]:
    """Of a position between two jobs in this order."""
    return tuple(_COLUMNS[column] for column in order.value)


def token(params: Mapping[str, Any], position: Any) -> str:
    text = json.dumps([_digest(params), position], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode()


def position_in(given: str, params: Mapping[str, Any], form: Form) -> Any:
    """ValidationException for an invalid token, or one of another listing."""
    try:
        digest, position = read_json(base64.b64decode(given, b"-_", validate=True))
    except (binascii.Error, ValueError, TypeError):
        raise invalid("Invalid pagination token.") from None
    if digest != _digest(params):
        raise invalid("Invalid pagination token: it belongs to a listing with other conditions.")
    if not _matches(position, form):
        raise invalid("Invalid pagination token.")
    return position


def position_after(given: str, params: Mapping[str, Any], order: Order) -> tuple[Any, int]:
    """A position between two jobs (None: before all), and how many of the following items were
    listed."""
    after, skip = position_in(given, params, (None, int))
    if after is not None and not _matches(after, key_form(order)):
        raise invalid("Invalid pagination token.")
    return None if after is None else tuple(after), skip


def _matches(position: Any, form: Form) -> bool:
    match form:
        case None:
            return position is None or isinstance(position, list)
        case tuple():
            is_list = isinstance(position, list) and len(position) == len(form)
            return is_list and all(_matches(*each) for each in zip(position, form, strict=True))
    if form is float:
        return type(position) in (int, float)
    if form is int:
        return type(position) is int and 0 <= position <= _COUNTED_MOST
    if isinstance(position, str) and "\0" in position:
        return False
    return type(position) is form


def _digest(params: Mapping[str, Any]) -> str:
    conditions = {key: value for key, value in params.items() if key not in _PAGING}
    text = json.dumps(conditions, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARACTERS]
