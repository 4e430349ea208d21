"""Opaque places in a listing, for clients to hand back: bound to the question they belong to."""

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from trackside.api.validation import invalid

_DIGEST_CHARACTERS = 16
_NOT_ASKED = ("NextToken", "MaxResults", "nextToken", "limit", "startFromHead")


def token(asked: Mapping[str, Any], place: Any) -> str:
    text = json.dumps([_digest(asked), place], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode()


def place_of(given: str, asked: Mapping[str, Any]) -> Any:
    """ValidationException for what is no token, or is one of another question."""
    try:
        digest, place = json.loads(base64.b64decode(given, b"-_", validate=True))
    except (binascii.Error, ValueError, TypeError):
        raise invalid("Invalid pagination token.") from None
    if digest != _digest(asked):
        raise invalid("Invalid pagination token: it belongs to a listing with other conditions.")
    return place


def _digest(asked: Mapping[str, Any]) -> str:
    conditions = {key: value for key, value in asked.items() if key not in _NOT_ASKED}
    text = json.dumps(conditions, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARACTERS]
