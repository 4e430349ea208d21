"""Opaque places in a listing, for clients to hand back: bound to the question they belong to.

Anybody can write one, so that a place is taken only in the form that its listing gives out.
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
_NOT_ASKED = ("NextToken", "MaxResults", "nextToken", "limit", "startFromHead")
_COUNTED_MOST = 2**53
_COLUMNS = {"name": str, "status": str, "created": float, "modified": float}

Form = type | tuple["Form", ...] | None
"""A number, a text, a truth; several of them in this order; None for what may be null or a list."""


def key_form(order: Order) -> tuple[Form, ...]:
    """Of a place between two jobs in this order."""
    return tuple(_COLUMNS[column] for column in order.value)


def token(asked: Mapping[str, Any], place: Any) -> str:
    text = json.dumps([_digest(asked), place], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode()


def place_of(given: str, asked: Mapping[str, Any], form: Form) -> Any:
    """ValidationException for what is no token, or is one of another question."""
    try:
        digest, place = read_json(base64.b64decode(given, b"-_", validate=True))
    except (binascii.Error, ValueError, TypeError):
        raise invalid("Invalid pagination token.") from None
    if digest != _digest(asked):
        raise invalid("Invalid pagination token: it belongs to a listing with other conditions.")
    if not _fits(place, form):
        raise invalid("Invalid pagination token.")
    return place


def place_after(given: str, asked: Mapping[str, Any], order: Order) -> tuple[Any, int]:
    """A place between two jobs (None: before all), and how much of what follows it is seen."""
    after, skip = place_of(given, asked, (None, int))
    if after is not None and not _fits(after, key_form(order)):
        raise invalid("Invalid pagination token.")
    return None if after is None else tuple(after), skip


def _fits(place: Any, form: Form) -> bool:
    match form:
        case None:
            return place is None or isinstance(place, list)
        case tuple():
            is_list = isinstance(place, list) and len(place) == len(form)
            return is_list and all(_fits(*each) for each in zip(place, form, strict=True))
    if form is float:
        return type(place) in (int, float)
    if form is int:
        return type(place) is int and 0 <= place <= _COUNTED_MOST
    if isinstance(place, str) and "\0" in place:
        return False
    return type(place) is form


def _digest(asked: Mapping[str, Any]) -> str:
    conditions = {key: value for key, value in asked.items() if key not in _NOT_ASKED}
    text = json.dumps(conditions, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARACTERS]
