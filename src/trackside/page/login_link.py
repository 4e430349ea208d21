"""One-time links to a server's page: made by whoever has an access key, without asking the server.

A link holds the key's id, its end, a random number and an HMAC of them by the key's secret, which
itself is not in it.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable

from trackside.quick_dataclass import dataclass

VALID_SECONDS = 300
_SKEW_SECONDS = 300
"""How much the clock of a link's maker may be ahead."""
_PURPOSE = b"trackside page login 1\n"
_LONGEST = 512


@dataclass(frozen=True, slots=True)
class Link:
    key_id: str
    nonce: str
    expires: int


def make_link(url: str, key_id: str, secret: str, now: float) -> str:
    """The address to open in a browser; `url` is the server's."""
    fields = f"{key_id}\n{int(now) + VALID_SECONDS}\n{secrets.token_hex(16)}"
    token = f"{fields}\n{_signed(fields, secret)}"
    return f"{url}/ui/login/{base64.urlsafe_b64encode(token.encode()).decode().rstrip('=')}"


def read_link(token: str, secret_of: Callable[[str], str | None], now: float) -> Link | None:
    """None for one that is wrong or over; whether it was used before is not looked at."""
    fields, _, signature = _decoded(token).rpartition("\n")
    key_id, _, rest = fields.partition("\n")
    expires, _, nonce = rest.partition("\n")
    secret = secret_of(key_id) if key_id else None
    # As long for an unknown key as for a wrong signature.
    is_signed = hmac.compare_digest(_signed(fields, secret or "none").encode(), signature.encode())
    if secret is None or not is_signed or not (expires.isascii() and expires.isdigit()):
        return None
    is_valid = now <= int(expires) <= now + VALID_SECONDS + _SKEW_SECONDS
    return Link(key_id, nonce, int(expires)) if is_valid else None


def _decoded(token: str) -> str:
    if len(token) > _LONGEST:
        return ""
    try:
        padded = token + "=" * (-len(token) % 4)
        return base64.b64decode(padded, b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return ""


def _signed(fields: str, secret: str) -> str:
    return hmac.new(secret.encode(), _PURPOSE + fields.encode(), hashlib.sha256).hexdigest()
