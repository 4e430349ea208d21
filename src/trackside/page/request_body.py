"""Bodies of requests, bounded in size and time."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from trackside.page.problems import BadRequest, TooLarge

BODY_MOST_BYTES = 4 << 20
LOGIN_MOST_BYTES = 4 << 10
_SECONDS = 30.0


async def read_json(request: Request, most: int = BODY_MOST_BYTES) -> Mapping[str, Any]:
    """`BadRequest` unless the body is a JSON object."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise BadRequest(f"The body is {kind!r}; it should be 'application/json'.")
    body = await read_body(request, most)
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise BadRequest("The body is not JSON.") from None
    if not isinstance(found, dict):
        raise BadRequest("The body is not a JSON object.")
    if b"\\u" in body and _has_half_characters(found):
        raise BadRequest("The body has halves of characters, such as \\ud83d.")
    return found


def _has_half_characters(value: Any) -> bool:
    """JSON can escape them; no file, database or terminal takes them."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


async def read_body(request: Request, most: int = BODY_MOST_BYTES) -> bytes:
    parts, size = [], 0
    try:
        async with asyncio.timeout(_SECONDS):
            async for chunk in request.stream():
                parts.append(chunk)
                size += len(chunk)
                if size > most:
                    raise TooLarge(f"The body has more than {most >> 10:,} KB.")
    except TimeoutError:
        raise BadRequest(f"The body did not arrive within {_SECONDS:g} s.") from None
    return b"".join(parts)
